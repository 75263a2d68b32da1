"""Reads one image's bytes from wherever the index says they are."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Final

from dataprep.errors import SourceError
from dataprep.index import Row
from dataprep.wording import printable, unreadable

# The usual limit of a process is 1024 open files; the sinks and Beam need some of them.
_MOST_OPEN_ARCHIVES: Final = 64


def read_image(raw: Path, row: Row) -> bytes:
    """Read the bytes of one image.

    Archives stay open and are shared by all threads (`os.pread` has no file position); a file
    in a tree costs three system calls: open, read, close.

    Args:
        raw: the raw directory the row was made from.
        row: where the image is. Offset 0 means that the container is the image itself: in an
            archive a header comes first.

    Returns:
        Exactly `row.size` bytes.

    Raises:
        SourceError: the container is gone, unreadable, shorter than the row says or, in a tree,
            no longer of the size it had when it was indexed.
    """
    path = f"{raw}/{row.container}"
    try:
        if row.offset == 0:
            return _read_file(path, row)
        return _read_member(_open_archive(path), row)
    except FileNotFoundError as error:
        raise _changed(row, "it no longer exists") from error
    except OSError as error:
        raise unreadable(row.container, error) from error


def close_archives() -> None:
    """Close the archives kept open, so that the next read sees the files as they are then.

    An archive that another thread is reading from is closed when that read is done.
    """
    _open_archive.cache_clear()


class _Descriptor:
    """An open file, closed when the last reference goes: the cache's, or a running read's."""

    __slots__ = ("number",)

    def __init__(self, path: str) -> None:
        self.number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if hasattr(self, "number"):  # os.open may have failed
            os.close(self.number)


@lru_cache(maxsize=_MOST_OPEN_ARCHIVES)
def _open_archive(path: str) -> _Descriptor:
    return _Descriptor(path)


def _read_file(path: str, row: Row) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # One byte more than indexed shows that a file grew, without asking for its size.
        data = os.read(descriptor, row.size + 1)
        if len(data) < row.size:
            data += _read_rest(descriptor, len(data), row.size + 1 - len(data))
    finally:
        os.close(descriptor)
    if len(data) != row.size:
        found = f"it has {'more than ' * (len(data) > row.size)}{min(len(data), row.size)} bytes"
        raise _changed(row, f"{found}, expected {row.size}")
    return data


def _read_member(archive: _Descriptor, row: Row) -> bytes:
    data = os.pread(archive.number, row.size, row.offset)
    if len(data) < row.size:
        data += _read_rest(archive.number, row.offset + len(data), row.size - len(data))
    if len(data) < row.size:
        raise _changed(
            row,
            f"{printable(row.key)} ends at byte {row.offset + row.size}, but the archive has "
            f"{os.fstat(archive.number).st_size} bytes",
        )
    return data


def _read_rest(descriptor: int, offset: int, size: int) -> bytes:
    """What remains after a short read, which network file systems may answer with."""
    chunks: list[bytes] = []
    while size > 0 and (chunk := os.pread(descriptor, size, offset)):
        chunks.append(chunk)
        offset += len(chunk)
        size -= len(chunk)
    return b"".join(chunks)


def _changed(row: Row, finding: str) -> SourceError:
    return SourceError(
        f"{printable(row.container)} changed since it was indexed: {finding}; restore it, or "
        "start anew with --overwrite, which indexes the raw data again"
    )
