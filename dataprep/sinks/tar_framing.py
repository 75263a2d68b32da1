"""Tar framing: headers and padding out, members in.

An archive is a sequence of members, each a header of 512 bytes and its data, padded with zeros to
512; then two blocks of zeros, and zeros up to a multiple of 10240 bytes. What is written is plain
POSIX ustar with nothing in it that depends on the machine: mode 0444, time 0, owner 0, no owner's
names, as Python's tarfile and ``webdataset.TarWriter`` lay it out. What is read is also what GNU,
BSD and pax archives have for long names and large sizes. Source: POSIX.1-2017, pax, "ustar
Interchange Format" and "pax Header Block".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from dataprep.errors import SinkError

BLOCK = 512
RECORD = 20 * BLOCK  # what an archive of GNU tar or Python is padded to
NAME_LIMIT = 100  # bytes of the name itself
PREFIX_LIMIT = 155  # bytes of the directories before it
_SIZE_LIMIT = 8**11
_ZEROS = bytes(BLOCK)

_BEFORE_SIZE = b"0000444\0" + b"0000000\0" * 2
_BEFORE_SUM = b"%011o\0" % 0
_BEFORE_PREFIX = (b"0" + bytes(100) + b"ustar\x0000").ljust(189, b"\0")
# The checksum is that of the header with blanks in the checksum's own place.
_FIXED_SUM = sum(_BEFORE_SIZE) + sum(_BEFORE_SUM) + 8 * 0x20 + sum(_BEFORE_PREFIX)

_OCTAL = re.compile(rb" *([0-7]*)[ \0]*")
_PAX_RECORD = re.compile(rb"([0-9]{1,10}) ([^=]+)=")
_METADATA_LIMIT = 1 << 20  # bytes of a pax header or a long name; real ones have hundreds
_FILE = b"\x0007"  # the first is from before POSIX, the last is contiguous on disks that knew it
_WITHOUT_DATA = b"123456"  # links, devices, directories, pipes
_ABOUT_NEXT = b"xgLK"  # pax headers, global ones too, and GNU's long names and long link targets


def padding(size: int) -> bytes:
    """The zeros behind ``size`` bytes of data."""
    return bytes(-size % BLOCK)


def trailer(size: int) -> bytes:
    """The zeros that end an archive of ``size`` bytes so far."""
    return bytes(2 * BLOCK + -(size + 2 * BLOCK) % RECORD)


def header(name: bytes, size: int) -> bytes:
    """The header of a file.

    Args:
        name: with ``/`` between directories.
        size: of the data, in bytes.

    Raises:
        SinkError: a ustar header cannot hold the name or the size.
    """
    prefix, short = _split(name)
    if size >= _SIZE_LIMIT:
        raise SinkError(f"{size} bytes; a ustar header holds less than {_SIZE_LIMIT}")
    digits = b"%011o\0" % size
    checksum = _FIXED_SUM + sum(short) + sum(digits) + sum(prefix)
    return b"".join(
        (
            short.ljust(100, b"\0"),
            _BEFORE_SIZE,
            digits,
            _BEFORE_SUM,
            b"%06o\0 " % checksum,
            _BEFORE_PREFIX,
            prefix.ljust(167, b"\0"),
        )
    )


def _split(name: bytes) -> tuple[bytes, bytes]:
    """Directories and name, as few directories as possible in the first, like Python's tarfile."""
    if len(name) <= NAME_LIMIT:
        return b"", name
    cut = name.find(b"/", len(name) - NAME_LIMIT - 1)
    if not 0 < cut <= PREFIX_LIMIT or cut == len(name) - 1:
        raise SinkError(f"a ustar header cannot hold the name {name!r}")
    return name[:cut], name[cut + 1 :]


@dataclass(frozen=True, slots=True)
class Member:
    """A regular file in an archive.

    Attributes:
        name: as it is stored.
        start: offset in bytes of its first header.
        offset: of its data.
        size: of its data, in bytes.
    """

    name: bytes
    start: int
    offset: int
    size: int


