"""Reads part of what a gzip file unpacks to, from the restart point before it."""

from __future__ import annotations

from dataprep.archives.inflating import unpack_from
from dataprep.archives.restarts import Restarts


def read_unpacked(descriptor: int, restarts: Restarts, offset: int, size: int) -> bytes:
    """Unpack `size` bytes, or as many as there are, in the memory for them and one piece.

    Any number of threads may do so at once.

    Args:
        descriptor: the open gzip file.
        restarts: its restart points.
        offset: where the bytes start in what the file unpacks to.
        size: how many there are.

    Raises:
        zlib.error: the file is damaged, or another than was indexed.
        EOFError: it ends too early.
        SourceError: the restart points are damaged.
        OSError: something cannot be read.
    """
    if size == 0:
        return b""
    point, window = restarts.before(offset)
    behind = offset - point.unpacked
    chunks: list[bytes] = []
    for piece in unpack_from(descriptor, point.packed, point.bits, window):
        if behind >= len(piece):
            behind -= len(piece)
            continue
        chunks.append(piece[behind : behind + size])
        size -= len(chunks[-1])
        behind = 0
        if size == 0:
            break
    return b"".join(chunks)
