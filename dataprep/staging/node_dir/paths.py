"""Files below an open directory: reached without following a link, named, and explained."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Literal

from dataprep.errors import NoRoomError, StagingError
from dataprep.system.durable_files import PARTIAL
from dataprep.system.messages import printable, refusal

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PARTIAL = re.compile(rf"\.([0-9a-f]{{16}})\.[0-9a-f]{{8}}{re.escape(PARTIAL)}")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

PRIVATE = ".dataprep-stage"

Verify = Literal["none", "copy", "reread"]


def place_of(directory: int) -> str:
    """The absolute path of an open directory, without links; for messages and notes."""
    try:
        return str(Path(f"/proc/self/fd/{directory}").readlink())
    except OSError:
        return "the target"


@contextmanager
def opened_parent(directory: int, path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
    """Open the directory that a file is in, one component after the other.

    Args:
        directory: an open descriptor.
        path: of the file, relative, with ``/``.
        create: make what is missing, durably.

    Yields:
        The descriptor of the file's directory, and the file's own name.

    Raises:
        StagingError: the path leads out of the directory.
        OSError: a component is missing, a link (ENOTDIR, ELOOP), or cannot be opened.
    """
    *above, name = path.split("/")
    if any(part in ("", ".", "..") for part in (*above, name)):
        raise StagingError(f"{printable(path)!r} is no path below a directory; check the source")
    here = os.dup(directory)
    try:
        for part in above:
            below = _enter(here, part, create)
            os.close(here)
            here = below
        yield here, name
    finally:
        os.close(here)


def sync_folders(directory: int, paths: Iterable[str]) -> None:
    """Make the names of files durable, one flush for each directory that they are in.

    Raises:
        StagingError: a directory is not there any more, or cannot be flushed.
    """
    try:
        for path in {path.rpartition("/")[0]: path for path in paths}.values():
            with opened_parent(directory, path) as (parent, _):
                os.fsync(parent)
    except OSError as error:
        raise target_error(error, place_of(directory), "flushing a directory") from error


def _enter(here: int, part: str, create: bool) -> int:
    try:
        return os.open(part, _DIRECTORY, dir_fd=here)
    except FileNotFoundError:
        if not create:
            raise
    with suppress(FileExistsError):  # another stream was faster
        os.mkdir(part, 0o755, dir_fd=here)
        os.fsync(here)
    return os.open(part, _DIRECTORY, dir_fd=here)


def partial_name(name: str) -> str:
    """A new temporary name for a file; of the same length for any ``name``."""
    return f".{_mark(name)}.{secrets.token_hex(4)}{PARTIAL}"


def _mark(name: str) -> str:
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:16]


def remove_empty_folders(target: int, paths: Iterable[str]) -> None:
    """Delete the directories above files of a target that hold nothing any more."""
    folders = {str(above) for path in paths for above in PurePosixPath(path).parents} - {"."}
    for folder in sorted(folders, key=lambda each: each.count("/"), reverse=True):
        with suppress(OSError), opened_parent(target, folder) as (parent, name):
            os.rmdir(name, dir_fd=parent)


def remove_files(target: int, paths: Iterable[str], *, finished: bool) -> tuple[int, int]:
    """Delete what killed copiers left half-done of files, and if ``finished`` those files, too.

    Durably: once it is forgotten that they are staging's, none may come back.

    The node's lock must be held. Only plain files of this user go; no link is followed.

    Args:
        target: an open descriptor of the directory.
        paths: of what was, or will be, copied into it.
        finished: whether the files themselves are removed.

    Returns:
        How many were removed, and their bytes.

    Raises:
        StagingError: one cannot be deleted; a directory cannot be looked into.
    """
    count = size = 0
    folders: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        folder, _, name = path.rpartition("/")
        folders[folder].add(name)
    for folder, names in folders.items():
        inside = f"{folder}/x".lstrip("/")  # any name will do: only its directory is opened
        marks = frozenset(map(_mark, names))
        try:
            with opened_parent(target, inside) as (directory, _):
                before = count
                for name in os.listdir(directory):  # noqa: PTH208 - a descriptor
                    partial = _PARTIAL.fullmatch(name)
                    if not (partial and partial[1] in marks) and not (finished and name in names):
                        continue
                    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
                    if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
                        os.unlink(name, dir_fd=directory)
                        count, size = count + 1, size + found.st_size
                if count > before:
                    os.fsync(directory)
        except (FileNotFoundError, NotADirectoryError):  # no such folder, or a link in its place
            continue
        except OSError as error:
            raise target_error(error, place_of(target), f"removing from {folder or '.'}") from error
    return count, size


def target_error(
    error: OSError, place: Path | str, doing: str = "", *, copied: bool = True
) -> StagingError:
    """What to tell the user when the system refuses something in a target directory.

    Args:
        doing: what was being done, e.g. ``writing complete.json``.
        copied: whether something may have been copied already; if not, no space is `NoRoomError`.
    """
    where = f"{printable(str(place))}: cannot go on{f' {printable(doing)}' if doing else ''}"
    reason = refusal(error)
    if error.errno in _FULL:
        kind = StagingError if copied else NoRoomError
        return kind(
            f"{where}: no space left ({reason}); free some and run the same "
            "command again, or choose another place (--to)"
        )
    return StagingError(
        f"{where}: {reason}; mend that, or choose another place (--to), and run the same command "
        "again"
    )
