"""Making an output directory a job's own, or finding that it is another's; deleting there.

Only what dataprep made is ever deleted or written over: the directory may hold other people's
files, even the raw data.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from dataprep.build.commit import Commits
from dataprep.build.identity import Identity, check_identity, planned_paths, store_identity
from dataprep.build.job import Job
from dataprep.build.lock import check_held
from dataprep.build.manifest import PART, has_part, read_manifest
from dataprep.build.request import Request
from dataprep.build.seal import safe_file_name
from dataprep.build.workspace import Workspace, foreign_files
from dataprep.datasets import Found
from dataprep.errors import DatasetError, SinkError, UsageError
from dataprep.index.records import NAME as RECORDS
from dataprep.index.records import conspicuous
from dataprep.system.durable_files import PARTIAL, is_partial
from dataprep.system.state_files import remove_unless_file


def check_request(request: Request, found: Found) -> None:
    """Refuse, before anything is scanned, what can only go wrong.

    Raises:
        UsageError: a directory is in the raw data or among the shards, where its files would be
            taken for images or shards.
    """
    raw, out = request.raw.resolve(), request.out.resolve()
    splits = set(found.splits or ())
    containers = [Path(unit.container) for unit in found.units]
    scanned = {raw.joinpath(*path.parts[:1]) for path in containers if not path.is_absolute()}
    if found.whole:
        scanned.add(raw)
    chosen = {"--local_scratch_dir": out}
    if request.index_dir is not None:
        index = chosen["--index_dir"] = request.index_dir.resolve()
        if index == out or (index.parent == out and index.name in splits):
            raise UsageError(
                f"--index_dir {request.index_dir} is where shards go, and readers would take its "
                "files for shards; choose a directory of its own"
            )
    for option, place in chosen.items():
        if place == raw or any(each == place or each in place.parents for each in scanned):
            raise UsageError(
                f"{option} {place} is in the raw data, where a later run would take its files "
                "for images; choose a directory of its own"
            )


def claim(job: Job, identity: Identity, units: Mapping[str, str], *, overwrite: bool) -> None:
    """Accept a directory that is new or this job's, and write down whose it is.

    To be called when nothing that was asked for can be refused any more; hold the lock.

    Args:
        job: what is to be built.
        identity: everything that shapes the bytes of the output, as JSON.
        units: a digest of every piece of the input.
        overwrite: first delete what an earlier job made there.

    Raises:
        DatasetError: the directory is being made in another way, or holds foreign shards.
        LockedError: another run has taken it over.
    """
    workspace = job.workspace
    check_held(workspace, job.lease)
    if overwrite:
        remove_built_files(workspace)
    fresh = check_identity(workspace, identity, units)
    if fresh:
        remove_unrecorded_files(workspace)
    check_foreign_files(job, fresh=fresh)
    if fresh:
        store_identity(workspace, identity, units)


def check_foreign_files(job: Job, *, fresh: bool) -> None:
    """Refuse a directory that holds shards of something else, which readers would take in.

    Args:
        job: what will be written.
        fresh: nothing of this job has been written yet, so even its own names are foreign.

    Raises:
        DatasetError: names the first such file.
    """
    made = list(_made_by(job))
    every = {*made, PurePosixPath(RECORDS)}
    if len(every) <= len(made) or any(path.is_absolute() or ".." in path.parts for path in made):
        raise SinkError(
            f"sink {job.output.sink} gives files one place, or places outside of the output "
            "directory; that is a defect of the sink"
        )
    expected = {job.workspace.out / path for path in made}
    ours = sorted((*expected, job.workspace.records)) if fresh else []
    present = [path for path in ours if path.exists()]
    for path in (*present, *foreign_files([split.name for split in job.splits], expected)):
        raise DatasetError(
            f"{path} is in the way: it was not written by this job, and readers would "
            "take it in; move it away, choose another output directory, or, if it "
            "belongs to an earlier job, use --overwrite"
        )


def _made_by(job: Job) -> Iterator[PurePosixPath]:
    sink, layout = job.output.load_sink(), job.output.layout
    for split in job.splits:
        for shard in split.shard_names():
            yield from sink.paths(shard, layout)
        yield from sink.split_paths(split.name, split.shards, layout)


def remove_built_files(workspace: Workspace) -> None:
    """Delete the data set, whole or unfinished, and nobody else's files."""
    # A kill between a rename and the record of it leaves files that only the plan knows.
    planned = map(str, planned_paths(workspace))
    names = (*_recorded(workspace), *planned, *_sealed(workspace))
    built = {workspace.out / name for name in names}
    for path in built:
        path.unlink(missing_ok=True)
    # Last: a kill until here leaves what is needed to try again.
    workspace.manifest.unlink(missing_ok=True)
    remove_unless_file(workspace.job)
    workspace.job.unlink(missing_ok=True)
    for private in (workspace.commits, workspace.order):
        shutil.rmtree(private)
        private.mkdir()
    directories = {parent for path in built for parent in path.parents}
    for directory in sorted(directories, reverse=True):  # the deepest first
        inside = workspace.out in directory.parents and not directory.is_symlink()
        if inside and directory.is_dir() and not any(directory.iterdir()):
            directory.rmdir()


def remove_unrecorded_files(workspace: Workspace) -> None:
    """Delete what a job that finished nothing may have left, before another takes its place.

    A kill between a rename and the record of it leaves a file under its final name.
    """
    for path in planned_paths(workspace):
        (workspace.out / path).unlink(missing_ok=True)


def _recorded(workspace: Workspace) -> Iterator[str]:
    for record in Commits(workspace).all():
        yield from (file.path for file in record.files)
        kept = workspace.rejected.relative_to(workspace.out) / record.split
        # Without its rows, what was kept of the shard's rejected images stays.
        with suppress(DatasetError):
            for status, key in conspicuous(workspace.rows(record.shard), ("status", "key")):
                if status == "rejected":
                    yield str(kept / safe_file_name(key))


def _sealed(workspace: Workspace) -> Iterator[str]:
    """What the manifest names, in case somebody deleted the private directory; a part's note."""
    if has_part(workspace.out):
        yield PART
    try:
        manifest = read_manifest(workspace.out)
    except DatasetError:
        return
    yield RECORDS
    for split in manifest["splits"].values():
        yield from (file["path"] for shard in split["shards"] for file in shard["files"])
        yield from (file["path"] for file in split.get("files", ()))


def remove_partial_files(workspace: Workspace, splits: Sequence[str]) -> None:
    """Delete what killed runs left behind; call only while holding the lock.

    Looks only where a run writes, and only for names that it gives: the output directory may hold
    other people's files, even the raw data.

    Args:
        workspace: the output directory.
        splits: those that this run makes, as far as they are known.
    """
    directories = {workspace.out, *workspace.private_directories()}
    directories |= {workspace.out / split for split in splits}
    directories |= set(workspace.rejected.glob("*"))
    directories |= {(workspace.out / path).parent for path in planned_paths(workspace)}
    for directory in directories:
        _remove_partials(directory)


def _remove_partials(directory: Path) -> None:
    for path in directory.glob(f".*{PARTIAL}"):
        if not is_partial(path):
            continue
        if path.is_dir() and not path.is_symlink():  # some library insisted on a directory
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
