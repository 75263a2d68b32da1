"""``dataprep stage --clean``: removing what staging made on a node, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dataprep.canonical import to_json
from dataprep.errors import StagingError
from dataprep.staging.target.directory import StageDirectory
from dataprep.staging.target.leases import others, remove_lease
from dataprep.staging.target.node_lock import lock_now
from dataprep.staging.target.removal import Removal
from dataprep.staging.target.sentinel import RETIRED, is_inside, read_sentinel, retire_sentinel
from dataprep.wording import counted, printable, sized, some_of

PLAN = "planned.json"


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
class _Plan:
    """What staging may have put into a target, however it ended: paths, whose, for whom."""

    paths: tuple[str, ...]
    job: str | None
    shared: bool


def write_plan(
    directory: StageDirectory, paths: Iterable[str], job: str | None = None, *, shared: bool = False
) -> None:
    """Record what is going to be put into a target, before it is; what was put there stays in it.

    Args:
        directory: the target.
        paths: of all files, relative to it.
        job: whose copy it is going to be.
        shared: whether other jobs may use it.

    Raises:
        StagingError: the storage is full, read-only, damaged, or gone.
    """
    plan = {"paths": sorted(paths), "job": job, "shared": shared}
    directory.write_private(PLAN, to_json(plan))


def read_plan(directory: StageDirectory) -> frozenset[str]:
    """The paths of the last plan; none if there is none, or none that makes sense."""
    plan = _read_plan(directory)
    return frozenset(plan.paths if plan else ())


def clean(directory_path: Path, job: str | None, *, all_jobs: bool = False) -> Cleaned:
    """Remove a copy: the files that staging put there, then the directories that it made.

    Killed in between, it can be called again. Where nothing was staged, nothing is done.

    Args:
        directory_path: the target.
        job: the one that asks; None outside of any.
        all_jobs: also if another job made the copy, or others still use it.

    Raises:
        StagingError: it is another job's, somebody is copying into it at this moment, or it is
            not safe to go there.
    """
    directory = StageDirectory.existing(directory_path)
    if directory is None:
        return Cleaned(0, 0, None)
    with directory, lock_now(directory):
        sentinel, retired = read_sentinel(directory), read_sentinel(directory, RETIRED)
        plan = _read_plan(directory)
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


def _read_plan(directory: StageDirectory) -> _Plan | None:
    try:
        said = json.loads(directory.read_private(PLAN) or b"null")
        plan = _Plan(tuple(filter(is_inside, said["paths"])), said["job"], said["shared"])
    except (ValueError, TypeError, KeyError, AttributeError, StagingError):
        return None
    return plan
