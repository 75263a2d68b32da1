"""What says that a copy is whole: written last, with the digest of what it is a copy of.

A line of JSON says what the copy is of, one more line each what is known of a file, and the last
line is the SHA-256 of all before it: millions of files are written and read one after the other.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any

from dataprep.errors import StagingError
from dataprep.staging.landed import Landed
from dataprep.staging.private import PRIVATE
from dataprep.staging.target.beneath import opened_parent
from dataprep.staging.target.directory import StageDirectory
from dataprep.staging.target.refusals import refused

SENTINEL = "complete.json"
RETIRED = "retired.json"  # one that does not count any more, but names what is to be cleaned

_VERSION = 2


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
        asked: which part of the source the call asked for, see `StageRequest.asked`.
    """

    source: str
    digest: str
    selection: str
    job: str | None
    shared: bool
    files: tuple[Landed, ...]
    asked: str = ""


def read_sentinel(directory: StageDirectory, name: str = SENTINEL) -> Sentinel | None:
    """The sentinel; None if there is none, or none that can be understood.

    Args:
        directory: the target.
        name: `SENTINEL`, or `RETIRED`.
    """
    try:
        with directory.open_private(name) as file:
            return None if file is None else _parse(file)
    except StagingError:
        return None


def write_sentinel(directory: StageDirectory, sentinel: Sentinel) -> None:
    """Put it there, durably, in one step."""
    directory.write_private(SENTINEL, _lines(sentinel))


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


def _lines(sentinel: Sentinel) -> Iterator[bytes]:
    digest = hashlib.sha256()
    header = {
        "version": _VERSION,
        "source": sentinel.source,
        "digest": sentinel.digest,
        "selection": sentinel.selection,
        "job": sentinel.job,
        "shared": sentinel.shared,
        "asked": sentinel.asked,
    }
    rows = ((file.path, file.bytes, file.sha256, file.modified) for file in sentinel.files)
    for said in chain([header], rows):
        line = json.dumps(said, separators=(",", ":")).encode() + b"\n"
        digest.update(line)
        yield line
    yield digest.hexdigest().encode() + b"\n"


def _parse(lines: Iterable[bytes]) -> Sentinel | None:
    try:
        said = _proven(lines)
        header: dict[str, Any] = next(said, {})
        files = tuple(Landed(*row) for row in said)
        if header.pop("version") != _VERSION or not all(is_inside(file.path) for file in files):
            return None
        return Sentinel(**header, files=files)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _proven(lines: Iterable[bytes]) -> Iterator[Any]:
    """What every line says but for the last, which proves the others; ValueError if it does not."""
    digest, last = hashlib.sha256(), b""
    for line in lines:
        if last:
            digest.update(last)
            yield json.loads(last)
        last = line
    if last != digest.hexdigest().encode() + b"\n":
        raise ValueError
