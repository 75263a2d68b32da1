"""``dataprep stage --clean``: removing what staging made on a node, and nothing else."""

from __future__ import annotations

import os
import time
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from dataprep.errors import StagingError
from dataprep.sealed.set import NAME as MANIFEST
from dataprep.staging.directory import (
    PRIVATE,
    StageDirectory,
    open_directory,
    remove_empty_folders,
    remove_files,
)
from dataprep.staging.node_lock import LOCK, describe_holder, node_lock
from dataprep.staging.sentinel import PLANNED, SENTINEL, other_jobs, read_sentinel, remove_lease
from dataprep.system.messages import counted, printable, sized, some_of

# A copier that was told to stop ends with the chunk that it is at. Where a job is cancelled, it and
# the cleaning are told at the same moment; batch systems give them 30 seconds as a rule.
_TIMEOUT = 20.0

_BY_HAND = "when those jobs are gone and it is still there, delete the directory by hand"
_JOBS_DIRECTORY = "dataprep-"  # see `find_target`: dataprep-USER/JOB/NAME


@dataclass(slots=True)
class Cleaned:
    """What was removed."""

    files: int = 0  # how many
    bytes: int = 0  # of all of them
    left: str | None = None  # what is still there, and why, one line; None if nothing is

    def describe(self, path: Path) -> str:
        """One line for a person."""
        place = printable(str(path))
        if not self.files:
            return f"{place}: {self.left or 'nothing to clean'}"
        done = f"{place}: removed {counted(self.files, 'file')}, {sized(self.bytes)}"
        return f"{done}; {self.left}" if self.left else done


def clean(path: Path, job: str | None, *, timeout: float = _TIMEOUT) -> Cleaned:
    """Remove a copy: the files that staging put there, then the directories left empty.

    Killed in between, it can be called again. Where nothing was staged, nothing is done.

    Args:
        job: the one that asks; None outside of any.
        timeout: seconds to wait for somebody who is copying into it: they may be stopping.

    Raises:
        StagingError: it is another job's, somebody goes on copying into it, or it is not safe to
            go there.
    """
    end = time.monotonic() + timeout
    while directory := StageDirectory.existing(path):
        with directory:
            try:
                # Before the lock too, which another job that copies may hold for long.
                if left := _left_to_others(directory, job):
                    return Cleaned(left=left)
                return _clean_locked(directory, job, end=end)
            except StagingError:
                if directory.is_current():
                    raise
        # Somebody else has cleaned meanwhile.
    return Cleaned()


def _clean_locked(directory: StageDirectory, job: str | None, *, end: float) -> Cleaned:
    with node_lock(directory, done=lambda: time.monotonic() >= end) as held:
        if not held:
            holder = describe_holder(directory) or "another process has been working on it"
            raise StagingError(f"{directory.path}: {holder}; end that first")
        sentinel, planned = read_sentinel(directory), read_sentinel(directory, PLANNED)
        whose = sentinel or planned
        if left := _left_to_others(directory, job):
            return Cleaned(left=left)
        if whose and not whose.shared and whose.job not in (None, job):
            raise StagingError(
                f"{directory.path} was staged by {whose.job}, this is {job or 'outside of any job'}"
                f"; {_BY_HAND}"
            )
        # Who asks to share it from here on finds no copy, and then no directory.
        directory.remove_private(SENTINEL)
        noted = [each.files for each in (sentinel, planned) if each is not None]
        return _remove(directory, {file.path for file in chain.from_iterable(noted)})


def _left_to_others(directory: StageDirectory, job: str | None) -> str:
    """Note that ``job`` uses the copy no more; who does, or is about to; empty if nobody is."""
    if job is not None:
        remove_lease(directory, job)
    users = other_jobs(directory, job)
    whose = (read_sentinel(directory) or read_sentinel(directory, PLANNED)) if users else None
    if not users or (whose and not whose.shared):
        return ""
    return f"the copy stays, used by {some_of(users)}; {_BY_HAND}"


def _remove(directory: StageDirectory, paths: AbstractSet[str]) -> Cleaned:
    """Take these out of a target whose lock is held; what others put there stays."""
    # The manifest first, so that no reader takes the rest for whole.
    first = remove_files(directory.descriptor, paths & {MANIFEST}, finished=True)
    rest = remove_files(directory.descriptor, paths, finished=True)
    done = Cleaned(first[0] + rest[0], first[1] + rest[1])
    remove_empty_folders(directory.descriptor, paths)
    if foreign := [name for name in os.listdir(directory.descriptor) if name != PRIVATE]:  # noqa: PTH208 - a descriptor
        done.left = f"left what staging did not put there: {some_of(foreign)}"
    _remove_directory(directory)
    return done


def _remove_directory(directory: StageDirectory) -> None:
    """Remove staging's own files, and the directories that this leaves empty."""
    # The lock goes last: with the directory still there, its absence would let copiers in.
    for name in sorted(directory.private_names(), key=lambda each: each == LOCK):
        directory.remove_private(name)
    # Somebody may just have begun to stage here again: then it is theirs.
    with suppress(OSError, StagingError):
        os.rmdir(PRIVATE, dir_fd=directory.descriptor)
        place = Path(os.path.realpath(directory.path))
        empty = [place]
        if place.parents[1].name.startswith(_JOBS_DIRECTORY):
            empty += place.parents[:2]
        for each in empty:
            parent = open_directory(each.parent, make=False)
            try:
                os.rmdir(each.name, dir_fd=parent)
            finally:
                os.close(parent)
