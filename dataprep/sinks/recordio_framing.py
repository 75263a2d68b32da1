"""MXNet RecordIO framing: bytes in, bytes out.

A record is one part or several, each ``u32 LE magic | u32 LE (cflag << 29 | length) | data | zeros
up to a multiple of 4``. Where the data holds the magic at a multiple of 4, it is cut: the magic
itself is left out, and put back by the reader between two parts. So a reader that starts anywhere
finds the next record by looking for the magic. cflag is 0 for a record in one part, otherwise 1 for
the first, 2 for each in between and 3 for the last. No file header, footer or checksum. Source:
dmlc-core include/dmlc/recordio.h and src/recordio.cc.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import BinaryIO

import numpy as np

from dataprep.errors import SinkError

OVERHEAD = 8 + 3  # of a record in one part, at most
LENGTH_LIMIT = 1 << 29  # a record must be shorter than this: its length has 29 bits
_HEADER = struct.Struct("<II")
_MAGIC_NUMBER = 0xCED7230A
_MAGIC = struct.pack("<I", _MAGIC_NUMBER)
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)
_CFLAG_SHIFT = 29


def frame(record: bytes) -> list[bytes]:
    """The pieces of one record, in order.

    Raises:
        SinkError: it has 2**29 bytes or more.
    """
    if len(record) >= LENGTH_LIMIT:
        raise SinkError(f"{len(record)} bytes; RecordIO holds less than {LENGTH_LIMIT} in a record")
    cuts = _aligned_magics(record)
    if not cuts:
        return _part(_WHOLE, record)
    pieces = _part(_FIRST, record[: cuts[0]])
    for start, end in pairwise(cuts):
        pieces += _part(_MIDDLE, record[start + 4 : end])
    return pieces + _part(_LAST, record[cuts[-1] + 4 :])


def read_record(file: BinaryIO, offset: int, file_size: int) -> tuple[bytes, int]:
    """The record at ``offset``, and the offset behind it.

    Raises:
        SinkError: it is damaged; the message says how, not where.
    """
    pieces: list[bytes] = []
    size = 0
    end = offset
    for length, end in _parts(file, offset, file_size):
        data = file.read(end - file.tell())
        piece = data[:length] if len(data) > length else data
        if any(data[length:]):
            raise SinkError("the padding behind its data is not zero")
        if _aligned_magics(piece):
            raise SinkError("its data holds the magic number where no reader may find it")
        pieces.append(piece)
        size += length + 4
        if size - 4 >= LENGTH_LIMIT:
            raise SinkError(f"its parts hold {LENGTH_LIMIT} bytes or more")
    return _MAGIC.join(pieces), end


def skip_record(file: BinaryIO, offset: int, file_size: int) -> int:
    """The offset behind the record at ``offset``, of which only the framing is read.

    Raises:
        SinkError: the framing is damaged; the message says how, not where.
    """
    end = offset
    for _, end in _parts(file, offset, file_size):  # noqa: B007 - the last one is wanted
        pass
    return end


def _part(cflag: int, data: bytes) -> list[bytes]:
    header = _HEADER.pack(_MAGIC_NUMBER, cflag << _CFLAG_SHIFT | len(data))
    padding = -len(data) % 4
    return [header, data, bytes(padding)] if padding else [header, data]


def _aligned_magics(data: bytes) -> list[int]:
    """Where the magic is at a multiple of 4; ten times as fast as ``bytes.find``."""
    words = np.frombuffer(data, "<u4", count=len(data) // 4)
    found: list[int] = (np.flatnonzero(words == _MAGIC_NUMBER) * 4).tolist()
    return found


def _parts(file: BinaryIO, offset: int, file_size: int) -> Iterator[tuple[int, int]]:
    """(length of the data, offset behind the padding) of each part; the file is at the data."""
    expected = (_WHOLE, _FIRST)
    while True:
        file.seek(offset)
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size:
            raise SinkError(f"the file ends at byte {file_size}, within the record")
        magic, word = _HEADER.unpack(header)
        cflag, length = word >> _CFLAG_SHIFT, word & (LENGTH_LIMIT - 1)
        if magic != _MAGIC_NUMBER:
            raise SinkError(f"the magic number at byte {offset} is 0x{magic:08x}, not 0xced7230a")
        if cflag not in expected:
            raise SinkError(f"the part at byte {offset} has continuation flag {cflag}")
        if cflag in (_FIRST, _MIDDLE) and length % 4:
            raise SinkError(f"the part at byte {offset} ends at no multiple of 4 bytes")
        offset += _HEADER.size + length + -length % 4
        if offset > file_size:
            raise SinkError(f"the file ends at byte {file_size}, within {length} bytes of data")
        yield length, offset
        if cflag in (_WHOLE, _LAST):
            return
        expected = (_MIDDLE, _LAST)
