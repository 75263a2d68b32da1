"""Unpacks what is compressed as a whole, once from its start, into a copy that is read anywhere.

Zstandard, gzip, zlib, bzip2, Brotli and Snappy are Arrow's, which is there for Parquet; of several
frames or members all are read, and of Zstandard those that are to be skipped are. xz is Python's.
"""

from __future__ import annotations

import io
import lzma
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, Literal, NamedTuple

from dataprep.archives.open_files import ByteStream, OpenFile, PythonFile
from dataprep.system.durable_files import storage_error
from dataprep.system.messages import sized

# As Arrow calls them; its gzip is also zlib, by the header.
Codec = Literal["zstd", "xz", "gzip", "bz2", "brotli", "snappy"]

_AT_ONCE: Final = 256 << 10
_READ_AHEAD: Final = 8192
# What deflate can expand to; of the others a few bytes may promise a full disk.
_MOST_TIMES: Final = 1032
_ANY: Final = 64 << 20  # bytes that anything may unpack to
_XZ_MEMORY: Final = 256 << 20  # bytes; `xz -9` needs 65 MiB. Of Zstandard, Arrow allows 128 MiB
_MOST_SNAPPY: Final = 1 << 30  # bytes: it is unpacked in memory


class UnpackError(Exception):
    """It is damaged, truncated, or unpacks to too much."""


class Copy(NamedTuple):
    """What a file is unpacked to: one of the index, still empty, by the name it will have there."""

    codec: Codec
    name: str
    file: BinaryIO  # to be read as well


class Unpacked(ByteStream):
    """What a file unpacks to, which is written to a copy as far as somebody has asked for it.

    Raises:
        UnpackError: when read, if it is damaged, truncated or unpacks to more than 1,032 times
            its size, and to more than 64 MiB.
        SinkError: when read, if there is no room for the copy.
    """

    def __init__(self, file: OpenFile, copy: Copy) -> None:
        super().__init__()
        self._pieces = _limited(file, copy.codec)
        self._copy = copy.file
        self._produced = 0

    def reach(self, offset: int) -> int:
        """How many of the first `offset` bytes there are."""
        try:
            while self._produced < offset and (piece := next(self._pieces, b"")):
                self._produced += len(piece)
                try:
                    self._copy.write(piece)
                except OSError as error:
                    place = Path(str(self._copy.name)).parent
                    raise storage_error(error, place, "unpacking an archive") from error
        finally:
            self._copy.flush()
        return min(self._produced, offset)

    def _fetch(self, size: int, /) -> None:
        end = self.reach(self._position + size)
        wanted = min(max(size, _READ_AHEAD), max(self._produced, end) - self._position)
        self._start = self._position
        self._data = os.pread(self._copy.fileno(), max(0, wanted), self._start)


def _limited(file: OpenFile, codec: Codec) -> Iterator[bytes]:
    most, total = max(_ANY, _MOST_TIMES * file.size), 0
    source = PythonFile(file)
    unpack = {"xz": _xz, "snappy": _snappy}.get(codec)
    try:
        for piece in unpack(source) if unpack else _by_arrow(source, codec):
            total += len(piece)
            if total > most:
                raise UnpackError(f"it unpacks to more than {sized(most)}")
            if piece:
                yield piece
    except OSError as error:
        if source.failed or error.errno:
            raise source.failed or error from None
        raise UnpackError(str(error)) from error
    except (lzma.LZMAError, EOFError, ValueError, NotImplementedError) as error:
        raise UnpackError(str(error)) from error


def _by_arrow(source: PythonFile, codec: str) -> Iterator[bytes]:
    import pyarrow as pa

    with pa.CompressedInputStream(pa.PythonFile(source, "r"), codec) as stream:
        while piece := stream.read(_AT_ONCE):
            yield piece


def _xz(source: PythonFile) -> Iterator[bytes]:
    """Any number of streams, with zeros between them or behind (the .xz format, section 2)."""
    data = source.read(_AT_ONCE)
    while data:
        stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
        while not stream.eof:
            yield stream.decompress(data, _AT_ONCE)
            data = source.read(_AT_ONCE) if stream.needs_input and not stream.eof else b""
            if stream.needs_input and not (data or stream.eof):
                raise EOFError("its compressed data end too early")
        data = stream.unused_data.lstrip(b"\0")
        while not data and (data := source.read(_AT_ONCE)):
            data = data.lstrip(b"\0")


def _snappy(source: PythonFile) -> Iterator[bytes]:
    """One block, whose length stands at its start in 7 bits a byte."""
    import pyarrow as pa

    data, length = source.read(), 0
    for place, byte in enumerate(data[:5]):
        length |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    if length > _MOST_SNAPPY:
        raise UnpackError(f"it unpacks to more than {sized(_MOST_SNAPPY)} at once")
    unpacked = io.BytesIO(pa.Codec("snappy").decompress(data, length, asbytes=True))
    while piece := unpacked.read(_AT_ONCE):
        yield piece
