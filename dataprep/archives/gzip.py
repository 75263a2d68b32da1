"""Reads a gzip archive from the middle: restart points, how they are found, kept and used.

A gzip file can only be unpacked from its start. So once, when it is indexed, places are found where
unpacking can start (`find_restarts`), each with the 32 KiB that were unpacked before it. They are
kept in a file of the index::

    header   magic, bytes of the archive, bytes it unpacks to, number of points
    table    of each point where it is (packed, bits, unpacked) and where its window is
    CRC-32C  of header and table
    windows  32 KiB each; the table has their CRC-32C

Only the table is kept in memory; a window is read when an image behind its point is.

A deflate block may start at any bit, but Python's zlib only takes whole bytes (it has no
``inflatePrime``). So the bits before a restart point are filled with empty blocks, which unpack to
nothing and leave the window as it is. Source of the bit layouts: RFC 1951, section 3.2.
"""

from __future__ import annotations

import io
import os
import struct
import zlib
from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

import google_crc32c

from dataprep.archives.open_files import Descriptor, read_at, read_some
from dataprep.errors import SourceError
from dataprep.system.messages import printable

if TYPE_CHECKING:
    from zlib import _Decompress

_WINDOW: Final = 32 << 10  # how many bytes before a place deflate may refer back to
_RAW: Final = -15  # zlib's code for deflate without a header, with a window of 32 KiB
_GZIP: Final = 31  # with gzip's header, and its trailer checked
_GZIP_MAGIC: Final = b"\x1f"
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

# An image costs the unpacking of half the spacing on average; each point costs 32 KiB of index.
_IMAGES: Final = 4
_LEAST, _MOST = 64 << 10, 2 << 20
_MOST_POINTS: Final = 4096

# What `indexed_gzip` exports: a header, a line for each point, and the windows of those points
# whose line says that they have one. Source: zran_export_index in its zran.h.
_EXPORT_HEADER: Final = struct.Struct("=5sBBQQIII")
_EXPORT_LINE: Final = struct.Struct("=QQBB")
_EXPORT_LAYOUT: Final = [b"GZIDX", 1]

_MAGIC: Final = b"dprstrt2"  # the last character is the version
_HEADER: Final = struct.Struct("<8sQQQ")
_CRC: Final = struct.Struct("<I")
_LINE: Final = struct.Struct("<QBQQI")  # packed, bits, unpacked, the window's place, its CRC


@dataclass(frozen=True, slots=True)
class Point:
    """A place in a gzip file where unpacking can start.

    Attributes:
        packed: the first byte of the file that belongs to the block there as a whole.
        bits: how many bits of the byte before it belong to the block as well.
        unpacked: the place in what the file unpacks to.
    """

    packed: int
    bits: int
    unpacked: int


_Found = tuple[Point, bytes | memoryview]
"""A point, and its window: 32 KiB, or nothing where a member of the archive starts."""


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


def unpack_from(descriptor: int, point: Point, window: bytes) -> Iterator[bytes]:
    """Unpack a gzip file from a restart point, in pieces of at most 256 KiB.

    Args:
        descriptor: the open gzip file.
        point: where to start.
        window: what was unpacked last before the point; empty at the start of a member.

    Raises:
        zlib.error: the file is damaged, or is not the one that the point was found in.
        EOFError: it is truncated.
    """
    inflater = zlib.decompressobj(_RAW, window) if window else zlib.decompressobj(_RAW)
    start = b""
    if point.bits:
        before = next(_packed(descriptor, point.packed - 1), b"\0")
        start = filled(8 - point.bits, before[0])
    yield from _members(_packed(descriptor, point.packed), inflater, start, _TRAILER)


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
    point, window = restarts.before(offset)
    skipped = offset - point.unpacked
    chunks: list[bytes] = []
    for piece in unpack_from(descriptor, point, window) if size else ():
        chunks.append(piece[skipped : skipped + size])
        skipped -= min(skipped, len(piece))
        size -= len(chunks[-1])
        if size == 0:
            break
    return b"".join(chunks)


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
        if not data.startswith(_GZIP_MAGIC):
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


