"""What says that a copy is whole: written last, with the digest of what it is a copy of."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from dataprep.canonical import to_json
from dataprep.errors import StagingError
from dataprep.staging.copying.writing import Landed
from dataprep.staging.target.beneath import opened_parent
from dataprep.staging.target.descent import refused
from dataprep.staging.target.directory import PRIVATE, StageDirectory

SENTINEL = "complete.json"
RETIRED = "retired.json"  # one that does not count any more, but names what is to be cleaned

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Sentinel:
    """A whole copy.

    Attributes:
        source: the directory it is a copy of.
        digest: the inventory's (a manifest's SHA-256, or a listing's).
        selection: `Selection.digest`: the same of the files that are here.
        job: the scheduler's job that made it; None outside of any.
        shared: whether other jobs may use it.
        files: every file, with its size and time of modification when it had landed.
    """

    source: str
    digest: str
    selection: str
    job: str | None
    shared: bool
    files: tuple[Landed, ...]


def read_sentinel(directory: StageDirectory, name: str = SENTINEL) -> Sentinel | None:
    """The sentinel; None if there is none, or none that can be understood.

    Args:
        directory: the target.
        name: `SENTINEL`, or `RETIRED`.
    """
    try:
        data = directory.read_private(name)
    except StagingError:
        return None
    return None if data is None else _parse(data)


def write_sentinel(directory: StageDirectory, sentinel: Sentinel) -> None:
    """Put it there, durably, in one step."""
    files = [asdict(file) for file in sentinel.files]
    body = {
        "version": _VERSION,
        "source": sentinel.source,
        "digest": sentinel.digest,
        "selection": sentinel.selection,
        "job": sentinel.job,
        "shared": sentinel.shared,
        "files": files,
    }
    directory.write_private(SENTINEL, to_json({**body, "self": _digest(body)}))


def remove_sentinel(directory: StageDirectory) -> None:
    """Before anything of the copy is changed."""
    directory.remove_private(SENTINEL)


def retire_sentinel(directory: StageDirectory, *, back: bool = False) -> None:
    """Make it count no more, but keep what it says; needs no space, unlike writing it anew.

    Args:
        directory: the target.
        back: let it count again.
    """
    names = (RETIRED, SENTINEL) if back else (SENTINEL, RETIRED)
    try:
        os.rename(*names, src_dir_fd=directory.private, dst_dir_fd=directory.private)
        os.fsync(directory.private)
    except FileNotFoundError:
        return
    except OSError as error:
        raise refused(directory.path, error, f"renaming {PRIVATE}/{names[0]}") from None


def changed_files(directory: StageDirectory, files: Sequence[Landed]) -> list[str]:
    """Those that are not there any more as they landed: absent, of another size or time."""
    changed: list[str] = []
    for _, group in groupby(files, key=lambda file: file.path.rpartition("/")[0]):
        siblings = list(group)
        try:
            with opened_parent(directory.descriptor, siblings[0].path) as (parent, _):
                changed += [file.path for file in siblings if not _is_as_landed(file, parent)]
        except OSError:  # not there, or a link in its place
            changed += [file.path for file in siblings]
    return changed


def is_inside(path: str) -> bool:
    """Whether a relative path stays where it begins, and out of what staging keeps for itself."""
    parts = path.split("/")
    return PRIVATE not in parts[:1] and not any(part in ("", ".", "..") for part in parts)


def _is_as_landed(file: Landed, parent: int) -> bool:
    name = file.path.rpartition("/")[2]
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except OSError:
        return False
    found = stat.S_ISREG(status.st_mode), status.st_size, status.st_mtime_ns
    return found == (True, file.bytes, file.modified)


def _digest(body: Mapping[str, Any]) -> str:
    """Of what it says, however it is laid out: quick also for millions of files."""
    compact = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(compact.encode()).hexdigest()


def _parse(data: bytes) -> Sentinel | None:
    try:
        body = json.loads(data)
        stated = body.pop("self")
        if stated != _digest(body) or body.pop("version") != _VERSION:
            return None
        files = tuple(Landed(**file) for file in body.pop("files"))
        if not all(is_inside(file.path) for file in files):
            return None
        return Sentinel(**body, files=files)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
