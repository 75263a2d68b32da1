"""Inflating a zlib stream (RFC 1950) that is stored in pieces, so much at a time."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from dataprep.errors import ImageError


class Inflater:
    """A zlib stream of a PNG file, read from front to back; never more memory than is asked for.

    Args:
        pieces: the stream, cut anywhere.
    """

    def __init__(self, pieces: Iterable[memoryview]) -> None:
        self._pieces = (piece for piece in pieces if len(piece) > 0)
        self._pending: memoryview | bytes = b""
        self._zlib = zlib.decompressobj()

    def take(self, size: int) -> bytes:
        """The next `size` bytes.

        Raises:
            ImageError: the stream is damaged, or ends before.
        """
        parts, missing = [], size
        while missing:
            part, more = self._step(missing)
            if not part and not more:
                raise ImageError(f"truncated PNG: its image data ends {missing} bytes early")
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def finish(self) -> bool:
        """Read to the end of the stream, where its checksum is.

        Returns:
            Whether anything more was there, of the stream or behind it.

        Raises:
            ImageError: the stream is damaged, or has no end.
        """
        while not self._zlib.eof:
            part, more = self._step(1)
            if part:
                return True
            if not more and not self._zlib.eof:
                raise ImageError("truncated PNG: its image data has no end")
        return bool(self._zlib.unused_data) or any(True for _ in self._pieces)

    def _step(self, most: int) -> tuple[bytes, bool]:
        """Inflate at most so many bytes (above 0); whether there was anything to do it with."""
        if self._zlib.eof:
            return b"", False
        self._pending = self._pending or next(self._pieces, b"")
        more = len(self._pending) > 0
        try:
            # Without input too: zlib may still hold back a part of what it has been given.
            part = self._zlib.decompress(self._pending, most)
        except zlib.error as error:
            raise ImageError(f"broken PNG: {error}") from error
        self._pending = self._zlib.unconsumed_tail
        return part, more
