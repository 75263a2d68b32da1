"""A data set that grows: images that it lacks are prepared apart, and then merged.

They are an ordinary data set in a directory of its own inside OUT. In the end every shard of it is
renamed to its number of the new count, and the tables are joined.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace as with_options
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from dataprep.errors import DatasetError, UsageError
from dataprep.formats import ShardName
from dataprep.jobs.output.lock import Lease
from dataprep.jobs.output.workspace import Workspace
from dataprep.jobs.preparing.found import RawData, config_of, found
from dataprep.jobs.preparing.prepare import make
from dataprep.jobs.preparing.summary import cannot_grow, decided_of
from dataprep.jobs.request import Request
from dataprep.jobs.running.engine import Engine, Reporter
from dataprep.jobs.running.identity import identity_of, what_differs
from dataprep.jobs.running.journal import Renames, exchange
from dataprep.jobs.running.seal import describe_split
from dataprep.sealed.set import SealedSet, first_rows, sink_of
from dataprep.system.state_files import hashed
from dataprep.tables.decisions import DECIDED_REASON
from dataprep.tables.records import RecordsTable
from dataprep.tables.sealing import WrittenRecords, write_rows
from dataprep_schemas.fields import BOX_LABELS, Field, named
from dataprep_schemas.manifest import (
    Ancestor,
    Generation,
    GenerationSplit,
    Input,
    Manifest,
    Selected,
    Shard,
    SinkConfig,
    Split,
)

if TYPE_CHECKING:
    import pyarrow as pa


def append(request: Request, engine: Engine, reporter: Reporter) -> SealedSet:
    """Prepare what is new in a directory of its own inside OUT, then make it a part of OUT.

    Raises:
        DataprepError: any of its kinds; everything committed so far is kept.
    """
    _check_options(request)
    with found(request, engine, reporter) as raw:
        grown = _read_grown(raw)
        inside = Workspace(Workspace(grown.out).generation)
        inside.make()
        made = make(raw, with_options(raw.request, out=inside.out), grown)
        if made is None:
            reporter.line(f"{grown.out} has all images already, nothing to add")
            shutil.rmtree(inside.out)  # perhaps something was begun
            return grown
        return merge(grown, made, raw.workers.lease)


def _check_options(request: Request) -> None:
    """Refuse options that --append cannot follow."""
    given = {
        "--overwrite": request.overwrite,
        "--limit": request.limit,
        "--num_shards": request.num_shards,
        "--stats": request.recipe.stats != "off",
    }
    for option in (name for name, value in given.items() if value):
        raise UsageError(
            f"{option} cannot be used with --append: new images are put into shards of the size "
            f"that there is; leave out {option}"
        )


def _read_grown(raw: RawData) -> SealedSet:
    """The data set that is to grow."""
    out = raw.request.out
    if not Workspace(out).manifest.exists():
        raise DatasetError(
            f"{out} has no finished data set to add to; leave out --append to make one, or to "
            "finish the one that was begun"
        )
    grown = SealedSet.read(out)
    grown.require_whole("added to")
    _check_can_grow(grown, boxes=bool(named(raw.found.fields, BOX_LABELS.kind)))
    for file in grown.manifest.files():
        path = out / file.path
        if not path.is_file() or path.stat().st_size != file.bytes:
            raise DatasetError(
                f"{path} is missing or damaged, and only a whole data set can grow; `dataprep "
                "verify` names all bad files; bring them back, or use --overwrite"
            )
    _check_same_options(grown, raw)
    _check_same_attributes(grown, raw)
    return grown


def _check_can_grow(grown: SealedSet, *, boxes: bool) -> None:
    manifest, sink, out = grown.manifest, grown.sink, grown.out
    single = "keep a data set in tfrecord or webdataset, let that grow, and make this of it"
    decided = decided_of(grown.manifest)
    if manifest.lineage and decided is None:
        raise cannot_grow(out, "it was converted", "let its source grow, and convert that again")
    if decided is not None and (manifest.folds or (boxes and decided.classes)):
        why = "--folds" if manifest.folds else "boxes of classes that were renamed"
        raise cannot_grow(
            out,
            f"it has {why}, and decisions were applied",
            "let its source grow, and apply them to that",
        )
    if manifest.limit is not None:
        raise cannot_grow(out, "it was made with --limit", "make it without, by --overwrite")
    for name, split in manifest.splits.items():
        count = len(split.shards)
        if split.statistics is not None:
            raise cannot_grow(out, "it has statistics (--stats)", "make it without, --overwrite")
        if sink.split_paths(name, count, manifest.layout):
            raise cannot_grow(out, f"{sink.name} has files of all of {name}", single)
        shard = ShardName(name, 0, count)
        if count == 1 and str(shard) not in str(sink.paths(shard, manifest.layout)[0]):
            raise cannot_grow(out, f"{sink.name} has one file of all of {name}", single)


def _check_same_options(grown: SealedSet, raw: RawData) -> None:
    """Refuse what would not be made as the rest was."""
    request = raw.request
    sink, theirs = request.load_sink(), identity_of(grown.manifest)
    ours = replace(
        theirs,
        dataset=request.dataset,
        dataset_config=config_of(raw),
        seed=request.seed,
        folds=request.folds,
        shuffle={name: request.shuffle_of(name) for name in grown.manifest.splits},
        image=request.recipe.config(),
        sink=SinkConfig(sink.name, dict(sink.config())),
        layout=request.layout,
    )
    if theirs != ours:
        raise DatasetError(
            f"{grown.out} was made with {what_differs(theirs, ours)}; --append needs the same "
            "options; use those, or --overwrite to start it anew"
        )


def _check_same_attributes(grown: SealedSet, raw: RawData) -> None:
    """Refuse, before anything is scanned, what the merged table would have no column for."""
    with RecordsTable(grown.out, grown.manifest.records_table) as table:
        before = table.fields[: None if raw.request.folds is None else -1]  # the last: the fold
    stored = {it.name: it for it in grown.manifest.examples.fields}  # what the format has
    before = tuple(stored.get(it.name, it) for it in before)
    new = (it if it.name in stored else Field(it.name, it.kind) for it in raw.found.fields)
    for pair in zip_longest(before, new):
        if pair[0] != pair[1]:
            was, now = (each or "none" for each in pair)
            raise DatasetError(
                f"{grown.out} was made with the attribute {was}, now there is {now}; --append "
                "needs the same ones, of the same kinds: make the raw data say what it said, or "
                "use --overwrite to start the data set anew"
            )


def plan_merge(
    manifest: Manifest, new: Manifest, table: WrittenRecords, place: str
) -> tuple[Renames, Manifest]:
    """Which files get which names, and the manifest of the whole.

    Args:
        table: of the records of both.
        place: where what is added is, relative to OUT.
    """
    sink, decided = sink_of(manifest), decided_of(manifest)
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
            excluded=manifest.excluded if decided else new.excluded or manifest.excluded,
            lineage=_grown_lineage(manifest, new),
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


def _grown_lineage(manifest: Manifest, new: Manifest) -> tuple[Ancestor, ...]:
    """The same decisions, about more raw data."""
    if (decided := decided_of(manifest)) is None:
        return manifest.lineage
    more = replace(decided, input=_together(decided.input, new.input))
    return (replace(manifest.lineage[0], selected=Selected(decided=more)),)


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


def _join(grown: SealedSet, made: SealedSet) -> WrittenRecords:
    """Write the table of records of both, in the place of the new one's."""
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
            schema_of("records", behind.fields),
            stored=chain.from_iterable(
                chain(_stored(before, manifest, name), _shifted(_stored(behind, new, name), counts))
                for name in sorted(counts)
            ),
            # What no shard of either was to have is known of anew, but for what was decided.
            rest=chain(
                (rows.filter(_stays(rows)) for rows in before.between(manifest.totals.records)),
                _shifted(behind.between(new.totals.records), counts),
            ),
            rows=manifest.records_table.rows + new.records_table.rows,
            shards={name: count + added.get(name, 0) for name, count in counts.items()},
            multilabel=grown.info.multilabel,
        )


def _stays(rows: pa.Table) -> pa.ChunkedArray:
    """Which rows of what is in no shard are not found out again."""
    import pyarrow.compute as pc

    decided = pc.fill_null(pc.ends_with(rows["reason"], DECIDED_REASON), False)
    excluded = pc.and_(pc.equal(rows["status"], "excluded"), decided)
    return pc.or_(pc.equal(rows["status"], "rejected"), excluded)


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
