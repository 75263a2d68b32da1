"""The structure of a PNG file, and what is checked of one before it passes through.

PNG specification, third edition: chunks in section 5, interlacing in 8, filters in 9. The checks
are at least as strict as libpng's and Pillow's: what passes here, both decode.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL.PngImagePlugin import PngImageFile

from dataprep.errors import ImageError
from dataprep.images.decoders import PILLOW_ERRORS
from dataprep.images.inflate import Inflater

MAGIC: Final = b"\x89PNG\r\n\x1a\n"
GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
_NAMES = {GREY: "grey", RGB: "RGB", PALETTE: "palette", GREY_ALPHA: "grey+alpha", RGBA: "RGBA"}
_SAMPLES = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}
_DEPTHS = {
    GREY: (1, 2, 4, 8, 16),
    RGB: (8, 16),
    PALETTE: (1, 2, 4, 8),
    GREY_ALPHA: (8, 16),
    RGBA: (8, 16),
}
# First column and row, and the steps between columns and rows, of each pass.
_ADAM7 = (
    (0, 0, 8, 8),
    (4, 0, 8, 8),
    (0, 4, 4, 8),
    (2, 0, 4, 4),
    (0, 2, 2, 4),
    (1, 0, 2, 2),
    (0, 1, 1, 2),
)
_WHOLE = ((0, 0, 1, 1),)
_FILTERS = b"\0\1\2\3\4"
_BLOCK = 1 << 20  # bytes inflated at a time, or one row
_PIECE = 1 << 18  # bytes given to zlib at a time, at most


@dataclass(frozen=True, slots=True)
class Header:
    """What the IHDR chunk says; nothing of it is checked yet.

    Attributes:
        width: in pixels.
        height: in pixels.
        depth: bits a sample, or of an index into the palette.
        color: the colour type: 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGBA.
        interlaced: whether it is stored in Adam7's seven passes.
    """

    width: int
    height: int
    depth: int
    color: int
    interlaced: bool

    @property
    def name(self) -> str:
        """The kind of pixels in words: ``grey``, ``RGBA``, ``palette``, ``16-bit grey``."""
        name = _NAMES.get(self.color, "unknown")
        return name if self.depth == 8 or self.color == PALETTE else f"{self.depth}-bit {name}"

    @property
    def channels(self) -> int:
        """Of the pixels, alpha left out: 1 or 3 (a palette has 3)."""
        return 1 if self.color in (GREY, GREY_ALPHA) else 3

    @property
    def opaque(self) -> bool:
        """Whether it is grey or RGB, without alpha or palette."""
        return self.color in (GREY, RGB)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Where a chunk is: its four-letter name, and the offsets of its body."""

    name: bytes
    start: int
    end: int


def read_header(data: bytes) -> Header:
    """Read the sizes and the kind of pixels; a header that is cut short reads as zeros."""
    width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
    depth, color, _, _, interlaced = data[24:29].ljust(5, b"\0")
    return Header(width, height, depth, color, interlaced != 0)


def check_structure(data: bytes, header: Header, *, checksums: bool) -> list[Chunk]:
    """Judge the chunks that make the image: header, palette, image data, end.

    Args:
        data: the whole file.
        header: its header.
        checksums: whether the image data's are computed, too.

    Returns:
        All chunks, the end included.

    Raises:
        ImageError: the file is cut short, or every reader would refuse it.
    """
    chunks = _chunks(data)
    names = [chunk.name for chunk in chunks]
    if names[0] != b"IHDR" or names.count(b"IHDR") > 1 or chunks[0].end - chunks[0].start != 13:
        raise ImageError("broken PNG: it does not begin with its one header (IHDR)")
    if header.depth not in _DEPTHS.get(header.color, ()) or any(data[26:28]) or data[28] > 1:
        raise ImageError(f"broken PNG: its header has the fields {data[24:29].hex(' ')}")
    number = names.count(b"IDAT")
    if number == 0:
        raise ImageError("broken PNG: it has no image data (IDAT)")
    first = names.index(b"IDAT")
    if any(name != b"IDAT" for name in names[first : first + number]):
        raise ImageError("broken PNG: its image data (IDAT) is in two places")
    for chunk in chunks:
        needed = chunk.name in (b"IHDR", b"PLTE", b"IEND") or (checksums and chunk.name == b"IDAT")
        if needed and not intact(data, chunk):
            where = f"{chunk.name.decode()} chunk at byte {chunk.start - 8}"
            raise ImageError(f"broken PNG: wrong checksum of the {where}")
    return chunks


