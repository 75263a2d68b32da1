"""Deleting what is in the way of a job, or bad, and nobody else's files; how to have it again.

Only what dataprep made is ever deleted or written over: the directory may hold other people's
files, even the raw data.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from dataprep.errors import DataprepError, DatasetError
from dataprep.formats import ShardName
from dataprep.jobs.output.commit import read_records
from dataprep.jobs.output.lock import Lease, check_held, locked
from dataprep.jobs.output.workspace import Workspace
from dataprep.plugins import load_sink
from dataprep.sealed.set import PART, SealedSet, foreign_files, has_part
from dataprep.system.durable_files import PARTIAL, is_partial, sync_directory
from dataprep.system.regular_files import read_regular
from dataprep.system.state_files import read_state
from dataprep.tables.records import NAME as RECORDS
from dataprep_schemas.state import StoredJob

if TYPE_CHECKING:
    from dataprep.formats import Layout, Sink
    from dataprep.jobs.running.job import Job
    from dataprep.sealed.verify import Verified


STAGED: Final = ".dataprep-stage"
"""What staging keeps in a copy; see `dataprep.staging.directory`."""

_COPY: Final = (
    "take it from another copy: `dataprep stage COPY --to NEW` or `dataprep convert COPY --to NEW`"
)


def check_foreign_files(job: Job, *, fresh: bool, going: Collection[Path] = ()) -> None:
    """Refuse a directory that holds shards of something else, which readers would take in.

    Args:
        fresh: nothing of this job has been written yet, so even its own names are foreign.

    Raises:
        DatasetError: names the first such file.
    """
    counts = {split.name: split.shards for split in job.splits}
    made = _made(job)
    out = job.workspace.out
    for directory in {path.parent / "file" for path in made}:
        job.workspace.path_of(directory)
    whole = (*sorted(made), PurePosixPath(job.workspace.manifest.name))
    present = [str(path) for path in whole if fresh and (out / path).exists()]
    shards = [str(path) for path in made if str(path) != RECORDS]
    for path in (*present, *foreign_files(out, counts, shards)):
        if out / path in going:
            continue
        raise DatasetError(
            f"{out / path} is in the way: it was not written by this job, and readers would "
            "take it in; move it away, or choose another output directory"
            + ("" if job.request.overwrite else "; if an earlier job made it, use --overwrite")
        )


def _planned(workspace: Workspace) -> list[PurePosixPath]:
    """Every file that the stored job makes, relative to the output directory, made or not.

    Empty if there is none, if it is torn, or if its format is not installed any more.
    """
    stored = read_state(workspace.job, StoredJob)
    if stored is None:
        return []
    made = stored.identity
    try:
        sink = load_sink(made.sink.name, made.sink.config)
        return [*_paths(sink, made.num_shards, made.layout)]
    except DataprepError:
        return []


def remove_planned(workspace: Workspace, lease: Lease) -> None:
    """A kill between a rename and the record of it leaves a file under its final name."""
    _remove(map(workspace.path_of, _planned(workspace)), lease)


def remove_data_set(job: Job) -> None:
    """Delete the data set, whole or unfinished, and nobody else's files.

    Ours is what a readable record, the manifest or the plan names; and, where dataprep has left
    its marks, what this job is going to make.

    Raises:
        DatasetError: something that is not ours is in the way; nothing was deleted.
        LockedError: another run has taken the directory over meanwhile.
    """
    workspace, lease = job.workspace, job.lease
    records = read_records(workspace)
    names: list[str | PurePosixPath] = [file.path for record in records for file in record.files]
    # A kill between a rename and the record of it leaves files that only a plan knows.
    planned = _planned(workspace)
    names += [*planned, *_sealed(workspace)]
    manifests = []
    if workspace.job.exists() or records or _is_ours(workspace.manifest):
        manifests = [workspace.manifest]
        names += _made(job)
    built = {*map(workspace.path_of, names)}
    for path in (*sorted(built), *manifests):
        if path.is_dir() and not path.is_symlink():
            raise DatasetError(
                f"{path} is a directory, where a file of the data set should be; nothing was "
                "deleted: move it away and run the same command again"
            )
    check_foreign_files(job, fresh=True, going={*built, *manifests})
    # First, so that nobody takes the rest for whole; unless nothing else knows what is to go.
    if planned:
        _remove(manifests, lease)
    _remove(built, lease)
    # Last: a kill until here leaves what is needed to try again.
    _remove(manifests, lease)
    workspace.job.unlink(missing_ok=True)
    for private in (workspace.commits, workspace.order):
        shutil.rmtree(private)
        private.mkdir()
    shutil.rmtree(workspace.generation, ignore_errors=True)
    directories = {parent for path in built for parent in path.parents}
    for directory in sorted(directories, reverse=True):  # the deepest first
        inside = workspace.out in directory.parents and not directory.is_symlink()
        if inside and directory.is_dir() and not any(directory.iterdir()):
            directory.rmdir()


def _made(job: Job) -> list[PurePosixPath]:
    """Every file that a job is going to make."""
    counts = {split.name: split.shards for split in job.splits}
    return [*_paths(job.sink, counts, job.request.layout)]


def _paths(sink: Sink, shards: Mapping[str, int], layout: Layout) -> Iterator[PurePosixPath]:
    """The files of every split, given the numbers of their shards; and the table of records."""
    for split, count in shards.items():
        for number in range(count):
            yield from sink.paths(ShardName(split, number, count), layout)
        yield from sink.split_paths(split, count, layout)
    yield PurePosixPath(RECORDS)


def _is_ours(manifest: Path) -> bool:
    """Whether a manifest, damaged or not, is dataprep's: many programs have files so called."""
    try:
        return b'"dataprep-manifest-' in read_regular(manifest)
    except OSError:
        return False


