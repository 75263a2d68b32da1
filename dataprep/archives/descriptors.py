"""Open files that threads share: `os.pread` has no file position."""

from __future__ import annotations

import io
import os

from dataprep.system.throttle import pay


class Descriptor:
    """An open file, closed when the last reference goes: a cache's, or a running read's.

    Raises:
        OSError: it cannot be opened.
    """

    __slots__ = ("mtime", "number")

    def __init__(self, path: str) -> None:
        self.number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.mtime = os.fstat(self.number).st_mtime_ns

    def __del__(self) -> None:
        if hasattr(self, "number"):  # os.open may have failed
            os.close(self.number)


class Positioned(io.RawIOBase):
    """A raw stream that knows where it is; what it reads, and from what, a subclass says.

    Args:
        size: how many bytes there are.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Where the next byte comes from."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go there; beyond the end, too."""
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = origin + offset
        return self._position


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
