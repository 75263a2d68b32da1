"""Open files that threads share, here or in a bucket, and streams of their bytes."""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from dataprep.errors import DataprepError
from dataprep.remote.raw import Bucket, bucket_at
from dataprep.system.regular_files import open_descriptor
from dataprep.system.throttle import pay

# Headers lie one image (100 KB) apart, so a larger buffer would only read image bytes in vain.
_BUFFER: Final = 8192
# tarfile goes back by one block when it has read what is no header.
_KEPT: Final = 16 << 10
_MOST_AT_ONCE: Final = 1 << 20
_LEAST_AHEAD, _MOST_AHEAD = 64 << 10, 4 << 20  # bytes of a request to a bucket
_MOST_ENDS: Final = 1000  # times that the end of a file is read; a good image needs a few


class OpenFile(ABC):
    """An open file of raw data, closed when the last reference goes: a cache's, or a read's."""

    __slots__ = ()

    @property
    @abstractmethod
    def size(self) -> int:
        """How many bytes it has now."""

    @property
    @abstractmethod
    def mtime(self) -> int:
        """When it was modified, in ns since 1970; of an object in a bucket, what tells changes."""

    @abstractmethod
    def read_some(self, offset: int, size: int) -> bytes:
        """Read up to `size` bytes with one request; nothing only at the end of the file."""

    def read_at(self, offset: int, size: int) -> bytes:
        """Read `size` bytes, or as many as there are, in spite of short reads.

        Network file systems may answer with fewer bytes than they were asked for.
        """
        data = self.read_some(offset, size)
        if len(data) == size:
            return data
        chunks = [data]
        while chunks[-1] and (size := size - len(chunks[-1])):
            offset += len(chunks[-1])
            chunks.append(self.read_some(offset, size))
        return b"".join(chunks)


class LocalFile(OpenFile):
    """A file of this machine's file systems.

    Args:
        ahead: whether it is read from end to end: its time of modification is that of before.

    Raises:
        OSError: it cannot be opened.
    """

    __slots__ = ("_descriptor", "_mtime")

    def __init__(self, path: str, *, ahead: bool = False) -> None:
        self._descriptor = open_descriptor(path)
        self._mtime = os.fstat(self._descriptor).st_mtime_ns if ahead else -1

    @property
    def size(self) -> int:
        """See `OpenFile.size`."""
        return os.fstat(self._descriptor).st_size

    @property
    def mtime(self) -> int:
        """See `OpenFile.mtime`; else of when it is first asked for, which may cost a request."""
        if self._mtime < 0:
            self._mtime = os.fstat(self._descriptor).st_mtime_ns
        return self._mtime

    def read_some(self, offset: int, size: int) -> bytes:
        """See `OpenFile.read_some`."""
        data = os.pread(self._descriptor, size, offset)
        pay(len(data))
        return data

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):  # opening it may have failed
            os.close(self._descriptor)


class RemoteFile(OpenFile):
    """An object in a bucket, which must stay the one that was listed.

    Args:
        ahead: read larger ranges than are asked for, growing as long as they follow each other;
            then for one thread.

    Raises:
        RemoteError: when read, if the store does not answer, or has another object there.
    """

    __slots__ = ("_ahead", "_bucket", "_data", "_path", "_start", "mtime", "size")
    size: int
    mtime: int

    def __init__(self, bucket: Bucket, path: str, mtime: int, *, ahead: bool) -> None:
        self._bucket, self._path, self.mtime = bucket, path, mtime
        self.size = bucket.objects[path].bytes
        self._ahead = _LEAST_AHEAD if ahead else 0
        self._start, self._data = 0, b""

    def read_some(self, offset: int, size: int) -> bytes:
        """See `OpenFile.read_some`."""
        size = max(0, min(size, self.size - offset))
        at = offset - self._start
        if not 0 <= at <= len(self._data) - size:
            if self._ahead:
                follows = 0 <= at - len(self._data) <= self._ahead
                self._ahead = min(_MOST_AHEAD, 2 * self._ahead) if follows else _LEAST_AHEAD
            wanted = min(max(size, self._ahead), self.size - offset)
            data = self._bucket.read(self._path, offset, wanted) if size else b""
            pay(len(data))
            if not self._ahead:
                return data
            self._start, self._data, at = offset, data, 0
        return self._data[at : at + size]