def intact(data: bytes, chunk: Chunk) -> bool:
    """Whether a chunk has the checksum that it should have."""
    body = memoryview(data)[chunk.start - 4 : chunk.end]
    return zlib.crc32(body) == int.from_bytes(data[chunk.end : chunk.end + 4], "big")


def check_bitstream(data: bytes, header: Header, chunks: list[Chunk]) -> str | None:
    """Inflate the image data and look at every row's filter, without making the pixels.

    Twice as fast as decoding. With the checksums of `check_structure` and zlib's own, no bit can
    have changed since the file was written.

    Args:
        data: the whole file.
        header: its header, its sizes already fenced.
        chunks: what `check_structure` gave.

    Returns:
        What the data has that it should not have, or None. Readers ignore a surplus, or refuse
        the file if the surplus is damaged.

    Raises:
        ImageError: the data is damaged or too short.
    """
    stream = Inflater(_pieces(data, chunks))
    for stride, rows in _passes(header):
        most = max(1, _BLOCK // stride)
        for row in range(0, rows, most):
            block = stream.take(stride * min(most, rows - row))
            if block[::stride].translate(None, _FILTERS):
                raise ImageError("broken PNG: a row with an unknown filter")
    return "more image data than its size needs" if stream.finish() else None


def exif_of(data: bytes) -> bytes:
    """The EXIF block in TIFF form; empty without one."""
    return without_metadata(data)[1]


def without_metadata(data: bytes) -> tuple[bytes, bytes]:
    """The critical chunks (section 5.4: upper-case first letter) and the EXIF block.

    Damaged files are let through: the decoder decides about them.
    """
    parts, exif, at = [data[:8]], b"", 8
    while at + 12 <= len(data):
        name, end = data[at + 4 : at + 8], at + 12 + int.from_bytes(data[at : at + 4], "big")
        if not name[0] & 0x20:
            parts.append(data[at:end])
        elif name == b"eXIf":
            exif = data[at + 8 : end - 4]
        at = end
        if name == b"IEND":
            break
    return b"".join(parts), exif


def decode_deep_grey(data: bytes, header: Header) -> NDArray[np.uint16]:
    """Decode 16-bit grey, or grey and alpha, to (height, width); alpha is dropped.

    Pillow has no mode for the latter. But a pixel's two or four bytes are filtered and interlaced
    alike whatever they mean, so it is told that they are 8-bit samples.

    Args:
        data: the whole file.
        header: its header, its sizes already fenced.

    Raises:
        ImageError: the file is damaged.
    """
    stripped, _ = without_metadata(data)
    color = GREY_ALPHA if header.color == GREY else RGBA
    named = b"IHDR" + stripped[16:24] + bytes((8, color)) + stripped[26:29]
    checksum = zlib.crc32(named).to_bytes(4, "big")
    try:
        whole = io.BytesIO(stripped[:12] + named + checksum + stripped[33:])
        with PngImageFile(whole) as image:
            if image.size != (header.width, header.height):
                raise ImageError("broken PNG: it has two headers")
            samples = np.ascontiguousarray(np.asarray(image)).view(">u2")
    except PILLOW_ERRORS as error:
        raise ImageError(f"broken PNG: {str(error) or type(error).__name__}") from error
    return samples[:, :, 0].astype(np.uint16)


def _chunks(data: bytes) -> list[Chunk]:
    chunks: list[Chunk] = []
    at = len(MAGIC)
    while at + 12 <= len(data):
        start = at + 8
        end = start + int.from_bytes(data[at : at + 4], "big")
        name = data[at + 4 : start]
        if not name.isalpha():
            raise ImageError(f"broken PNG: a chunk named {name!r} at byte {at}")
        if end + 4 > len(data):
            break
        chunks.append(Chunk(name, start, end))
        if name == b"IEND":
            return chunks
        at = end + 4
    raise ImageError(f"truncated PNG: {len(data)} bytes without an end chunk (IEND)")


def _pieces(data: bytes, chunks: list[Chunk]) -> Iterator[memoryview]:
    """The image data in pieces so small that zlib can keep what is left of one."""
    view = memoryview(data)
    for chunk in chunks:
        if chunk.name == b"IDAT":
            for at in range(chunk.start, chunk.end, _PIECE):
                yield view[at : min(at + _PIECE, chunk.end)]


def _passes(header: Header) -> Iterator[tuple[int, int]]:
    """Bytes of a row, with its filter's, and the number of rows, of each pass."""
    bits = _SAMPLES[header.color] * header.depth
    for left, top, across, down in _ADAM7 if header.interlaced else _WHOLE:
        columns = -(-(header.width - left) // across)
        rows = -(-(header.height - top) // down)
        if columns > 0 and rows > 0:
            yield 1 + (columns * bits + 7) // 8, rows
