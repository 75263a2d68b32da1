"""Reads one image's bytes from wherever the index says they are."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dataprep.archives.open_files import OpenFile, forget_buckets, open_container
from dataprep.errors import ImageError, SinkError, SourceError
from dataprep.rows import Row
from dataprep.system.messages import printable, unreadable

if TYPE_CHECKING:
    from dataprep.archives.gzip import Restarts

# The usual limit of a process is 1024 open files; the sinks and Beam need some of them.
_MOST_OPEN_ARCHIVES: Final = 64
_REMEDY: Final = "restore it, or start anew with --overwrite, which indexes the raw data again"
_RAW_DEFLATE: Final = -15  # zlib's code for deflate without a header, with a window of 32 KiB


def read_image(raw: Path, row: Row, index: Path | None = None, *, most: int | None = None) -> bytes:
    """Read the bytes of one image.

    Archives stay open and are shared by all threads (`os.pread` has no file position); a file
    in a tree costs three system calls: open, read, close.

    Args:
        row: where the image is. Offset 0 means that the container is the image itself: in an
            archive a header comes first.
        index: the directory that has the restart points of gzip archives; not needed for others.
        most: bytes that an image may have, unpacked or as it lies there; None: any number.

    Returns:
        Exactly `row.size` bytes.

    Raises:
        ImageError: there are more bytes than that; nothing was read.
        SourceError: the container is gone, unreadable, damaged, shorter than the row says or, in a
            tree, no longer of the size it had when it was indexed; or the restart points of a gzip
            archive are gone or damaged.
        ValueError: it is in a gzip archive, and there is no `index`.
    """
    size = max(row.size, int(row.packing[1])) if row.packing[:1] == ("deflate",) else row.size
    if most is not None and size > most:
        raise ImageError(f"{size:,} bytes, at most {most:,} allowed (--max_image_bytes)")
    try:
        if row.offset == 0:
            return _read_file(raw, row)
        archive = _open_archive(str(raw), row.container)
        _require_unchanged(row, archive.mtime)
        match row.packing:
            case ():
                return _read_member(archive, row, row.size)
            case ("stored", crc):
                return _checked(row, _read_member(archive, row, row.size), crc)
            case ("deflate", int(size), crc):
                packed = _read_member(archive, row, size)
                unpacker = zlib.decompressobj(_RAW_DEFLATE)
                return _checked(row, unpacker.decompress(packed, row.size + 1), crc)
            case ("recordio", int(size)):
                return _read_parts(archive, row, size)
            case ("copy", name):
                return _read_member(_open_archive(str(index), str(name)), row, row.size)
        return _read_gzip(archive, index, row)
    except zlib.error as error:
        raise _damaged(row, str(error)) from error
    except FileNotFoundError as error:
        raise _changed(row, "it no longer exists") from error
    except OSError as error:
        raise unreadable(row.container, error) from error


def require_unchanged(raw: Path, containers: Mapping[str, Row]) -> None:
    """Make sure that files are still what they were, so that what was read of them counts.

    Args:
        containers: those that were read from, with any row of each.

    Raises:
        SourceError: one was changed since it was indexed, or is gone.
    """
    for container, row in containers.items():
        try:
            _require_unchanged(row, os.stat(f"{raw}/{container}").st_mtime_ns)  # noqa: PTH116
        except OSError as error:
            raise unreadable(container, error) from error


def close_archives() -> None:
    """Close the archives kept open, so that the next read sees the files as they are then.

    Restart points are forgotten as well. An archive that another thread is reading from is closed
    when that read is done.
    """
    _open_archive.cache_clear()
    forget_buckets()
    _open_restarts.cache_clear()


@lru_cache(maxsize=_MOST_OPEN_ARCHIVES)
def _open_archive(raw: str, container: str) -> OpenFile:
    return open_container(raw, container)


@lru_cache(maxsize=_MOST_OPEN_ARCHIVES)
def _open_restarts(path: str) -> Restarts:
    from dataprep.archives.gzip import Restarts  # late: it loads numpy

    return Restarts(path)


def _read_file(raw: Path, row: Row) -> bytes:
    file = open_container(raw, row.container)
    # One byte more than indexed shows that a file grew, without asking for its size.
    data = file.read_some(0, row.size + 1)
    if len(data) < row.size:
        data += file.read_at(len(data), row.size + 1 - len(data))
    mtime = file.mtime  # afterwards: it may be written while it is read
    if len(data) != row.size:
        found = f"it has {'more than ' * (len(data) > row.size)}{min(len(data), row.size)} bytes"
        raise _changed(row, f"{found}, expected {row.size}")
    _require_unchanged(row, mtime)
    return data


def _read_member(archive: OpenFile, row: Row, size: int) -> bytes:
    """Bytes of the archive where the image starts; as many as it has there."""
    data = archive.read_at(row.offset, size)
    if len(data) < size:
        raise _changed(
            row,
            f"{printable(row.key)} ends at byte {row.offset + size}, but the archive has "
            f"{archive.size} bytes",
        )
    return data


def _read_parts(archive: OpenFile, row: Row, size: int) -> bytes:
    """An image of RecordIO whose record is cut; it is the record's end."""
    from dataprep.formats.recordio import PART_HEADER, unframe  # late: it loads numpy

    try:
        record = unframe(archive.read_at(row.offset - PART_HEADER.size, size))
    except (SinkError, LookupError) as error:
        raise _damaged(row, str(error)) from error
    if len(record) < row.size:
        raise _damaged(row, f"its record has {len(record)} bytes")
    return record[len(record) - row.size :]


def _checked(row: Row, data: bytes, crc: int | str) -> bytes:
    if len(data) != row.size or zlib.crc32(data) != crc:
        raise _damaged(row, "its CRC-32 or size is not what the archive says")
    return data


def _read_gzip(archive: OpenFile, index: Path | None, row: Row) -> bytes:
    if index is None:
        raise ValueError(f"{row.container} is a gzip archive: the directory of its index is needed")
    name = str(row.packing[1])
    try:
        restarts = _open_restarts(f"{index}/{name}")
        data = restarts.read(archive, row.offset, row.size)
    except FileNotFoundError as error:
        raise SourceError(
            f"the index lacks {printable(name)}, the restart points of {printable(row.container)}; "
            "start anew with --overwrite, which indexes the raw data again"
        ) from error
    except (struct.error, ValueError) as error:  # torn restart points
        raise _damaged(row, str(error)) from error
    if len(data) < row.size:
        raise _damaged(row, "its compressed data end too early")
    return data


def _damaged(row: Row, reason: str) -> SourceError:
    return SourceError(
        f"cannot unpack {printable(row.key)} from {printable(row.container)}, which is damaged or "
        f"changed since it was indexed: {printable(reason)}; {_REMEDY}"
    )


def _require_unchanged(row: Row, mtime: int) -> None:
    if row.container_mtime not in (0, mtime):
        raise _changed(row, "it was modified")


def _changed(row: Row, finding: str) -> SourceError:
    return SourceError(
        f"{printable(row.container)} changed since it was indexed: {finding}; {_REMEDY}"
    )
