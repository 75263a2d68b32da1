"""Finds where in a gzip file unpacking can start.

`indexed_gzip` is used for this alone: inflating with a stop at each block (``Z_BLOCK``), which
Python's zlib cannot do. It is only given files that were unpacked to their end before.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Iterator
from typing import Final

from dataprep.archives.descriptors import Positioned, read_some
from dataprep.archives.inflating import WINDOW
from dataprep.archives.restarts import Point, pack_restarts
from dataprep.errors import SourceError
from dataprep.system.messages import printable

# An image costs the unpacking of half the spacing on average; each point costs 32 KiB of index.
_IMAGES: Final = 4
_LEAST, _MOST = 64 << 10, 2 << 20
_MOST_POINTS: Final = 4096

# What `indexed_gzip` exports: a header, a line for each point, and the windows of those points
# whose line says that they have one. Source: zran_export_index in its zran.h.
_HEADER: Final = struct.Struct("=5sBBQQIII")
_LINE: Final = struct.Struct("=QQBB")
_LAYOUT: Final = [b"GZIDX", 1]

_Found = tuple[Point, int]
"""A point, and where in the export its window is; 0 if it has none."""


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
    """The restart points of a gzip file; see `pack_restarts`.

    The memory needed meanwhile is 64 KiB a point: 256 MB at most with what `spacing_for` says.

    Args:
        descriptor: the open file.
        container: what messages call it.
        unpacked: how many bytes it unpacks to; known because it was unpacked before.
        spacing: how many unpacked bytes are between two points at least, more than 32 KiB.

    Raises:
        SourceError: the points cannot be found, or the file is no longer what was unpacked.
    """
    import indexed_gzip  # imported late: only those who scan such an archive need it

    exported = io.BytesIO()
    try:
        with indexed_gzip.IndexedGzipFile(
            fileobj=_File(descriptor), spacing=spacing, window_size=WINDOW, buffer_size=4096
        ) as file:
            file.build_full_index()
            file.export_index(fileobj=exported)
    except (OSError, MemoryError) as error:  # a ZranError is an OSError
        raise _not_found(container, printable(str(error))) from error
    view = exported.getbuffer()
    *layout, _, packed, length, _, _, count = _HEADER.unpack_from(view)
    if layout != _LAYOUT:
        raise _not_found(container, f"indexed_gzip exports {layout}, expected {_LAYOUT}")
    if length != unpacked:
        raise SourceError(
            f"{printable(container)} changed while it was read: it unpacked to {unpacked} bytes, "
            f"then to {length}; start again when it is complete"
        )
    found = list(_thinned(_points(view, count), unpacked, spacing))
    windows = (bytes(view[place : place + WINDOW]) if place else b"" for _, place in found)
    return pack_restarts(packed, unpacked, [point for point, _ in found], windows)


def _not_found(container: str, reason: str) -> SourceError:
    return SourceError(
        f"cannot find restart points in {printable(container)}: {reason}; decompress it, or "
        "compress it again with gzip"
    )


def _points(view: memoryview, count: int) -> Iterator[_Found]:
    end = _HEADER.size + count * _LINE.size
    window = end
    for packed, unpacked, bits, has_window in _LINE.iter_unpack(view[_HEADER.size : end]):
        yield Point(packed, bits, unpacked), window if has_window else 0
        window += WINDOW * has_window


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


class _File(Positioned):
    """An open file as `indexed_gzip` can take it: without a number that it would open again."""

    mode = "rb"

    def __init__(self, descriptor: int) -> None:
        super().__init__(os.fstat(descriptor).st_size)
        self._descriptor = descriptor

    def read(self, size: int = -1, /) -> bytes:
        data = read_some(self._descriptor, self._position, size)
        self._position += len(data)
        return data