def read_members(file: BinaryIO, start: int, file_size: int) -> Iterator[Member]:
    """The regular files from offset ``start`` on, without their data, and then the end checked.

    Raises:
        SinkError: a header is damaged, or the archive has no proper end; the message says where.
    """
    at = start
    name: bytes | None = None
    size: int | None = None
    while True:
        block = _read(file, at, BLOCK, "a header")
        if block == _ZEROS:
            return _check_end(file, at)
        kind, own_name, own_size = _parse(block, at)
        data = at + BLOCK
        if kind in _ABOUT_NEXT:
            if own_size > _METADATA_LIMIT:
                raise SinkError(f"the header at byte {at} is followed by {own_size} bytes of names")
            told = _read(file, data, own_size, "a long name")
            if kind == b"L":
                name = told.rstrip(b"\0")
            elif kind == b"x":
                name, size = _pax(told, at, name, size)
        else:
            own_size = own_size if size is None else size
            if kind in _WITHOUT_DATA:
                own_size = 0
            if data + own_size > file_size:
                raise SinkError(f"the archive ends within the data of the member at byte {at}")
            if kind in _FILE:
                yield Member(own_name if name is None else name, start, data, own_size)
            elif kind == b"S":
                raise SinkError(f"the member at byte {at} is a sparse file, which nobody reads")
            name = size = None
        at = data + own_size + -own_size % BLOCK
        if kind not in _ABOUT_NEXT:
            start = at


def read_member(file: BinaryIO, member: Member) -> bytes:
    """The data of a member.

    Raises:
        SinkError: the archive is too short, or the padding is not zero.
    """
    padded = member.size + -member.size % BLOCK
    data = _read(file, member.offset, padded, "the data of a member")
    if padded != member.size:
        if any(data[member.size :]):
            raise SinkError(f"the padding behind byte {member.offset + member.size} is not zero")
        data = data[: member.size]
    return data


def _read(file: BinaryIO, at: int, size: int, what: str) -> bytes:
    file.seek(at)
    data = file.read(size)
    if len(data) < size:
        raise SinkError(f"the archive ends at byte {at + len(data)}, within {what}")
    return data


def _parse(block: bytes, at: int) -> tuple[bytes, bytes, int]:
    """Type, name and size."""
    stored = _number(block[148:156], at)
    if stored != sum(block) - sum(block[148:156]) + 8 * 0x20:
        raise SinkError(f"the checksum of the header at byte {at} does not match")
    name = block[:100].partition(b"\0")[0]
    prefix = block[345:500].partition(b"\0")[0] if block[257:263] == b"ustar\0" else b""
    return block[156:157], prefix + b"/" + name if prefix else name, _number(block[124:136], at)


def _number(field: bytes, at: int) -> int:
    if field[0] == 0x80:  # GNU's for what octal digits cannot hold
        return int.from_bytes(field[1:], "big")
    match = _OCTAL.fullmatch(field)
    if not match:
        raise SinkError(f"the header at byte {at} has {field!r} for a number; not a tar archive?")
    return int(match[1] or b"0", 8)


def _pax(
    told: bytes, at: int, name: bytes | None, size: int | None
) -> tuple[bytes | None, int | None]:
    """The ``path`` and ``size`` of a pax header, where it has them."""
    here = 0
    while here < len(told):
        match = _PAX_RECORD.match(told, here)
        end = here + int(match[1]) if match else 0
        if not match or end > len(told) or end <= match.end() or told[end - 1] != 0x0A:
            raise SinkError(f"the pax header at byte {at} is damaged")
        value = told[match.end() : end - 1]
        if match[2] == b"path":
            name = value
        elif match[2] == b"size":
            if not re.fullmatch(rb"[0-9]{1,18}", value):
                raise SinkError(f"the pax header at byte {at} has size {value!r}")
            size = int(value)
        here = end
    return name, size


def _check_end(file: BinaryIO, at: int) -> None:
    """That nothing but zeros follows, and at least two blocks of them."""
    _read(file, at, 2 * BLOCK, "the two blocks of zeros that end it")
    file.seek(at)
    while block := file.read(RECORD):
        if any(block):
            raise SinkError(f"there is data behind the end of the archive at byte {at}")
