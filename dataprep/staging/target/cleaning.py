"""``dataprep stage --clean``: removing what staging made on a node, and nothing else."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dataprep.errors import StagingError
from dataprep.staging.target.directory import StageDirectory
from dataprep.staging.target.leases import others, remove_lease
from dataprep.staging.target.node_lock import lock_now, node_lock
from dataprep.staging.target.removal import Removal
from dataprep.staging.target.sentinel import RETIRED, is_inside, read_sentinel, retire_sentinel
from dataprep.system.messages import counted, printable, sized, some_of
from dataprep.system.state_files import to_json

PLAN = "planned.json"

# A copier that was told to stop ends with the chunk that it is at. Where a job is cancelled, it and
# the cleaning are told at the same moment; batch systems give them 30 seconds as a rule.
PATIENCE = 20.0


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What was removed.

    Attributes:
        files: how many.
        bytes: of all of them.
        left: what is still there, and why, one line; None if nothing is.
    """

    files: int
    bytes: int
    left: str | None

    def describe(self, path: Path) -> str:
        """One line for a person."""
        place = printable(str(path))
        if not self.files:
            return f"{place}: {self.left or 'nothing to clean'}"
        done = f"{place}: removed {counted(self.files, 'file')}, {sized(self.bytes)}"
        return f"{done}; {self.left}" if self.left else done


@dataclass(frozen=True, slots=True)
class Plan:
    """What staging may have put into a target, however it ended.

    Attributes:
        paths: of all files, relative to the target, in it.
        job: whose copy it was going to be; None if of no job.
        shared: whether other jobs may use it.
        selection: `Selection.digest` of what was being made; None in plans of older versions.
    """

    paths: tuple[str, ...]
    job: str | None
    shared: bool
    selection: str | None = None


def write_plan(
    directory: StageDirectory,
    paths: Iterable[str],
    job: str | None = None,
    *,
    shared: bool = False,
    selection: str | None = None,
) -> None:
    """Record what is going to be put into a target, before it is; what was put there stays in it.

    Args:
        directory: the target.
        paths: of all files, relative to it.
        job: whose copy it is going to be.
        shared: whether other jobs may use it.
        selection: `Selection.digest` of what is being made.

    Raises:
        StagingError: the storage is full, read-only, damaged, or gone.
    """
    plan = {"paths": sorted(paths), "job": job, "shared": shared, "selection": selection}
    directory.write_private(PLAN, to_json(plan))


def read_plan(directory: StageDirectory) -> frozenset[str]:
    """The paths of the last plan; none if there is none, or none that makes sense."""
    plan = plan_of(directory)
    return frozenset(plan.paths if plan else ())


def plan_of(directory: StageDirectory) -> Plan | None:
    """The last plan; None if there is none, or none that makes sense."""
    try:
        said = json.loads(directory.read_private(PLAN) or b"null")
        paths = tuple(filter(is_inside, said["paths"]))
        return Plan(paths, said["job"], said["shared"], said.get("selection"))
    except (ValueError, TypeError, KeyError, AttributeError, StagingError):
        return None


def clean(
    directory_path: Path,
    job: str | None,
    *,
    all_jobs: bool = False,
    patience: float | None = None,
) -> Cleaned:
    """Remove a copy: the files that staging put there, then the directories that it made.

    Killed in between, it can be called again. Where nothing was staged, nothing is done.

    Args:
        directory_path: the target.
        job: the one that asks; None outside of any.
        all_jobs: also if another job made the copy, or others still use it.
        patience: seconds to wait for somebody who is copying into it: they may be stopping;
            `PATIENCE` if None.

    Raises:
        StagingError: it is another job's, somebody goes on copying into it, or it is not safe to
            go there.
    """
    end = time.monotonic() + (PATIENCE if patience is None else patience)
    while directory := StageDirectory.existing(directory_path):
        with directory, ExitStack() as locked:
            try:
                locked.enter_context(_lock_until(directory, end))
            except StagingError:
                if directory.is_current():
                    raise
                continue  # somebody else has cleaned meanwhile
            return _clean(directory, job, all_jobs=all_jobs)
    return Cleaned(0, 0, None)


@contextmanager
def _lock_until(directory: StageDirectory, end: float) -> Iterator[None]:
    """Hold the lock; wait for it until ``end``, by the monotonic clock."""

    def is_over() -> bool:
        return time.monotonic() >= end

    with node_lock(directory, patience=math.inf, done=is_over) as lock:
        if lock is not None:
            lock.note("removing what is there")
            yield
            return
    with lock_now(directory):  # or the error that says who has it
        yield


def _clean(directory: StageDirectory, job: str | None, *, all_jobs: bool) -> Cleaned:
    sentinel, retired = read_sentinel(directory), read_sentinel(directory, RETIRED)
    plan = plan_of(directory)
    whose = sentinel or plan or retired
    if whose and not all_jobs:
        if whose.shared:
            if users := _give_up(directory, job):
                users = [printable(user) for user in users]
                left = f"the copy stays, used by {some_of(users)} (--all_jobs removes it)"
                return Cleaned(0, 0, left)
        else:
            _check_job(directory, whose.job, job)
    retire_sentinel(directory)
    paths = {file.path for each in (sentinel, retired) if each for file in each.files}
    removal = Removal(directory, paths | set(plan.paths if plan else ()))
    removal.run()
    return Cleaned(removal.files, removal.bytes, removal.left())


def _give_up(directory: StageDirectory, job: str | None) -> Sequence[str]:
    """End a job's use of a shared copy; the jobs that still use it."""
    if job is not None:
        remove_lease(directory, job)
    if users := others(directory, job):
        return users
    # Who takes a lease from here on sees no sentinel; who took one before is seen now.
    retire_sentinel(directory)
    if users := others(directory, job):
        retire_sentinel(directory, back=True)
    return users


def _check_job(directory: StageDirectory, owner: str | None, job: str | None) -> None:
    if owner is not None and owner != job:
        raise StagingError(
            f"{directory.path} was staged by {printable(owner)}, this is "
            f"{printable(job) if job else 'outside of any job'}; if that one is over, clean with "
            "--all_jobs"
        )
