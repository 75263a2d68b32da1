"""TFRecord framing: bytes in, bytes out.

A record is ``u64 LE length | u32 LE masked CRC-32C of the length | data | u32 LE masked
CRC-32C of the data``: 16 bytes more than the data. No file header, footer or padding. Source:
tensorflow/core/lib/io/record_writer.h.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import BinaryIO

import google_crc32c

from dataprep.errors import SinkError

OVERHEAD = 16
HEADER_SIZE = 12
_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")
_MASK_DELTA = 0xA282EAD8


def masked_crc(*pieces: bytes) -> int:
    """CRC-32C (Castagnoli) of the pieces together, rotated and offset as TensorFlow masks it."""
    crc = 0
    for piece in pieces:
        crc = google_crc32c.extend(crc, piece)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def frame(*pieces: bytes) -> tuple[bytes, ...]:
    """The pieces of one record: header, its data as they came (not copied), footer."""
    length = struct.pack("<Q", sum(map(len, pieces)))
    return length + _FOOTER.pack(masked_crc(length)), *pieces, _FOOTER.pack(masked_crc(*pieces))


def walk_records(file: BinaryIO, *, name: str) -> Iterator[tuple[int, int]]:
    """Every record of an open file as (offset of its length field, length of its data).

    The data are skipped; only the checksums of the lengths are checked. The file may be used for
    something else between two records.

    Args:
        file: a binary file that can seek.
        name: what to call the file in an error.

    Raises:
        SinkError: a length's checksum does not match, or the file ends within a record.
    """
    end = file.seek(0, os.SEEK_END)
    offset = 0
    while offset < end:
        length = _read_length(file, offset, name=name)
        # Compared with the file's size before anything is read: a length can be any number.
        if offset + OVERHEAD + length > end:
            raise _damaged(name, offset, f"the file ends within a record of {length} bytes")
        yield offset, length
        offset += OVERHEAD + length


def read_records(file: BinaryIO, *, name: str) -> Iterator[tuple[int, bytes]]:
    """Every record as (offset of its length field, data); as `walk_records`, and the data checked.

    Raises:
        SinkError: a checksum does not match, or the file ends within a record.
    """
    for offset, length in walk_records(file, name=name):
        yield offset, read_data(file, offset, length, name=name)


def read_data(file: BinaryIO, offset: int, length: int, *, name: str) -> bytes:
    """The data, ``length`` bytes, of the record whose length field is at ``offset``.

    Raises:
        SinkError: the checksum does not match, or the file ends within the record.
    """
    file.seek(offset + HEADER_SIZE)
    data = file.read(length)
    footer = file.read(_FOOTER.size)
    if len(data) < length or len(footer) < _FOOTER.size:
        raise _damaged(name, offset, f"the file ends within a record of {length} bytes")
    if masked_crc(data) != _FOOTER.unpack(footer)[0]:
        raise _damaged(name, offset, "the checksum of the data does not match")
    return data


def read_record(file: BinaryIO, offset: int, length: int, *, name: str) -> bytes:
    """The record at ``offset``, which an index says to have ``length`` bytes of data.

    Raises:
        SinkError: a checksum does not match, or the record has another length.
    """
    found = _read_length(file, offset, name=name)
    if found != length:
        raise _damaged(name, offset, f"it has {found} bytes, but {length} by the index")
    return read_data(file, offset, length, name=name)


def _read_length(file: BinaryIO, offset: int, *, name: str) -> int:
    file.seek(offset)
    header = file.read(HEADER_SIZE)
    if len(header) < HEADER_SIZE:
        raise _damaged(name, offset, "the file ends within a record's header")
    length, length_crc = _HEADER.unpack(header)
    if masked_crc(header[:8]) != length_crc:
        raise _damaged(name, offset, "the checksum of the length does not match")
    return int(length)


def _damaged(name: str, offset: int, what: str) -> SinkError:
    doubt = ", if this is a TFRecord file at all" if offset == 0 else ""
    return SinkError(
        f"{name}: damaged record at byte {offset}: {what}; make the shard again{doubt}"
    )
