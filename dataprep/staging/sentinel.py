"""What staging notes in a target: planned files, the jobs that use it, and that it is whole.

The sentinel is written last, with the digest of what the copy is of and of every file its size and
time, so that a copy that was touched since is not believed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from dataprep.staging.directory import StageDirectory, opened_parent, private_name, target_error
from dataprep_schemas.state import CopiedFile, JobLease, Sentinel

SENTINEL = "complete.json"  # removed before anything of the copy is changed
PLANNED = "planned.json"  # written before anything is put there; what was put there stays in it

_LEASE = "lease"


def read_sentinel(directory: StageDirectory, name: str = SENTINEL) -> Sentinel | None:
    """The sentinel, or what was `PLANNED`; None if there is none that is as it was written."""
    return directory.read_private(name, Sentinel)


def planned_paths(directory: StageDirectory) -> frozenset[str]:
    """What staging may have put into a target, however it ended."""
    planned = read_sentinel(directory, PLANNED)
    return frozenset(file.path for file in planned.files) if planned else frozenset()


def add_lease(directory: StageDirectory, job: str) -> None:
    """Note that a job uses a copy that jobs share, so that none takes it away from another.

    Before the sentinel is read, or cleaning may not see it.

    Raises:
        NoRoomError: the storage is full; nothing has been copied by this job yet.
        StagingError: it is read-only, damaged, or gone.
    """
    directory.write_private(private_name(_LEASE, job), JobLease(job), copied=False)


def remove_lease(directory: StageDirectory, job: str) -> None:
    """Note that a job uses the copy no more; nothing if it did not."""
    directory.remove_private(private_name(_LEASE, job))


def other_jobs(directory: StageDirectory, job: str | None) -> list[str]:
    """The jobs that use a shared copy, but for ``job``; an unreadable note counts as one."""
    own = None if job is None else private_name(_LEASE, job)
    others = [name for name in directory.private_names(_LEASE) if name != own]
    leases = [directory.read_private(name, JobLease) for name in others]
    return [lease.job if lease else name for lease, name in zip(leases, others, strict=True)]


def changed_files(directory: StageDirectory, files: Sequence[CopiedFile]) -> list[str]:
    """Those that are not there any more as they were copied: absent, of another size or time.

    Raises:
        StagingError: as `find_file`.
    """
    changed = []
    for file in files:
        there = find_file(directory, file.path)
        if there is None or (there.bytes, there.modified) != (file.bytes, file.modified):
            changed.append(file.path)
    return changed


def find_file(directory: StageDirectory, path: str) -> CopiedFile | None:
    """What is in the target under that name; None if nothing is. No file has -1 bytes.

    Raises:
        StagingError: the storage does not tell.
    """
    try:
        with opened_parent(directory.descriptor, path) as (parent, name):
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise target_error(error, directory.path, f"looking at {path}") from error
    size = found.st_size if stat.S_ISREG(found.st_mode) else -1
    return CopiedFile(path, size, None, found.st_mtime_ns)
