"""How what ``--append`` made becomes a part of the data set, and what ``compact`` made all of it.

That is an ordinary data set in a directory of its own inside OUT, of the images that
``records.parquet`` lacks. In the end it is merged: every shard is renamed to its number of the new
count, and table and manifest are exchanged; of what was compacted the old shards are deleted. All
of that is first written down in a journal, so a merge that is killed is finished by the next run,
whichever that is; meanwhile there is no manifest.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from dataprep.errors import DatasetError
from dataprep.jobs.identity import store_grown
from dataprep.jobs.lock import Lease, check_held
from dataprep.jobs.seal import describe_split, publish_manifest
from dataprep.jobs.workspace import Workspace
from dataprep.sealed.set import SealedSet, first_rows, sink_of
from dataprep.sinks import Layout, ShardName, Sink
from dataprep.system.durable_files import sync_directory
from dataprep.system.state_files import encode, hashed, read_document, write_state
from dataprep.tables.records import RecordsTable
from dataprep.tables.sealing import WrittenRecords, write_rows
from dataprep_schemas.manifest import Generation, GenerationSplit, Input, Manifest, Shard, Split
from dataprep_schemas.state import MergeJournal

if TYPE_CHECKING:
    import pyarrow as pa


_REMEDY: Final = "move the directory away, and run the command that made the data set again"

Renames = Sequence[tuple[str, str]]
"""Present and new path of files, relative to OUT."""


# --- What the merge does, as plain values ---


def plan_merge(
    manifest: Manifest, new: Manifest, table: WrittenRecords, place: str
) -> tuple[Renames, Manifest]:
    """Which files get which names, and the manifest of the whole.

    Args:
        table: of the records of both.
        place: where what is added is, relative to OUT.
    """
    sink = sink_of(manifest)
    renames: list[tuple[str, str]] = []
    splits: dict[str, Split] = {}
    for name, split in manifest.splits.items():
        added = new.splits[name].shards if name in new.splits else ()
        before = [[file.path for file in shard.files] for shard in split.shards]
        before += [[f"{place}/{file.path}" for file in shard.files] for shard in added]
        shards = []
        for number, shard in enumerate((*split.shards, *added)):
            paths = sink.paths(ShardName(name, number, len(before)), manifest.layout)
            pairs = [*zip(before[number], map(str, paths), strict=True)]
            renames += (pair for pair in pairs if pair[0] != pair[1])
            files = zip(shard.files, pairs, strict=True)
            moved = tuple(replace(file, path=path) for file, (_, path) in files)
            shards.append(Shard(shard.records, moved))
        splits[name] = describe_split(table.splits[name], shards, split.files, split.statistics)
    # What is said of the raw data as a whole is new for all.
    return renames, hashed(
        replace(
            manifest,
            **{name: getattr(new, name) for name in _RENEWED},
            excluded=new.excluded or manifest.excluded,
            records_table=table.file,
            totals=table.totals,
            splits=splits,
            num_shards={name: len(split.shards) for name, split in splits.items()},
            input=_together(manifest.input, new.input),
            generations=(
                *(manifest.generations or (describe_generation(manifest),)),
                describe_generation(new),
            ),
        )
    )


_RENEWED: Final = ("classes", "classes_sha256", "unmatched", "counts", "versions")


def describe_generation(manifest: Manifest) -> Generation:
    """What the manifest of a grown data set says of what was made at one time."""
    splits = {
        name: GenerationSplit(len(split.shards), split.records)
        for name, split in manifest.splits.items()
    }
    return Generation(splits, manifest.input, manifest.versions)


def _together(before: Mapping[str, Input], new: Mapping[str, Input]) -> dict[str, Input]:
    """The input of both: digests are exclusive ors, whatever was hashed first."""
    together = dict(before)
    for name, more in new.items():
        split = before[name]
        digest = f"{int(split.digest, 16) ^ int(more.digest, 16):032x}"
        together[name] = Input(split.images + more.images, split.bytes + more.bytes, digest)
    return together


# --- The merge ---


def merge(grown: SealedSet, made: SealedSet, lease: Lease) -> SealedSet:
    """Make what was added a part of the data set.

    Raises:
        DatasetError: a file that is not the data set's is in the way.
        LockedError: another run has taken the directory over.
    """
    table = _join(grown, made)
    place = made.out.relative_to(grown.out).as_posix()
    renames, whole = plan_merge(grown.manifest, made.manifest, table, place)
    return exchange(grown, whole, lease, renames)


def exchange(
    before: SealedSet, new: Manifest, lease: Lease, renames: Renames | None = None
) -> SealedSet:
    """Let what was made inside OUT take the place of the data set there, or join it.

    Args:
        before: what there is so far; files that the new manifest does not name are deleted.
        renames: of shards; None: all are new.

    Raises:
        DatasetError: a file that is not the data set's is in the way.
        LockedError: another run has taken the directory over.
    """
    out, workspace = before.out, Workspace(before.out)
    there = {file.path for file in before.manifest.files()}
    names = [file.path for file in new.files()]
    place, table = workspace.generation.relative_to(out).as_posix(), new.records_table.path
    renames = renames or [(f"{place}/{path}", path) for path in names]
    for target in (target for _, target in renames if target not in there):
        if (out / target).exists():
            raise DatasetError(
                f"{out / target} is in the way: it was not written by this job, and readers would "
                "take it in; move it away, and run the same command again"
            )
    for directory in (workspace.generation, workspace.private):
        sync_directory(directory)
    journal = MergeJournal(
        manifest=new,
        renames=(*renames, (f"{place}/{table}", table)),
        deletions=tuple(sorted(there.difference(names, (source for source, _ in renames)))),
    )
    write_state(workspace.journal, journal, flush=True, check=partial(check_held, lease))
    sync_directory(workspace.private)
    finish_merge(workspace, lease)
    return SealedSet.of(out, new)


def _join(grown: SealedSet, made: SealedSet) -> WrittenRecords:
    """Write the table of records of both, in the place of the new one's."""
    import pyarrow.compute as pc

    from dataprep_schemas.tables import schema_of

    manifest, new, inside = grown.manifest, made.manifest, Workspace(made.out)
    counts = {name: len(split.shards) for name, split in manifest.splits.items()}
    added = {name: len(split.shards) for name, split in new.splits.items()}
    with (
        RecordsTable(grown.out, manifest.records_table) as before,
        RecordsTable(made.out, new.records_table) as behind,
    ):
        return write_rows(
            inside.records,
            inside.private,
            schema_of("records", behind.attributes),
            stored=chain.from_iterable(
                chain(
                    _stored(before, manifest, name),
                    _shifted(_stored(behind, new, name), counts),
                )
                for name in sorted(counts)
            ),
            # What no shard of either was to have is known of anew.
            rest=chain(
                (
                    rows.filter(pc.equal(rows["status"], "rejected"))
                    for rows in before.between(manifest.totals.records)
                ),
                _shifted(behind.between(new.totals.records), counts),
            ),
            rows=manifest.records_table.rows + new.records_table.rows,
            shards={name: count + added.get(name, 0) for name, count in counts.items()},
            multilabel=grown.info.multilabel,
        )


