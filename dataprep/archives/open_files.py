"""Open files that threads share (`os.pread` has no file position), and streams of their bytes."""

from __future__ import annotations

import io
import os
from abc import abstractmethod
from collections.abc import Iterator
from typing import Final

from dataprep.system.regular_files import open_descriptor
from dataprep.system.throttle import pay

# Headers lie one image (100 KB) apart, so a larger buffer would only read image bytes in vain.
_BUFFER: Final = 8192
# tarfile goes back by one block when it has read what is no header.
_KEPT: Final = 16 << 10
_MOST_AT_ONCE: Final = 1 << 20


class Descriptor:
    """An open file, closed when the last reference goes: a cache's, or a running read's.

    Raises:
        OSError: it cannot be opened.
    """

    __slots__ = ("mtime", "number")

    def __init__(self, path: str) -> None:
        self.number = open_descriptor(path)
        self.mtime = os.fstat(self.number).st_mtime_ns

    def __del__(self) -> None:
        if hasattr(self, "number"):  # opening it may have failed
            os.close(self.number)


def read_at(descriptor: int, offset: int, size: int) -> bytes:
    """Read `size` bytes, or as many as there are, in spite of short reads.

    Network file systems may answer with fewer bytes than they were asked for.
    """
    data = read_some(descriptor, offset, size)
    if len(data) == size:
        return data
    chunks = [data]
    while chunks[-1] and (size := size - len(chunks[-1])):
        offset += len(chunks[-1])
        chunks.append(read_some(descriptor, offset, size))
    return b"".join(chunks)


def read_some(descriptor: int, offset: int, size: int) -> bytes:
    """Read up to `size` bytes with one call of the system; nothing only at the end of the file."""
    data = os.pread(descriptor, size, offset)
    pay(len(data))
    return data


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

    def __init__(self, descriptor: int, offset: int, size: int) -> None:
        super().__init__()
        self._size = size
        self._descriptor = descriptor
        self._offset = offset

    def reach(self, offset: int) -> int:
        """How many of the first `offset` bytes there are."""
        return min(self._size, offset)

    def _fetch(self, size: int, /) -> None:
        wanted = max(0, min(max(size, _BUFFER), self._size - self._position))
        self._start = self._position
        self._data = read_at(self._descriptor, self._offset + self._start, wanted)
        if len(self._data) < wanted:
            raise EOFError


class ForwardStream(ByteStream):
    """Pieces of bytes, each asked for once; one can skip ahead and go back by 16 KiB."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self._pieces = pieces

    @property
    def produced(self) -> int:
        """How many bytes the pieces had so far."""
        return self._start + len(self._data)

    def reach(self, offset: int) -> int:
        """Produce what precedes `offset`; returns how much of it there is."""
        return self._produce(offset, _KEPT)

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
