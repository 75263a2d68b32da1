"""What staging notes in a target: planned files, the jobs that use it, and that it is whole.

The sentinel is written last, with the digest of what the copy is of and of every file its size and
time, so that a copy that was touched since is not believed.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

from dataprep.errors import StagingError
from dataprep.staging.target.directory import StageDirectory, private_name
from dataprep.staging.target.paths import CopiedFile, is_inside, opened_parent
from dataprep.system.state_files import to_json

SENTINEL = "complete.json"
PLANNED = "planned.json"

_LEASE = "lease"
_VERSION = 4


@dataclass(frozen=True, slots=True)
class Sentinel:
    """A whole copy, or one that is planned.

    Attributes:
        source: the directory it is a copy of.
        digest: the inventory's (a manifest's SHA-256, or a listing's).
        selection: `Selection.digest`: the same of the files that are here.
        job: the scheduler's job that made it; None outside of any.
        shared: whether other jobs may use it.
        files: every file, with its size and time of modification when it was copied; of a planned
            copy all that may be here, however staging ended, of which only the paths say something.
        asked: which part of the source the call asked for, see `StageRequest.asked`.
    """

    source: str
    digest: str
    selection: str
    job: str | None
    shared: bool
    files: tuple[CopiedFile, ...]
    asked: str = ""


def read_sentinel(directory: StageDirectory, name: str = SENTINEL) -> Sentinel | None:
    """The sentinel, or what was `PLANNED`; None if there is none, or none that makes sense."""
    try:
        said: dict[str, Any] = json.loads(directory.read_private(name) or b"{}")
        if said.pop("version") != _VERSION:
            return None
        files = tuple(CopiedFile(*row) for row in said.pop("files"))
        return Sentinel(**said, files=files) if all(is_inside(one.path) for one in files) else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, StagingError):
        return None


def write_sentinel(directory: StageDirectory, sentinel: Sentinel, name: str = SENTINEL) -> None:
    """Put it there, durably, in one step.

    What is going to be put into a target is `PLANNED` before it is; what was put there stays in it.

    Raises:
        StagingError: the storage is full, read-only, damaged, or gone.
    """
    said = asdict(replace(sentinel, files=()))  # of which there may be 300,000
    said["files"] = [[file.path, file.bytes, file.sha256, file.modified] for file in sentinel.files]
    text = json.dumps({"version": _VERSION, **said}, separators=(",", ":"))
    directory.write_private(name, text.encode())


def planned_paths(directory: StageDirectory) -> frozenset[str]:
    """What staging may have put into a target, however it ended."""
    planned = read_sentinel(directory, PLANNED)
    return frozenset(file.path for file in planned.files) if planned else frozenset()


def remove_sentinel(directory: StageDirectory) -> None:
    """Before anything of the copy is changed."""
    directory.remove_private(SENTINEL)


def add_lease(directory: StageDirectory, job: str) -> None:
    """Note that a job uses a copy that jobs share, so that none takes it away from another.

    Before the sentinel is read, or cleaning may not see it.

    Raises:
        NoRoomError: the storage is full; nothing has been copied by this job yet.
        StagingError: it is read-only, damaged, or gone.
    """
    directory.write_private(private_name(_LEASE, job), to_json({"job": job}), copied=False)


def remove_lease(directory: StageDirectory, job: str) -> None:
    """Note that a job uses the copy no more; nothing if it did not."""
    directory.remove_private(private_name(_LEASE, job))


def other_jobs(directory: StageDirectory, job: str | None) -> list[str]:
    """The jobs that use a shared copy, but for ``job``; an unreadable note counts as one."""
    own = None if job is None else private_name(_LEASE, job)
    return [_job_of(directory, name) for name in directory.private_names(_LEASE) if name != own]


def _job_of(directory: StageDirectory, name: str) -> str:
    try:
        return str(json.loads(directory.read_private(name) or b"")["job"])
    except (ValueError, TypeError, KeyError):
        return name


def changed_files(directory: StageDirectory, files: Sequence[CopiedFile]) -> list[str]:
    """Those that are not there any more as they were copied: absent, of another size or time."""
    changed: list[str] = []
    for _, group in groupby(files, key=lambda file: file.path.rpartition("/")[0]):
        siblings = list(group)
        try:
            with opened_parent(directory.descriptor, siblings[0].path) as (parent, _):
                changed += [file.path for file in siblings if not _is_unchanged(file, parent)]
        except OSError:  # not there, or a link in its place
            changed += [file.path for file in siblings]
    return changed


def _is_unchanged(file: CopiedFile, parent: int) -> bool:
    name = file.path.rpartition("/")[2]
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except OSError:
        return False
    found = stat.S_ISREG(status.st_mode), status.st_size, status.st_mtime_ns
    return found == (True, file.bytes, file.modified)