def _stored(table: RecordsTable, manifest: Manifest, split: str) -> Iterator[pa.Table]:
    """Rows of the records of one split."""
    if split in manifest.splits:
        start = first_rows(manifest)[split][0]
        yield from table.between(start, start + manifest.splits[split].records)


def _shifted(tables: Iterable[pa.Table], counts: Mapping[str, int]) -> Iterator[pa.Table]:
    """The same rows, whose shards come behind those that there are."""
    import pyarrow as pa

    for rows in tables:
        places = zip(rows["split"].to_pylist(), rows["shard"].to_pylist(), strict=True)
        moved = [None if shard is None else counts[split] + shard for split, shard in places]
        shards = pa.array(moved, pa.int32())
        yield rows.set_column(rows.schema.get_field_index("shard"), "shard", shards)


def finish_merge(workspace: Workspace, lease: Lease) -> bool:
    """Do what the journal says, from wherever a killed run left off; False: there is none.

    Every step may be repeated. There is no manifest until every file has its new name.

    Raises:
        DatasetError: a file is gone, or the journal is damaged.
        LockedError: another run has taken the directory over.
    """
    if not workspace.journal.exists():
        return False
    out = workspace.out
    journal = read_document(workspace.journal, MergeJournal, _REMEDY)
    pairs, gone = _checked_journal(workspace, journal)
    check_held(lease)
    workspace.manifest.unlink(missing_ok=True)
    sync_directory(out)
    for source, target in pairs:
        if source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            source.replace(target)
        elif not target.exists():
            raise DatasetError(
                f"{target} is gone, and so is {source}, from which it was to be; {_REMEDY}"
            )
    for path in gone:
        path.unlink(missing_ok=True)
    # Before a directory goes: a rename out of it that does not last leaves the file in it.
    names = (*journal.deletions, *(target for _, target in journal.renames))
    for directory in {out / above for name in names for above in Path(name).parents}:
        if directory.exists():
            sync_directory(directory)
    # Formats whose shards are directories leave those under their old names.
    for directory in sorted({path.parent for path in (*gone, *(source for source, _ in pairs))}):
        if directory != out and directory.is_dir() and not any(directory.iterdir()):
            directory.rmdir()
    store_grown(workspace, journal.manifest)
    publish_manifest(workspace, lease, encode(journal.manifest))
    for private in (workspace.commits, workspace.order, workspace.generation):
        if private.exists():
            shutil.rmtree(private)
    workspace.make()
    sync_directory(workspace.private)  # what was removed stays so once the journal is gone
    workspace.journal.unlink()
    return True


