"""New files: written with their hash on the way, or by a library and then read back for it."""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from dataprep.errors import SinkError
from dataprep.formats.base import WrittenFile
from dataprep.system.state_files import file_sha256

_BUFFER = 1 << 20  # few large writes: what parallel file systems like
_ROOM = 64 << 20  # as much as libraries hand over at once, and more
_MOST_PIECES = os.sysconf("SC_IOV_MAX")  # that the system takes in one write
# Of Linux only, and Python's library has it not.
_sync_file_range = getattr(ctypes.CDLL(None), "sync_file_range", None)
_WRITE = 2  # SYNC_FILE_RANGE_WRITE of fcntl.h: begin, and do not wait


class HashedFile:
    """A new file opened for appending; counts and hashes what is written.

    Args:
        path: must not exist.
    """

    def __init__(self, path: Path) -> None:
        # Unbuffered, with a buffer of our own: Python's would try to flush once more when an
        # abandoned file is collected, which on a full disk fails again.
        self._file = path.open("xb", buffering=0)
        self._pending: list[bytes] = []
        self._pending_size = 0
        self._sha256 = hashlib.sha256()
        self.size = 0

    def write(self, *pieces: bytes) -> None:
        """Append the pieces, which are not copied: they must not change."""
        for piece in pieces:
            self._sha256.update(piece)
        size = sum(map(len, pieces))
        self._pending_size += size
        self.size += size
        self._pending += pieces
        if self._pending_size >= _BUFFER:
            self._flush()

    def finish(self) -> WrittenFile:
        """Flush to the disk, close, and say what was written."""
        self._flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return WrittenFile(self.size, self._sha256.hexdigest())

    def abandon(self) -> None:
        """Close without writing what is pending; harmless after `finish`."""
        self._pending.clear()
        self._file.close()

    def _flush(self) -> None:
        pieces, size = self._pending, self._pending_size
        self._pending, self._pending_size = [], 0
        if len(pieces) > _MOST_PIECES:
            pieces = [b"".join(pieces)]
        written = os.writev(self._file.fileno(), pieces)
        if written == size:
            begin_writeback(self._file.fileno(), self.size - size, size)
        else:
            rest = memoryview(b"".join(pieces))[written:]
            while rest:
                rest = rest[self._file.write(rest) :]


def begin_writeback(descriptor: int, offset: int = 0, size: int = 0) -> None:
    """Have the disk take these bytes while more are made: `os.fsync` then waits for the last only.

    It is only a wish, so whether it can be granted does not matter. Size 0 is up to the end.
    """
    if _sync_file_range is not None:
        _sync_file_range(descriptor, ctypes.c_int64(offset), ctypes.c_int64(size), _WRITE)


def write_file(path: Path, data: bytes) -> WrittenFile:
    """Write a new file, flush it to the disk, and describe it."""
    file = HashedFile(path)
    try:
        file.write(data)
        return file.finish()
    finally:
        file.abandon()


@contextmanager
def library_writes(path: Path, library: str, kind: type[Exception]) -> Iterator[None]:
    """Have a library that writes a file fail as Python would on a full disk.

    Libraries tell that in words of their own, if at all. So the system is asked for some more
    room; the file is lost anyhow.

    Args:
        kind: what the library raises.

    Raises:
        OSError: the disk is full, and the like.
        SinkError: something else is wrong.
    """
    try:
        yield
    except kind as error:
        with path.open("ab") as file:
            size = file.seek(0, os.SEEK_END)
            try:
                os.posix_fallocate(file.fileno(), size, _ROOM)
            except OSError as reason:
                raise OSError(reason.errno, reason.strerror, str(path)) from error
            finally:
                os.ftruncate(file.fileno(), size)
        raise SinkError(f"{path}: {library} failed: {error}") from error


def hash_finished(path: Path) -> WrittenFile:
    """Flush a file that a library wrote to the disk, and read it back to describe it.

    Libraries write their files in no order that one could hash on the way.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with ThreadPoolExecutor(1) as other:  # the disk works while the processor hashes
            flushed = other.submit(os.fsync, descriptor)
            sha256 = file_sha256(path)
            flushed.result()
        return WrittenFile(os.fstat(descriptor).st_size, sha256)
    finally:
        os.close(descriptor)
