"""Lists a zip archive where it lies, without trusting it.

`zipfile` parses the central directory (ZIP64); this module adds where each member's bytes are,
which only the member's own header tells, and in which characters names are that do not say so.
"""

from __future__ import annotations

import calendar
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dataprep.archives.open_files import OpenFile, PythonFile, open_container
from dataprep.archives.tar import AGAIN, ArchiveMember
from dataprep.errors import SourceError
from dataprep.rows import Packing
from dataprep.system.messages import printable, unreadable

# A member's own header, from the length of its name on. Source: APPNOTE.TXT, section 4.3.7.
_LOCAL: Final = struct.Struct("<4s22xHH")
_LOCAL_MAGIC: Final = b"PK\x03\x04"
# The end record, its comment of 65,535 bytes at most, and before it ZIP64's record and locator.
# Source: the same, sections 4.3.14 to 4.3.16.
_END_MAGIC: Final = b"PK\x05\x06"
_LOCATOR_MAGIC: Final = b"PK\x06\x07"
_LONGEST_END: Final = 56 + 20 + 22 + 65535
_ENCRYPTED: Final = 0x1 | 0x40 | 0x2000
_PATCH: Final = 0x20
# Methods that are not read; Windows takes the first for large files. Source: section 4.4.5.
_OTHERS: Final = {9: "deflate64", 12: "bzip2", 14: "LZMA", 93: "Zstandard", 95: "xz"}
_UTF8: Final = 0x800
# UNIX and macOS, by the upper byte of "version made by". Source: the same, section 4.4.2.
_UNIX: Final = (3, 19)
# Info-ZIP's Unicode path: version 1, the CRC of the name in the header. Source: section 4.6.9.
_UNICODE_PATH: Final = 0x7075

# What zipfile raises on hostile or damaged archives: its own errors, and what its parsing of
# numbers, names and extra fields lets through.
_DAMAGE: Final = (
    *(zipfile.BadZipFile, NotImplementedError, struct.error),
    *(ValueError, ArithmeticError, LookupError, EOFError, MemoryError),
)


def zip_members(raw: Path, container: str) -> Iterator[ArchiveMember]:
    """Yield the members of a zip archive but folders, in the order of its central directory.

    Modification times have no zone in a zip archive; they are taken as UTC, so that they are the
    same on every machine.

    Names are UTF-8 if a flag or Info-ZIP's extra field says so, and those of UNIX and macOS without
    either, too, as `zip` and macOS write them, and as unzip and 7-Zip take them; bytes that are not
    UTF-8 are surrogates then, as in a name of a file. Others are code page 437.

    In a name with backslashes and no slash they are its separators, as unzip and 7-Zip take it too:
    older tools on Windows wrote them, although APPNOTE.TXT, section 4.4.17.1, demands slashes.

    Raises:
        SourceError: the archive is unreadable, damaged or truncated. It may be raised after
            members were yielded.
    """
    try:
        file = open_container(raw, container, ahead=True)
        try:
            with zipfile.ZipFile(PythonFile(file)) as archive:
                _require_all(file, len(archive.infolist()))
                for info in archive.infolist():
                    name = _name(info)
                    name = name if "/" in name else name.replace("\\", "/")
                    if not name.endswith("/"):
                        yield _member(file, info, name)
        except _DAMAGE as error:
            reason = printable(str(error)) or type(error).__name__
            raise SourceError(
                f"{printable(container)} is damaged or not a zip archive: {reason}; {AGAIN}"
            ) from error
    except OSError as error:
        raise unreadable(container, error) from error


def _name(info: zipfile.ZipInfo) -> str:
    if info.flag_bits & _UTF8 or info.orig_filename.isascii():
        return info.filename
    stored = info.orig_filename.encode("cp437")  # as `zipfile` decoded it; it has 256 characters
    extra = info.extra
    while len(extra) >= 4:
        kind, size = struct.unpack_from("<HH", extra)
        field, extra = extra[4 : 4 + size], extra[4 + size :]
        # Of another CRC it is the name that the file had before somebody renamed it.
        if kind == _UNICODE_PATH and field[:5] == b"\1" + struct.pack("<I", zlib.crc32(stored)):
            return field[5:].decode("utf-8", "surrogateescape").partition("\0")[0]
    if info.create_system in _UNIX:
        return stored.decode("utf-8", "surrogateescape").partition("\0")[0]
    return info.filename


def _require_all(file: OpenFile, found: int) -> None:
    """Compare with what the end record says, which `zipfile` does not: images would be lost."""
    size = file.size
    first = max(0, size - _LONGEST_END)
    tail = file.read_at(first, size - first)
    at = tail.rfind(_END_MAGIC)
    (promised,) = struct.unpack_from("<H", tail, at + 10)
    modulus = 1 << 16  # of many entries, writers without ZIP64 tell the last 16 bits
    if promised == modulus - 1 and tail[max(0, at - 20) : at].startswith(_LOCATOR_MAGIC):
        (promised,) = struct.unpack("<Q", file.read_at(first + at - 44, 8))
        modulus = 1 << 64
    if found % modulus != promised:
        raise zipfile.BadZipFile(f"its end promises {promised} entries, its directory has {found}")


def _member(file: OpenFile, info: zipfile.ZipInfo, name: str) -> ArchiveMember:
    year, month, day, *time = info.date_time  # which may have a month 0 or 15 and a day 0
    modified = calendar.timegm((year, min(max(month, 1), 12), max(day, 1), *time))
    if reason := _refusal(info):
        return ArchiveMember(name, 0, info.file_size, modified, reason)
    offset = _start(file, info)
    packing: Packing = ("stored", info.CRC)
    if info.compress_type == zipfile.ZIP_DEFLATED:
        packing = ("deflate", info.compress_size, info.CRC)
    return ArchiveMember(name, offset, info.file_size, modified, "", packing)


def _refusal(info: zipfile.ZipInfo) -> str:
    if info.flag_bits & _ENCRYPTED:
        return "encrypted"
    kind = stat.S_IFMT(info.external_attr >> 16) if info.create_system in _UNIX else 0
    if kind == stat.S_IFLNK:
        return "symbolic link, never followed"
    if kind not in (0, stat.S_IFREG):
        return "not a regular file"
    stored = info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    if not stored or info.flag_bits & _PATCH:
        method = _OTHERS.get(info.compress_type, "another method")
        return f"compressed by {method} ({info.compress_type}; expected 0, stored, or 8, deflate)"
    return ""


def _start(file: OpenFile, info: zipfile.ZipInfo) -> int:
    """Where the bytes of a member start, by its own header."""
    header = file.read_at(info.header_offset, _LOCAL.size)
    magic, name_size, extra_size = _LOCAL.unpack(header)
    if magic != _LOCAL_MAGIC:
        raise zipfile.BadZipFile(f"no header of {info.orig_filename} where it should be")
    return info.header_offset + _LOCAL.size + int(name_size) + int(extra_size)
