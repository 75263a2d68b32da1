"""TFRecord framing: bytes in, bytes out.

A record is ``u64 LE length | u32 LE masked CRC-32C of the length | data | u32 LE masked
CRC-32C of the data``: 16 bytes more than the data. No file header, footer or padding. Source:
tensorflow/core/lib/io/record_writer.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

import google_crc32c

from dataprep.errors import SinkError

OVERHEAD = 16
_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")
_MASK_DELTA = 0xA282EAD8


def masked_crc(data: bytes) -> int:
    """CRC-32C (Castagnoli) of ``data``, rotated and offset as TensorFlow masks it."""
    crc: int = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def frame(data: bytes) -> tuple[bytes, bytes, bytes]:
    """The three pieces of one record: header, the data itself (not copied), footer."""
    length = struct.pack("<Q", len(data))
    return length + _FOOTER.pack(masked_crc(length)), data, _FOOTER.pack(masked_crc(data))


def read_records(file: BinaryIO, *, name: str) -> Iterator[tuple[int, bytes]]:
    """Every record of an open file as (offset of its length field, data).

    Args:
        file: a binary file at its start.
        name: what to call the file in an error.

    Raises:
        SinkError: a checksum does not match, or the file ends within a record.
    """
    offset = 0
    while header := file.read(_HEADER.size):
        if len(header) < _HEADER.size:
            raise _damaged(name, offset, "the file ends within a record's header")
        length, length_crc = _HEADER.unpack(header)
        if masked_crc(header[:8]) != length_crc:
            raise _damaged(name, offset, "the checksum of the length does not match")
        data = file.read(length)
        footer = file.read(_FOOTER.size)
        if len(data) < length or len(footer) < _FOOTER.size:
            raise _damaged(name, offset, f"the file ends within a record of {length} bytes")
        if masked_crc(data) != _FOOTER.unpack(footer)[0]:
            raise _damaged(name, offset, "the checksum of the data does not match")
        yield offset, data
        offset += OVERHEAD + length


def _damaged(name: str, offset: int, what: str) -> SinkError:
    doubt = ", if this is a TFRecord file at all" if offset == 0 else ""
    return SinkError(
        f"{name}: damaged record at byte {offset}: {what}; make the shard again{doubt}"
    )
