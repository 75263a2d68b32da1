"""Unpacks gzip from its start or from a restart point, in bounded memory.

A deflate block may start at any bit, but Python's zlib only takes whole bytes (it has no
``inflatePrime``). So the bits before a restart point are filled with empty blocks, which unpack to
nothing and leave the window as it is. Source of the bit layouts: RFC 1951, section 3.2.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterator
from functools import cache
from typing import TYPE_CHECKING, Final

from dataprep.archives.descriptors import read_some

if TYPE_CHECKING:
    from zlib import _Decompress

WINDOW: Final = 32 << 10
"""How many bytes before a place deflate may refer back to."""

_RAW: Final = -15  # zlib's code for deflate without a header, with a window of 32 KiB
_GZIP: Final = 31  # with gzip's header, and its trailer checked
_MAGIC: Final = b"\x1f"
_TRAILER: Final = 8  # CRC-32 and length
_MOST_PACKED: Final = 128 << 10
_MOST_UNPACKED: Final = 256 << 10

# Each block as (value, bits), the first bit of the stream being the lowest of the value.
# Not the last block; fixed Huffman codes; the code of the end of the block.
_EMPTY_FIXED: Final = ((0, 1), (1, 2), (0, 7))
# Not the last block; Huffman codes of its own: 257 of them, 1 distance, 18 code lengths. Those
# give symbol 0 the code 0 and symbols 1 and 18 the codes 10 and 11. Then 138 + 118 times length
# 0 (symbol 18 and 7 bits), length 1 for the end of the block and length 0 for the distance, and
# the end of the block. 93 bits: the odd number that empty blocks of 10 bits cannot make.
_EMPTY_DYNAMIC: Final = (
    *((0, 1), (2, 2), (0, 5), (0, 5), (14, 4)),
    *((length, 3) for length in (0, 0, 2, 1, *(0,) * 13, 2)),
    *((3, 2), (138 - 11, 7), (3, 2), (118 - 11, 7)),
    *((1, 2), (0, 1), (0, 1)),
)


def unpack(descriptor: int) -> Iterator[bytes]:
    """Unpack a gzip file from its start, in pieces of at most 256 KiB.

    It may have several members, as ``pigz`` and ``cat`` make them, and zeros after each; every
    member's CRC-32 and length are checked.

    Raises:
        zlib.error: it is damaged, or something else follows a member.
        EOFError: it is truncated.
    """
    packed = _packed(descriptor, 0)
    yield from _members(packed, zlib.decompressobj(_GZIP), next(packed, b""))


def unpack_from(descriptor: int, offset: int, bits: int, window: bytes) -> Iterator[bytes]:
    """Unpack a gzip file from a restart point, in pieces of at most 256 KiB.

    Args:
        descriptor: the open gzip file.
        offset: the first byte that belongs to the block there as a whole.
        bits: how many bits of the byte before it belong to the block as well.
        window: what was unpacked last before the point; empty at the start of a member.

    Raises:
        zlib.error: the file is damaged, or is not the one that the point was found in.
        EOFError: it is truncated.
    """
    inflater = zlib.decompressobj(_RAW, window) if window else zlib.decompressobj(_RAW)
    start = b""
    if bits:
        start = filled(8 - bits, next(_packed(descriptor, offset - 1), b"\0")[0])
    yield from _members(_packed(descriptor, offset), inflater, start, _TRAILER)


def filled(used: int, byte: int) -> bytes:
    """Bytes that inflate takes in so that of `byte` only the bits above the lowest `used` count.

    Args:
        used: from 1 to 7.
        byte: the byte in which a block starts.
    """
    filler, length = _filler(used)
    last = filler >> (length - used) | byte >> used << used
    return (filler & ((1 << (length - used)) - 1)).to_bytes(length // 8, "little") + bytes([last])


@cache
def _filler(used: int) -> tuple[int, int]:
    """Empty blocks that fill whole bytes and `used` bits: (value, bits)."""
    fields = list(_EMPTY_DYNAMIC if used % 2 else ())
    while (length := sum(bits for _, bits in fields)) % 8 != used:
        fields += _EMPTY_FIXED
    value = 0
    for field, bits in reversed(fields):
        value = value << bits | field
    return value, length


def _members(
    packed: Iterator[bytes], inflater: _Decompress, data: bytes, trailer: int = 0
) -> Iterator[bytes]:
    while True:
        data = yield from _member(packed, inflater, data)
        data = _after(packed, data, trailer)
        if not data:
            return
        if not data.startswith(_MAGIC):
            raise zlib.error("something else follows after the compressed data")
        inflater, trailer = zlib.decompressobj(_GZIP), 0


def _member(
    packed: Iterator[bytes], inflater: _Decompress, data: bytes
) -> Generator[bytes, None, bytes]:
    """Unpack the rest of a member; returns what was read beyond it."""
    while True:
        unpacked = inflater.decompress(data, _MOST_UNPACKED)
        if unpacked:
            yield unpacked
        if inflater.eof:
            return inflater.unused_data
        data = inflater.unconsumed_tail
        # After a full piece there may be more to come without any input.
        if not data and len(unpacked) < _MOST_UNPACKED:
            data = _next(packed)


def _after(packed: Iterator[bytes], data: bytes, trailer: int) -> bytes:
    """What follows a trailer and zeros; empty at the end of the file."""
    while len(data) < trailer:
        data += _next(packed)
    data = data[trailer:].lstrip(b"\0")
    while not data and (piece := next(packed, b"")):
        data = piece.lstrip(b"\0")
    return data


def _next(packed: Iterator[bytes]) -> bytes:
    data = next(packed, b"")
    if not data:
        raise EOFError
    return data


def _packed(descriptor: int, offset: int) -> Iterator[bytes]:
    while data := read_some(descriptor, offset, _MOST_PACKED):
        yield data
        offset += len(data)
