"""How what ``--append`` made becomes a part of the data set, and what ``compact`` made all of it.

That is an ordinary data set in a directory of its own inside OUT, of the images that
``records.parquet`` lacks. In the end it is merged: every shard is renamed to its number of the new
count, and table and manifest are exchanged; of what was compacted the old shards are deleted. All
of that is first written down in a journal, so a merge that is killed is finished by the next run,
whichever that is; meanwhile there is no manifest.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dataprep.build.claim import is_shard, store_grown
from dataprep.build.image_job import ImageJob
from dataprep.build.lock import Lease, check_held
from dataprep.build.seal import publish_manifest, write_rows
from dataprep.build.workspace import Workspace
from dataprep.errors import DatasetError
from dataprep.sealed.manifest import (
    checked_manifest,
    dataset_info,
    manifest_sink,
    seal_manifest,
)
from dataprep.sinks import ShardName
from dataprep.system.durable_files import sync_directory
from dataprep.system.state_files import read_state, to_json, write_state
from dataprep.tables.records import RecordsTable, first_rows

if TYPE_CHECKING:
    import pyarrow as pa


# Of a generation's manifest: what is said of the raw data as a whole, and so is new for all.
_RENEWED: Final = ("classes", "classes_sha256", "unmatched", "counts", "versions")

Renames = Sequence[tuple[str, str]]
"""Present and new path of files, relative to OUT."""


# --- What the merge does, as plain values ---


def plan_merge(
    manifest: Mapping[str, Any], new: Mapping[str, Any], joined: Mapping[str, Any], place: str
) -> tuple[Renames, Mapping[str, Any]]:
    """Which files get which names, and the manifest of the whole.

    Args:
        place: where what is added is, relative to OUT.
    """
    sink, layout = manifest_sink(manifest), manifest["layout"]
    renames: list[tuple[str, str]] = []
    splits: dict[str, Any] = {}
    for name, split in manifest["splits"].items():
        added = new["splits"].get(name, {"shards": ()})["shards"]
        before = [(file["path"] for file in shard["files"]) for shard in split["shards"]]
        before += [(f"{place}/{file['path']}" for file in shard["files"]) for shard in added]
        shards = []
        for number, shard in enumerate((*split["shards"], *added)):
            paths = sink.paths(ShardName(name, number, len(before)), layout)
            files = [
                {**file, "path": str(path)}
                for file, path in zip(shard["files"], paths, strict=True)
            ]
            pairs = zip(before[number], map(str, paths), strict=True)
            renames += (pair for pair in pairs if pair[0] != pair[1])
            shards.append({**shard, "files": files})
        splits[name] = _describe(split, shards, joined["splits"][name])
    body = {
        **{key: value for key, value in manifest.items() if key != "sha256"},
        **{key: new[key] for key in (*_RENEWED, "excluded") if key in new},
        **joined,
        "splits": splits,
        "num_shards": {name: len(split["shards"]) for name, split in splits.items()},
        "input": _together(manifest["input"], new["input"]),
        "generations": [
            *manifest.get("generations", [describe_generation(manifest)]),
            describe_generation(new),
        ],
    }
    return renames, seal_manifest(body)


def describe_generation(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What the manifest of a grown data set says of what was made at one time."""
    return {
        "splits": {
            name: {"shards": len(split["shards"]), "records": split["records"]}
            for name, split in manifest["splits"].items()
        },
        "input": manifest["input"],
        "versions": manifest["versions"],
    }


def _describe(
    split: Mapping[str, Any], shards: Sequence[Mapping[str, Any]], counts: Mapping[str, Any]
) -> dict[str, Any]:
    sizes = [shard["records"] for shard in shards]
    return {
        **split,
        **counts,
        "images_found": sum(sizes) + counts["rejected"],
        "records": sum(sizes),
        "bytes": sum(file["bytes"] for shard in shards for file in shard["files"]),
        "records_per_shard": [min(sizes), max(sizes)],
        "shards": shards,
    }


