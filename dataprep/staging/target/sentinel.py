"""What staging notes in a target: planned files, the jobs that use it, and that it is whole.

The sentinel is written last, with the digest of what the copy is of and of every file its size and
time, so that a copy that was touched since is not believed.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from dataprep.errors import StagingError
from dataprep.staging.target.directory import StageDirectory, private_name
from dataprep.staging.target.paths import CopiedFile, is_inside, opened_parent
from dataprep.system.state_files import to_json

SENTINEL = "complete.json"
PLANNED = "planned.json"

_LEASE = "lease"
_VERSION = 3
_SENSELESS = (ValueError, TypeError, KeyError, AttributeError, RecursionError, StagingError)


@dataclass(frozen=True, slots=True)
class Sentinel:
    """A whole copy.

    Attributes:
        source: the directory it is a copy of.
        digest: the inventory's (a manifest's SHA-256, or a listing's).
        selection: `Selection.digest`: the same of the files that are here.
        job: the scheduler's job that made it; None outside of any.
        shared: whether other jobs may use it.
        files: every file, with its size and time of modification when it was copied.
        asked: which part of the source the call asked for, see `StageRequest.asked`.
    """

    source: str
    digest: str
    selection: str
    job: str | None
    shared: bool
    files: tuple[CopiedFile, ...]
    asked: str = ""


@dataclass(frozen=True, slots=True)
class Planned:
    """What staging may have put into a target, however it ended.

    Attributes:
        paths: of all files, relative to the target, in it.
        job: whose copy it was going to be; None if of no job.
        shared: whether other jobs may use it.
        selection: `Selection.digest` of what was being made.
    """

    paths: tuple[str, ...]
    job: str | None
    shared: bool
    selection: str


def write_planned(directory: StageDirectory, planned: Planned) -> None:
    """Record what is going to be put into a target, before it is; what was put there stays in it.

    Raises:
        StagingError: the storage is full, read-only, damaged, or gone.
    """
    _write(directory, PLANNED, asdict(planned))


def read_planned(directory: StageDirectory) -> Planned | None:
    """The last record; None if there is none, or none that makes sense."""
    try:
        said = _read(directory, PLANNED)
        return Planned(**{**said, "paths": tuple(filter(is_inside, said["paths"]))})
    except _SENSELESS:
        return None


def planned_paths(directory: StageDirectory) -> frozenset[str]:
    """The paths that it names; none if there is none."""
    planned = read_planned(directory)
    return frozenset(planned.paths if planned else ())


def read_sentinel(directory: StageDirectory) -> Sentinel | None:
    """The sentinel; None if there is none, or none that can be understood."""
    try:
        said = _read(directory, SENTINEL)
        files = tuple(CopiedFile(*row) for row in said.pop("files"))
        if not all(is_inside(file.path) for file in files):
            return None
        return Sentinel(**said, files=files)
    except _SENSELESS:
        return None


def write_sentinel(directory: StageDirectory, sentinel: Sentinel) -> None:
    """Put it there, durably, in one step."""
    said = asdict(sentinel)
    said["files"] = [list(file.values()) for file in said["files"]]
    _write(directory, SENTINEL, said)


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


def _write(directory: StageDirectory, name: str, said: Mapping[str, Any]) -> None:
    text = json.dumps({"version": _VERSION, **said}, separators=(",", ":"))
    directory.write_private(name, text.encode())


def _read(directory: StageDirectory, name: str) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(directory.read_private(name) or b"{}")
    if said.pop("version") != _VERSION:
        raise ValueError
    return said
