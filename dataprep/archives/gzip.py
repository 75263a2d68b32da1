"""Reads a gzip archive from the middle: restart points, how they are found, kept and used.

A gzip file can only be unpacked from its start. So once, when it is indexed, `indexed_gzip` finds
places where unpacking can start, each with the 32 KiB that were unpacked before it, its window.
They are kept in a file of the index, as `indexed_gzip` exports them (`zran_export_index` in its
zran.h). Of these only the table of points is kept in memory; a window is read when an image behind
its point is.
"""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from collections.abc import Iterator
from typing import Final

import numpy as np

from dataprep.archives.open_files import LocalFile, OpenFile, PythonFile

_WINDOW: Final = 32 << 10  # how many bytes before a place deflate may refer back to
_PACKED_AT_ONCE: Final = 128 << 10
_UNPACKED_AT_ONCE: Final = 256 << 10

# An image costs the unpacking of half the spacing on average; each point costs 32 KiB of index.
_IMAGES: Final = 4
_LEAST, _MOST = 64 << 10, 2 << 20
_MOST_POINTS: Final = 4096

# Magic and version, flags, bytes packed and unpacked, spacing, size of a window, number of points.
_HEADER: Final = struct.Struct("=6sBQQIII")
_MAGIC: Final = b"GZIDX\1"
# Where a block starts (`bits` of the byte before it belong to it as well), and whether the point
# has a window: none is needed where a member of the archive starts.
_POINT: Final = np.dtype([("packed", "u8"), ("unpacked", "u8"), ("bits", "u1"), ("window", "u1")])


def unpack(file: OpenFile) -> Iterator[bytes]:
    """Unpack a gzip file from its start, in pieces; its checksums are compared.

    Raises:
        zlib.error, gzip.BadGzipFile: it is damaged, or something else than zeros follows.
        EOFError: it is truncated.
    """
    with gzip.GzipFile(fileobj=PythonFile(file)) as unpacked:
        while piece := unpacked.read(_UNPACKED_AT_ONCE):
            yield piece


def find_restarts(file: OpenFile, unpacked: int, images: int) -> bytes:
    """The restart points of a gzip file that was unpacked to its end before, for the index.

    They are four images apart, so that reading one costs the unpacking of three on average; within
    64 KiB, of which a point takes half, and 2 MiB; but more where archives are so large that an
    index would need more than 128 MB. Finding them needs 64 KiB of memory a point.

    Raises:
        OSError: the points cannot be found; a ZranError is one.
        RemoteError: the archive is in a bucket that does not answer.
    """
    from indexed_gzip import IndexedGzipFile  # imported late: few need it

    few = _IMAGES * unpacked // max(images, 1)
    spacing = max(_LEAST, min(few, _MOST), unpacked // _MOST_POINTS)
    exported = io.BytesIO()
    source = PythonFile(file)
    try:
        with IndexedGzipFile(
            fileobj=source, spacing=spacing, window_size=_WINDOW, buffer_size=4096
        ) as points:
            points.build_full_index()
            points.export_index(fileobj=exported)
    except OSError as error:
        raise (source.failed or error) from None
    return exported.getvalue()


class Restarts:
    """The restart points in a file; any number of threads may ask it.

    Args:
        path: the file; the index has compared its hash.

    Raises:
        OSError: it cannot be read.
        ValueError, struct.error: it is torn.
    """

    def __init__(self, path: str) -> None:
        self._file = LocalFile(path)
        header = self._file.read_at(0, _HEADER.size)
        _, _, self._packed, self._unpacked, _, _, count = _HEADER.unpack(header)
        size = count * _POINT.itemsize
        if not 0 < size < self._file.size:
            raise ValueError(f"a table of {count} restart points")
        table = self._file.read_at(_HEADER.size, size)
        self._points = np.frombuffer(table, _POINT)
        windows = self._points["window"]
        self._windows = _HEADER.size + len(table) + (np.cumsum(windows) - windows) * _WINDOW

    def read(self, archive: OpenFile, offset: int, size: int) -> bytes:
        """Unpack `size` bytes of the archive, or as many as there are.

        Raises:
            zlib.error: the archive is damaged, or another than was indexed.
            OSError: the restart points cannot be read.
            RemoteError: the archive is in a bucket that does not answer.
        """
        from indexed_gzip import _IndexedGzipFile as Unbuffered

        data = bytearray(size)
        index = io.BytesIO(self._index_at(offset))
        source = PythonFile(archive)
        try:
            with Unbuffered(fileobj=source, auto_build=False, readbuf_size=_PACKED_AT_ONCE) as file:
                file.import_index(fileobj=index)
                file.seek(offset)
                found = file.readinto(data) if size else 0
        except OSError as error:  # a ZranError
            raise (source.failed or zlib.error(str(error))) from error
        return bytes(data[:found])

    def _index_at(self, offset: int) -> bytes:
        """An index of the last point at or before a place, and of the archive's end."""
        place = max(0, int(np.searchsorted(self._points["unpacked"], offset, "right")) - 1)
        size = int(self._points["window"][place]) * _WINDOW
        window = self._file.read_at(int(self._windows[place]), size)
        end = np.array([(self._packed, self._unpacked, 0, 0)], _POINT)
        head = _HEADER.pack(_MAGIC, 0, self._packed, self._unpacked, _MOST, _WINDOW, 2)
        return head + bytes(self._points[place].tobytes()) + end.tobytes() + window
