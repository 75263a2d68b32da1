"""What an encoded image says of itself in its header, for formats that do not record it."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from dataprep.errors import ImageError
from dataprep.images import jpeg, png

_PNG_SIZE = struct.Struct(">II")  # width and height, at byte 16 (PNG specification, IHDR)


@dataclass(frozen=True, slots=True)
class Sniffed:
    """Format (``JPEG`` or ``PNG``), height and width in pixels."""

    format: str
    height: int
    width: int


def sniff(data: bytes) -> Sniffed:
    """Read the header; no pixel is decoded.

    Raises:
        ImageError: it is neither a JPEG nor a PNG, or its header is damaged.
    """
    if data.startswith(jpeg.MAGIC):
        frame = jpeg.read_frame(data)
        return Sniffed("JPEG", frame.height, frame.width)
    if data.startswith(png.MAGIC) and len(data) >= 16 + _PNG_SIZE.size:
        width, height = _PNG_SIZE.unpack_from(data, 16)
        return Sniffed("PNG", height, width)
    raise ImageError(f"neither JPEG nor PNG: it begins with {data[:8]!r}")
