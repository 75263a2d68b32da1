"""A stream that is only ever produced from front to back, for readers that seek a little."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import Final

# tarfile goes back by one block when it has read what is no header.
_KEPT: Final = 16 << 10
_MOST_AT_ONCE: Final = 1 << 20


class ForwardStream(io.BufferedIOBase):
    """Pieces of bytes as a file that can be read on, skipped ahead in and gone back in by 16 KiB.

    Args:
        pieces: the content, in order; each is asked for once, when it is needed.

    Attributes:
        size: None: it is not known before the end. (That is what readers ask a stream for.)
        produced: how many bytes the pieces had so far.
    """

    size: None = None

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._data = b""  # the end of what was produced
        self._position = 0
        self.produced = 0

    def tell(self) -> int:
        """Where the next read starts."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Choose where the next read starts, from the beginning.

        Raises:
            ValueError: that was produced too long ago.
        """
        if whence != os.SEEK_SET or offset < self.produced - len(self._data):
            raise ValueError(f"cannot go back from byte {self.produced} to byte {offset}")
        self._position = offset
        return offset

    def reach(self, offset: int) -> int:
        """Produce what precedes `offset`; returns how much of it there is."""
        while self.produced < offset and (piece := next(self._pieces, b"")):
            self._data = self._data[-_KEPT:] + piece
            self.produced += len(piece)
        return min(self.produced, offset)

    def read(self, size: int | None = -1, /) -> bytes:
        """Read up to `size` bytes; fewer only at the end.

        Raises:
            ValueError: more than 1 MiB is asked for, as only a forged extension header does.
        """
        if size is None or not 0 <= size <= _MOST_AT_ONCE:
            raise ValueError(f"extension header of {size} bytes")
        chunks: list[bytes] = []
        while size > 0 and self.reach(self._position + 1) > self._position:
            start = self._position - (self.produced - len(self._data))
            chunks.append(self._data[start : start + size])
            self._position += len(chunks[-1])
            size -= len(chunks[-1])
        return b"".join(chunks)
