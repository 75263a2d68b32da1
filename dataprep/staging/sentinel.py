"""What staging notes in a target: planned files, the jobs that use it, and that it is whole.

The sentinel is written last, with the digest of what the copy is of and of every file its size and
time, so that a copy that was touched since is not believed.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from dataprep.staging.directory import StageDirectory, opened_parent, private_name, target_errors
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


def has_lease(directory: StageDirectory, job: str) -> bool:
    """Whether it is noted that a job uses the copy."""
    return private_name(_LEASE, job) in directory.private_names(_LEASE)


def other_jobs(directory: StageDirectory, job: str | None) -> list[str]:
    """The jobs that use a shared copy, but for ``job``; an unreadable note counts as one."""
    own = None if job is None else private_name(_LEASE, job)
    others = [name for name in directory.private_names(_LEASE) if name != own]
    leases = [directory.read_private(name, JobLease) for name in others]
    return [lease.job if lease else name for lease, name in zip(leases, others, strict=True)]


def changed_files(directory: StageDirectory, files: Sequence[CopiedFile]) -> list[str]:
    """Those that are not there any more as they were copied: absent, of another size or time.

    Raises:
        StagingError: as `find_files`.
    """
    found = find_files(directory, [file.path for file in files])
    return [file.path for file in files if not is_as_copied(file, found)]


def is_as_copied(file: CopiedFile, found: Mapping[str, CopiedFile]) -> bool:
    """Whether what was found under its name has the file's size and time."""
    there = found.get(file.path)
    return there is not None and (there.bytes, there.modified) == (file.bytes, file.modified)


def find_files(directory: StageDirectory, paths: Iterable[str]) -> dict[str, CopiedFile]:
    """Those of the paths under which something is in the target. No file has -1 bytes.

    Raises:
        StagingError: the storage does not tell.
    """
    folders: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        folders[path.rpartition("/")[0]].append(path)
    found = {}
    for some in folders.values():
        path = some[0]
        gone = suppress(FileNotFoundError, NotADirectoryError)
        with (
            target_errors(directory.path, f"looking at {path}"),
            gone,
            opened_parent(directory.descriptor, path) as (parent, _),
        ):
            names = {*os.listdir(parent)}  # noqa: PTH208  # Path knows no descriptors
            for path in some:
                if (name := path.rpartition("/")[2]) in names:
                    there = os.stat(name, dir_fd=parent, follow_symlinks=False)
                    size = there.st_size if stat.S_ISREG(there.st_mode) else -1
                    found[path] = CopiedFile(path, size, None, there.st_mtime_ns)
    return found