def _checked_journal(
    workspace: Workspace, journal: MergeJournal
) -> tuple[list[tuple[Path, Path]], list[Path]]:
    """What the journal says: pairs of present and new paths, and old files.

    New paths are the manifest's, and old ones what the format calls shards of its splits.
    """
    added, manifest = Workspace(workspace.generation), journal.manifest
    place = f"{added.out.relative_to(workspace.out).as_posix()}/"

    def present(name: str) -> Path:
        inner = name.removeprefix(place)
        return (workspace if inner == name else added).path_of(inner)

    pairs = [(present(old), workspace.path_of(new)) for old, new in journal.renames]
    gone = [workspace.path_of(name) for name in journal.deletions]
    made = {*(file.path for file in manifest.files()), manifest.records_table.path}
    old = [*journal.deletions, *(old for old, _ in journal.renames if not old.startswith(place))]
    sink, splits, layout = sink_of(manifest), manifest.splits, manifest.layout
    strange = {new for _, new in journal.renames} - made
    strange |= {name for name in old if not _is_shard(name, sink, splits, layout)}
    if strange or not made.isdisjoint(journal.deletions):
        raise DatasetError(f"{workspace.journal} names files that no run would; {_REMEDY}")
    return pairs, gone


def _is_shard(name: str, sink: Sink, splits: Collection[str], layout: Layout) -> bool:
    """Whether it is a file of a shard of any number of shards: ``train-00003-of-00007``."""
    found = re.search(r"(?:^|/)([^/]+)-([0-9]{5,7})-of-([0-9]{5,7})", name)
    if found is not None:
        shards = [ShardName(found[1], int(found[2]), int(found[3]))]
    else:
        shards = [ShardName(split, 0, 1) for split in splits]
    return any(
        shard.split in splits and name in map(str, sink.paths(shard, layout)) for shard in shards
    )
