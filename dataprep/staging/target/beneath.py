"""Reaching files below an open directory, never through a link."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dataprep.errors import StagingError
from dataprep.system.messages import printable

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def place_of(directory: int) -> str:
    """What an open directory is called, for messages."""
    try:
        return printable(str(Path(f"/proc/self/fd/{directory}").readlink()))
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


def _enter(here: int, part: str, create: bool) -> int:
    try:
        return os.open(part, _DIRECTORY, dir_fd=here)
    except FileNotFoundError:
        if not create:
            raise
    try:
        os.mkdir(part, 0o755, dir_fd=here)
        os.fsync(here)
    except FileExistsError:
        pass  # another stream was faster
    return os.open(part, _DIRECTORY, dir_fd=here)