class PythonFile(io.RawIOBase):
    """An open file with a position of its own, for libraries; what they read is paid for.

    It has no number, which `indexed_gzip` would open again. Nor can one wait for ever at its end,
    as `indexed_gzip` does for data that restart points invent.

    Attributes:
        failed: why it could not be read last, which `indexed_gzip` does not tell.
    """

    mode = "rb"

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self._position = self._ends = 0
        self.failed: DataprepError | None = None

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Where the next read starts."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Choose where the next read starts."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position}.get(whence)
        self._position = offset + (self._file.size if start is None else start)
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        """Read up to `size` bytes; to the end if it is negative."""
        if size is None or size < 0:
            size = self._file.size - self._position
        try:
            data = self._file.read_some(self._position, size)
        except DataprepError as error:
            self.failed = error
            raise
        self._position += len(data)
        self._ends += not data
        if self._ends > _MOST_ENDS:
            raise EOFError("its compressed data end too early")
        return data


def open_container(raw: str | Path, container: str, *, ahead: bool = False) -> OpenFile:
    """Open a file of raw data, in a directory or in a bucket.

    Args:
        raw: the raw directory, or what stands for the bucket.
        ahead: whether it is read from end to end, by one thread.

    Raises:
        OSError: it cannot be opened.
    """
    path, bucket = f"{raw}/{container}", _bucket_at(str(raw))
    if bucket is not None and container in bucket.objects:
        mtime = os.stat(path).st_mtime_ns  # noqa: PTH116  # 1,000,000 Path take seconds
        return RemoteFile(bucket, container, mtime, ahead=ahead)
    return LocalFile(path, ahead=ahead)


def is_in_bucket(raw: str | Path) -> bool:
    """Whether files of raw data are read from a bucket."""
    return _bucket_at(str(raw)) is not None


_bucket_at = lru_cache(8)(bucket_at)
forget_buckets = _bucket_at.cache_clear  # see them as they are listed now


class ByteStream(io.BufferedIOBase):
    """Bytes from a start on, as `tarfile` reads them: at a place, a few at a time."""

    def __init__(self) -> None:
        self._position = 0
        self._data = b""  # what was fetched last
        self._start = 0  # where that is

    def tell(self) -> int:
        """Where the next read starts."""
        return self._position

    def seek(self, offset: int, _whence: int = os.SEEK_SET, /) -> int:
        """Choose where the next read starts, from the beginning."""
        self._position = offset
        return offset

    def read(self, size: int | None = -1, /) -> bytes:
        """Read up to `size` bytes; fewer only at the end.

        Raises:
            ValueError: more than 1 MiB is asked for, as only a forged extension header does.
        """
        if size is None or not 0 <= size <= _MOST_AT_ONCE:
            raise ValueError(f"extension header of {size} bytes")
        if not 0 <= self._position - self._start <= len(self._data) - size:
            self._fetch(size)
        at = self._position - self._start
        piece = self._data[at : at + size]
        self._position += len(piece)
        return piece

    @abstractmethod
    def reach(self, offset: int) -> int:
        """How many of the first `offset` bytes there are."""

    def read_at(self, offset: int, size: int) -> bytes:
        """So many bytes at a place; fewer only at the end."""
        self._position = offset
        return self.read(size)

    @abstractmethod
    def _fetch(self, size: int, /) -> None:
        """Have so many bytes from the position on in `_data`, or all there are."""


class FileRange(ByteStream):
    """A range of bytes of an open file, which ends where the range ends.

    Raises:
        EOFError: when read, if the file became shorter.
    """

    def __init__(self, file: OpenFile, offset: int, size: int) -> None:
        super().__init__()
        self._size = size
        self._file = file
        self._offset = offset

    def reach(self, offset: int) -> int:
        """How many of the first `offset` bytes there are."""
        return min(self._size, offset)

    def _fetch(self, size: int, /) -> None:
        wanted = max(0, min(max(size, _BUFFER), self._size - self._position))
        self._start = self._position
        self._data = self._file.read_at(self._offset + self._start, wanted)
        if len(self._data) < wanted:
            raise EOFError


class ForwardStream(ByteStream):
    """Pieces of bytes, each asked for once; one can skip ahead and go back by 16 KiB.

    And to where `reach` was called, if that is 1 MiB before at most.
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self._pieces = pieces

    @property
    def produced(self) -> int:
        """How many bytes the pieces had so far."""
        return self._start + len(self._data)

    def reach(self, offset: int) -> int:
        """Produce what precedes `offset`; returns how much of it there is."""
        skipped = offset - self._position
        return self._produce(offset, _KEPT + skipped * (0 < skipped <= _MOST_AT_ONCE + _KEPT))

    def _fetch(self, size: int, /) -> None:
        if self._position < self._start:
            raise ValueError(f"cannot go back to byte {self._position}")
        self.reach(self._position)
        self._produce(self._position + size, _KEPT + _MOST_AT_ONCE)

    def _produce(self, offset: int, kept: int) -> int:
        while self.produced < offset and (piece := next(self._pieces, b"")):
            self._start = max(self._start, self.produced - kept)
            self._data = self._data[-kept:] + piece
        return min(self.produced, offset)