def _together(
    before: Mapping[str, Mapping[str, Any]], new: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The input of both: digests are exclusive ors, whatever was hashed first."""
    nothing = {"images": 0, "bytes": 0, "digest": "0"}
    together = {}
    for name, split in before.items():
        more = new.get(name, nothing)
        digest = int(split["digest"], 16) ^ int(more["digest"], 16)
        together[name] = {
            "images": split["images"] + more["images"],
            "bytes": split["bytes"] + more["bytes"],
            "digest": f"{digest:032x}",
        }
    return together


# --- The merge ---


def merge(
    out: Path, manifest: Mapping[str, Any], job: ImageJob, new: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Make what was added a part of the data set; returns the manifest.

    Raises:
        DatasetError: a file that is not the data set's is in the way.
        LockedError: another run has taken the directory over.
    """
    joined = _join(out, manifest, job, new)
    place = job.request.out.relative_to(out).as_posix()
    renames, whole = plan_merge(manifest, new, joined, place)
    exchange(out, manifest, whole, job.lease, renames)
    return whole


def exchange(
    out: Path,
    manifest: Mapping[str, Any],
    new: Mapping[str, Any],
    lease: Lease,
    renames: Renames | None = None,
) -> None:
    """Let what was made inside OUT take the place of the data set there, or join it.

    Args:
        manifest: what it says so far; files that the new one does not name are deleted.
        renames: of shards; None: all are new.

    Raises:
        DatasetError: a file that is not the data set's is in the way.
        LockedError: another run has taken the directory over.
    """
    workspace, before = Workspace(out), {*_files(manifest)}
    place, table = workspace.generation.relative_to(out).as_posix(), new["records_table"]["path"]
    renames = renames or [(f"{place}/{path}", path) for path in _files(new)]
    for target in (target for _, target in renames if target not in before):
        if (out / target).exists():
            raise DatasetError(
                f"{out / target} is in the way: it was not written by this job, and readers would "
                "take it in; move it away, and run the same command again"
            )
    for directory in (workspace.generation, workspace.private):
        sync_directory(directory)
    journal = {
        "renames": [*renames, (f"{place}/{table}", table)],
        "deletions": sorted(before.difference(_files(new), (source for source, _ in renames))),
        "manifest": new,
    }
    write_state(workspace.journal, journal, flush=True, check=partial(check_held, lease))
    sync_directory(workspace.private)
    finish_merge(workspace, lease)


def _files(manifest: Mapping[str, Any]) -> list[str]:
    """The files of all shards."""
    shards = chain.from_iterable(split["shards"] for split in manifest["splits"].values())
    return [file["path"] for shard in shards for file in shard["files"]]


def _join(
    out: Path, manifest: Mapping[str, Any], job: ImageJob, new: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Write the table of records of both, in the place of the new one's."""
    from dataprep_schemas.tables import schema_of

    splits = manifest["splits"]
    counts = {name: len(split["shards"]) for name, split in splits.items()}
    added = {name: len(split["shards"]) for name, split in new["splits"].items()}
    rows = manifest["records_table"]["rows"] + new["records_table"]["rows"]
    with (
        RecordsTable(out, manifest["records_table"]) as before,
        RecordsTable(job.request.out, new["records_table"]) as behind,
    ):
        return write_rows(
            job.workspace.records,
            job.workspace.private,
            schema_of("records", job.attributes),
            stored=chain.from_iterable(
                chain(
                    _stored(before, manifest, name),
                    _shifted(_stored(behind, new, name), counts),
                )
                for name in sorted(splits)
            ),
            # What no shard of either was to have is known of anew.
            rest=chain(
                _rejected(before, manifest),
                _shifted(behind.between(new["totals"]["records"]), counts),
            ),
            rows=rows,
            shards={name: count + added.get(name, 0) for name, count in counts.items()},
            multilabel=dataset_info(manifest).multilabel,
        )


def _stored(table: RecordsTable, manifest: Mapping[str, Any], split: str) -> Iterator[pa.Table]:
    """Rows of the records of one split."""
    if split in manifest["splits"]:
        start = first_rows(manifest)[split][0]
        yield from table.between(start, start + manifest["splits"][split]["records"])


def _rejected(table: RecordsTable, manifest: Mapping[str, Any]) -> Iterator[pa.Table]:
    """Rows of the images that a shard was to have."""
    import pyarrow.compute as pc

    for rows in table.between(manifest["totals"]["records"]):
        yield rows.filter(pc.equal(rows["status"], "rejected"))


def _shifted(tables: Iterable[pa.Table], counts: Mapping[str, int]) -> Iterator[pa.Table]:
    """The same rows, whose shards come behind those that there are."""
    import pyarrow as pa

    for rows in tables:
        places = zip(rows["split"].to_pylist(), rows["shard"].to_pylist(), strict=True)
        moved = [None if shard is None else counts[split] + shard for split, shard in places]
        shards = pa.array(moved, pa.int32())
        yield rows.set_column(rows.schema.get_field_index("shard"), "shard", shards)


def finish_merge(workspace: Workspace, lease: Lease, *, whole: bool = True) -> bool:
    """Do what the journal says, from wherever a killed run left off; False: there is none.

    Every step may be repeated. There is no manifest until every file has its new name.

    Args:
        whole: False: the data set is about to be deleted, and files may be gone.

    Raises:
        DatasetError: a file is gone, or the journal is damaged.
        LockedError: another run has taken the directory over.
    """
    if not workspace.journal.exists():
        return False
    out, journal = workspace.out, read_state(workspace.journal)
    if journal is None:
        raise _damaged(workspace)
    check_held(lease)
    manifest, pairs, gone = _checked_journal(workspace, journal)
    workspace.manifest.unlink(missing_ok=True)
    sync_directory(out)
    for source, target in pairs:
        if source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            source.replace(target)
        elif whole and not target.exists():
            raise DatasetError(
                f"{target} is gone, and so is {source}, from which it was to be; use --overwrite "
                "to start anew"
            )
    for path in gone:
        path.unlink(missing_ok=True)
    # Before a directory goes: a rename out of it that does not last leaves the file in it.
    names = (*journal["deletions"], *(target for _, target in journal["renames"]))
    for directory in {out / above for name in names for above in Path(name).parents}:
        if directory.exists():
            sync_directory(directory)
    _remove_empty(out, {path.parent for path in (*gone, *(source for source, _ in pairs))})
    store_grown(workspace, manifest)
    publish_manifest(workspace, lease, to_json(manifest))
    for private in (workspace.commits, workspace.order, workspace.generation):
        if private.exists():
            shutil.rmtree(private)
    workspace.make()
    sync_directory(workspace.private)  # what was removed stays so once the journal is gone
    workspace.journal.unlink()
    return True


def _checked_journal(
    workspace: Workspace, journal: Mapping[str, Any]
) -> tuple[Mapping[str, Any], list[tuple[Path, Path]], list[Path]]:
    """What the journal says: the manifest to be, pairs of present and new paths, and old files.

    New paths are the manifest's, and old ones what the format calls shards of its splits.

    Raises:
        DatasetError: it says something that no run writes down.
    """
    added = Workspace(workspace.generation)
    place = f"{added.out.relative_to(workspace.out).as_posix()}/"

    def present(name: str) -> Path:
        inner = name.removeprefix(place)
        return (workspace if inner == name else added).path_of(inner)

    try:
        manifest = checked_manifest(to_json(journal["manifest"]), workspace.journal)
        sink = manifest_sink(manifest)
        made = {*_files(manifest), manifest["records_table"]["path"]}
        renames, deletions = journal["renames"], journal["deletions"]
        pairs = [(present(old), workspace.path_of(new)) for old, new in renames]
        gone = [workspace.path_of(name) for name in deletions]
        old = [*deletions, *(old for old, _ in renames if not old.startswith(place))]
        strange = {new for _, new in renames} - made
        splits, layout = manifest["splits"], manifest["layout"]
        strange |= {name for name in old if not is_shard(name, sink, splits, layout)}
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(workspace) from error
    if strange or not made.isdisjoint(deletions):
        raise _damaged(workspace)
    return manifest, pairs, gone


def _damaged(workspace: Workspace) -> DatasetError:
    return DatasetError(f"{workspace.journal} is damaged; delete it, and use --overwrite")


def _remove_empty(out: Path, directories: Iterable[Path]) -> None:
    """Formats whose shards are directories leave those under their old names."""
    for directory in sorted(directories):
        if directory != out and directory.is_dir() and not any(directory.iterdir()):
            directory.rmdir()
