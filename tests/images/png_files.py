"""PNG files written by hand: every kind of pixels, interlaced or not, and any chunk beside them."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

MAGIC = b"\x89PNG\r\n\x1a\n"
GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
_ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2)]
_ADAM7 += [(0, 1, 1, 2)]


def chunk(name: bytes, body: bytes = b"") -> bytes:
    """A chunk with its length and checksum."""
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def split(data: bytes) -> list[tuple[bytes, bytes]]:
    """(name, body) of every chunk of a good file."""
    found, at = [], 8
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        found.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + size]))
        at += 12 + size
    return found


def join(chunks: list[tuple[bytes, bytes]]) -> bytes:
    """A file of (name, body)."""
    return MAGIC + b"".join(chunk(*parts) for parts in chunks)


def scanlines(samples: Any, depth: int, *, interlaced: bool = False) -> bytes:
    """What is deflated: rows of (height, width, samples), each after filter 0."""
    rows = []
    for left, top, across, down in _ADAM7 if interlaced else [(0, 0, 1, 1)]:
        part = np.asarray(samples)[top::down, left::across]
        for row in part if part.shape[1] else ():
            bits = "".join(f"{int(sample):0{depth}b}" for sample in row.ravel())
            bits += "0" * (-len(bits) % 8)
            rows.append(b"\0" + int(bits, 2).to_bytes(len(bits) // 8, "big"))
    return b"".join(rows)


def png(
    samples: Any,
    color: int = GREY,
    depth: int = 8,
    *,
    interlaced: bool = False,
    before: bytes = b"",
    after: bytes = b"",
    pieces: int = 1,
) -> bytes:
    """A file of (height, width) or (height, width, samples) whole numbers.

    `before` and `after` are chunks round the image data, which is cut into so many `pieces`.
    """
    whole = np.asarray(samples)
    whole = whole[..., np.newaxis] if whole.ndim == 2 else whole
    height, width, _ = whole.shape
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, int(interlaced))
    packed = zlib.compress(scanlines(whole, depth, interlaced=interlaced))
    step = -(-len(packed) // pieces)
    data = [chunk(b"IDAT", packed[at : at + step]) for at in range(0, len(packed), step)]
    return b"".join([MAGIC, chunk(b"IHDR", header), before, *data, after, chunk(b"IEND")])
