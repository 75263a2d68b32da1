"""The file of restart points of a gzip archive: where unpacking can start, and with what.

::

    header   magic, bytes of the archive, bytes it unpacks to, number of points
    table    of each point where it is (packed, bits, unpacked) and where its window is
    CRC-32C  of header and table
    windows  32 KiB each, or less and then zlib-compressed; the table has their CRC-32C

Only the table is kept in memory; a window is read when an image behind its point is.
"""

from __future__ import annotations

import io
import os
import struct
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import google_crc32c

from dataprep.archives.descriptors import Descriptor, read_at
from dataprep.archives.inflating import WINDOW
from dataprep.errors import SourceError
from dataprep.system.messages import printable

_MAGIC: Final = b"dprstrt1"  # the last character is the version
_HEADER: Final = struct.Struct("<8sQQQ")
# Packed offset, bits, unpacked offset; offset, size and CRC-32C of the window, all 0 without one.
_POINT: Final = struct.Struct("<QBQQHI")
_CRC: Final = struct.Struct("<I")


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


def pack_restarts(
    packed: int, unpacked: int, points: Iterable[Point], windows: Iterable[bytes]
) -> bytes:
    """Restart points as bytes for a file.

    Args:
        packed: how many bytes the archive has.
        unpacked: how many bytes it unpacks to.
        points: ascending; the first is where the archive starts.
        windows: of each point what was unpacked before it: 32 KiB, or nothing where a member of
            the archive starts. Taken one at a time.
    """
    points = list(points)
    file = io.BytesIO()
    start = _HEADER.size + len(points) * _POINT.size + _CRC.size
    table = [_HEADER.pack(_MAGIC, packed, unpacked, len(points))]
    file.seek(start)
    for point, window in zip(points, windows, strict=True):
        stored = min(zlib.compress(window), window, key=len)
        crc = google_crc32c.value(stored)
        place = file.tell()
        table.append(_POINT.pack(point.packed, point.bits, point.unpacked, place, len(stored), crc))
        file.write(stored)
    file.seek(0)
    file.write(b"".join(table))
    file.write(_CRC.pack(google_crc32c.value(b"".join(table))))
    return file.getvalue()


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
        size = count * _POINT.size
        if size > os.fstat(self._file.number).st_size:
            raise self._torn()
        rest = read_at(self._file.number, _HEADER.size, size + _CRC.size)
        if len(rest) < size + _CRC.size:
            raise self._torn()
        if _CRC.unpack(rest[size:])[0] != google_crc32c.value(header + rest[:size]):
            raise self._torn()
        self._table = rest[:size]
        self._starts = array("Q", (point[2] for point in _POINT.iter_unpack(self._table)))

    def before(self, unpacked: int) -> tuple[Point, bytes]:
        """The last point at or before a place in what the archive unpacks to, and its window.

        Raises:
            SourceError: the window is damaged.
            OSError: the window cannot be read.
        """
        place = bisect_right(self._starts, unpacked) - 1
        packed, bits, start, offset, size, crc = _POINT.unpack_from(
            self._table, place * _POINT.size
        )
        window = read_at(self._file.number, offset, size)
        if len(window) < size or google_crc32c.value(window) != crc:
            raise self._torn()
        if 0 < size < WINDOW:
            window = zlib.decompress(window)
        return Point(packed, bits, start), window

    def _torn(self) -> SourceError:
        return SourceError(
            f"{printable(self._name)} in the index is damaged; expected the restart points of a "
            "gzip archive; start anew with --overwrite, which indexes the raw data again"
        )