def _remove(paths: Iterable[Path], lease: Lease) -> None:
    """Delete files; no power cut brings one back, which may look like what is made in its place."""
    paths = [path for path in paths if path.exists() or path.is_symlink()]
    for path in paths:
        check_held(lease, now=False)
        path.unlink(missing_ok=True)
    for directory in {path.parent for path in paths}:
        sync_directory(directory)


def _sealed(workspace: Workspace) -> Iterator[str]:
    """What the manifest names, in case somebody deleted the private directory; a part's note."""
    if has_part(workspace.out):
        yield PART
    try:
        sealed = SealedSet.read(workspace.out)
    except DatasetError:
        return
    yield RECORDS
    yield from (file.path for file in sealed.manifest.files())


def remove_partial_files(workspace: Workspace, splits: Sequence[str]) -> None:
    """Delete what killed runs left behind; call only while holding the lock.

    Looks only where a run writes, and only for names that it gives: the output directory may hold
    other people's files, even the raw data.

    Args:
        splits: those that this run makes, as far as they are known.
    """
    directories = {workspace.out, *workspace.private_directories()}
    of_splits = (PurePosixPath(split, "file") for split in splits)
    directories |= {workspace.path_of(path).parent for path in (*of_splits, *_planned(workspace))}
    for path in (path for directory in directories for path in directory.glob(f".*{PARTIAL}")):
        if not is_partial(path.name):
            continue
        if path.is_dir() and not path.is_symlink():
            # A worker that has not heard that its run is over may still put something there.
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def remedy(out: Path, found: Verified, *, discarded: bool) -> str:
    """What to do about the problems that a verification found, whose damaged files went or not."""
    problems, steps = found.problems, []
    if any(problem.damaged or problem.missing for problem in problems):
        damaged = not discarded and any(problem.damaged for problem in problems)
        steps = [_again(out, "delete the damaged ones (--discard) and " * damaged)]
    if any(problem.unreadable for problem in problems):
        steps.append("mend what cannot be read (permissions, storage) and verify again")
    if any(problem.foreign for problem in problems):
        steps.append("move away what is not the data set's")
    return "; ".join(steps)


def _again(out: Path, first: str) -> str:
    """How to have files again; of those that `discard` deletes, once that was done first."""
    if (out / STAGED).is_dir():
        stage = "run the same dataprep stage again, with --verify reread"
        return f"{first}{stage}: it copies only those"
    workspace = Workspace(out)
    if not workspace.private.is_dir():
        return _COPY
    stored = read_state(workspace.job, StoredJob)
    if stored is None:
        return "run the command that made it with --overwrite, as nothing tells which that was"
    if stored.generations:
        return f"it grew by --append, so {_COPY}; or make it anew with --overwrite"
    return (
        f"{first}run the command that made it again; with the same input it makes only those anew"
    )


def discard(out: Path, found: Verified) -> list[str]:
    """Delete the damaged files that a verification found, and nothing else.

    Files that are not the data set's stay, and those that could not be read.

    Returns:
        Their paths.

    Raises:
        DatasetError: nothing here could have them again; or one is behind a link.
        LockedError: a run is working here.
    """
    bad = dict.fromkeys(problem.path for problem in found.problems if problem.damaged)
    if not bad:
        return []
    workspace, staged = Workspace(out), (out / STAGED).is_dir()
    stored = read_state(workspace.job, StoredJob)
    if not staged and (stored is None or stored.generations):
        raise DatasetError(
            f"nothing in {out} can make the files anew, so none is deleted; bring them back from a "
            "copy, or make the data set again with --overwrite"
        )
    paths = {name: workspace.path_of(name) for name in bad}
    if staged:
        return _delete(paths)
    workspace.require_own()
    with locked(workspace) as lease:
        check_held(lease)
        return _delete(paths)


def _delete(paths: dict[str, Path]) -> list[str]:
    there = [name for name, path in paths.items() if path.exists() or path.is_symlink()]
    for name in there:
        paths[name].unlink()
    return there