def spacing_for(unpacked: int, images: int) -> int:
    """How far apart restart points should be, in bytes of unpacked data.

    Four images, so that reading one costs the unpacking of three on average; within 64 KiB, of
    which a point takes half, and 2 MiB; but more where archives are so large that an index would
    need more than 128 MB.

    Args:
        unpacked: how many bytes the archive unpacks to.
        images: how many images it holds.
    """
    few = _IMAGES * unpacked // max(images, 1)
    return max(_LEAST, min(few, _MOST), unpacked // _MOST_POINTS)


def find_restarts(descriptor: int, container: str, unpacked: int, *, spacing: int) -> bytes:
    """The restart points of a gzip file that was unpacked to its end before; see `pack_restarts`.

    `indexed_gzip` is used for this alone: inflating with a stop at each block (``Z_BLOCK``), which
    Python's zlib cannot do. The memory needed meanwhile is 64 KiB a point: 256 MB at most with what
    `spacing_for` says.

    Args:
        descriptor: the open file.
        container: what messages call it.
        unpacked: how many bytes it unpacks to.
        spacing: how many unpacked bytes are between two points at least, more than 32 KiB.

    Raises:
        SourceError: the points cannot be found, or the file is no longer what was unpacked.
    """
    import indexed_gzip  # imported late: only those who scan such an archive need it

    exported = io.BytesIO()
    try:
        with indexed_gzip.IndexedGzipFile(
            fileobj=_File(descriptor), spacing=spacing, window_size=_WINDOW, buffer_size=4096
        ) as file:
            file.build_full_index()
            file.export_index(fileobj=exported)
    except (OSError, MemoryError) as error:  # a ZranError is an OSError
        raise _not_found(container, printable(str(error))) from error
    view = exported.getbuffer()
    *layout, _, packed, length, _, _, count = _EXPORT_HEADER.unpack_from(view)
    if layout != _EXPORT_LAYOUT:
        raise _not_found(container, f"indexed_gzip exports {layout}, expected {_EXPORT_LAYOUT}")
    if length != unpacked:
        raise SourceError(
            f"{printable(container)} changed while it was read: it unpacked to {unpacked} bytes, "
            f"then to {length}; start again when it is complete"
        )
    return pack_restarts(packed, unpacked, list(_thinned(_exported(view, count), length, spacing)))


def _not_found(container: str, reason: str) -> SourceError:
    return SourceError(
        f"cannot find restart points in {printable(container)}: {reason}; decompress it, or "
        "compress it again with gzip"
    )


def _exported(view: memoryview, count: int) -> Iterator[_Found]:
    end = _EXPORT_HEADER.size + count * _EXPORT_LINE.size
    window = end
    for packed, unpacked, bits, has_window in _EXPORT_LINE.iter_unpack(
        view[_EXPORT_HEADER.size : end]
    ):
        yield Point(packed, bits, unpacked), view[window : window + _WINDOW * has_window]
        window += _WINDOW * has_window


def _thinned(found: Iterator[_Found], unpacked: int, spacing: int) -> Iterator[_Found]:
    """Leave out points that would not be missed: ``bgzip`` starts a member every 64 KiB."""
    last = next(found)
    yield last
    candidate = last
    for entry in found:
        if entry[0].unpacked >= unpacked:  # the last one is the end
            break
        if entry[0].unpacked - last[0].unpacked > spacing and candidate is not last:
            last = candidate
            yield last
        candidate = entry
    if candidate is not last:
        yield candidate


class _File(io.RawIOBase):
    """An open file as `indexed_gzip` can take it: without a number that it would open again."""

    mode = "rb"

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._position = 0

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        size = os.fstat(self._descriptor).st_size
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self.tell()}.get(whence, size)
        return self._position

    def read(self, size: int = -1, /) -> bytes:
        data = read_some(self._descriptor, self._position, size)
        self._position += len(data)
        return data


def pack_restarts(packed: int, unpacked: int, found: Sequence[_Found]) -> bytes:
    """Restart points as bytes for a file.

    Args:
        packed: how many bytes the archive has.
        unpacked: how many bytes it unpacks to.
        found: the points, ascending; the first is where the archive starts.
    """
    place = _HEADER.size + len(found) * _LINE.size + _CRC.size
    table = bytearray()
    for point, window in found:
        where = place if len(window) else 0
        crc = google_crc32c.value(bytes(window))
        table += _LINE.pack(point.packed, point.bits, point.unpacked, where, crc)
        place += len(window)
    head = _HEADER.pack(_MAGIC, packed, unpacked, len(found)) + bytes(table)
    windows = (window for _, window in found)
    return b"".join([head, _CRC.pack(google_crc32c.value(head)), *windows])


class Restarts:
    """The restart points in a file; any number of threads may ask it.

    Args:
        path: the file.
        name: what messages call it.

    Attributes:
        packed: how many bytes the archive has.
        unpacked: how many bytes it unpacks to.

    Raises:
        SourceError: it is not such a file, or a damaged one.
        OSError: it cannot be read.
    """

    def __init__(self, path: str, name: str) -> None:
        self._name = name
        self._file = Descriptor(path)
        header = read_at(self._file.number, 0, _HEADER.size)
        if len(header) < _HEADER.size or not header.startswith(_MAGIC):
            raise self._torn()
        _, self.packed, self.unpacked, count = _HEADER.unpack(header)
        # A damaged number must not claim memory.
        size = min(count * _LINE.size, os.fstat(self._file.number).st_size)
        rest = read_at(self._file.number, _HEADER.size, size + _CRC.size)
        if rest[size:] != _CRC.pack(google_crc32c.value(header + rest[:size])):
            raise self._torn()
        self._table = list(_LINE.iter_unpack(rest[:size]))
        self._starts = [start for _, _, start, _, _ in self._table]

    def before(self, unpacked: int) -> tuple[Point, bytes]:
        """The last point at or before a place in what the archive unpacks to, and its window.

        Raises:
            SourceError: the window is damaged.
            OSError: the window cannot be read.
        """
        line = self._table[bisect_right(self._starts, unpacked) - 1]
        packed, bits, start, offset, crc = line
        window = read_at(self._file.number, offset, _WINDOW) if offset else b""
        if google_crc32c.value(window) != crc:
            raise self._torn()
        return Point(packed, bits, start), window

    def _torn(self) -> SourceError:
        return SourceError(
            f"{printable(self._name)} in the index is damaged; expected the restart points of a "
            "gzip archive; start anew with --overwrite, which indexes the raw data again"
        )
