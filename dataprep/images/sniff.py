"""What an encoded image says of itself: format, size and EXIF orientation; no pixel is decoded.

Pillow's ``getexif()`` is not used: it parses every tag and XMP too, warns through the
process-wide warnings filter, and on one real ImageNet file raised UnicodeDecodeError. Like
OpenCV, this reads EXIF only, not the copy of the tag that XMP can hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from dataprep.errors import ImageError
from dataprep.images import jpeg, png

Order: TypeAlias = Literal["big", "little"]

_EXIF = b"Exif\0\0"
_BIG, _LITTLE = b"MM\0*", b"II*\0"
_ORIENTATION, _SHORT = 0x0112, 3


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
    if data.startswith(png.MAGIC):
        header = png.read_header(data)
        return Sniffed("PNG", header.height, header.width)
    raise ImageError(f"neither JPEG nor PNG: it begins with {data[:8]!r}")


def kind_of(data: bytes) -> str:
    """Name the format by the file's first bytes.

    Raises:
        ImageError: it is none that is supported, or nothing at all.
    """
    if not data:
        raise ImageError("empty file: 0 bytes")
    if data.startswith(png.MAGIC):
        return "PNG"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "GIF"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "WebP"
    # "BM" alone would claim text; the size of the second header is 12 to 124 in every BMP.
    if data.startswith(b"BM") and 12 <= int.from_bytes(data[14:18], "little") <= 124:
        return "BMP"
    if data.startswith((_BIG, _LITTLE)):
        return "TIFF"
    raise ImageError(
        "not a JPEG, PNG, GIF, BMP, TIFF or WebP image: "
        f"{len(data)} bytes starting with {data[:12]!r}"
    )


def orientation_of(data: bytes) -> int:
    """Orientation, 1 to 8, of a stored JPEG or PNG; 1 if it says none, or is unreadable."""
    try:
        if data.startswith(png.MAGIC):
            return of_tiff(png.split(data).exif)
        return of_jpeg(data) if data.startswith(jpeg.MAGIC) else 1
    except ImageError:
        return 1


def of_jpeg(data: bytes) -> int:
    """Orientation, 1 to 8, in a JPEG's first EXIF segment; 1 if absent or unreadable."""
    for marker, start, end in jpeg.segments(data):
        if marker == jpeg.APP1 and data.startswith(_EXIF, start + 4):
            return of_tiff(data[start + 4 + len(_EXIF) : end])
    return 1


def of_tiff(block: bytes) -> int:
    """Orientation, 1 to 8, in the first directory of a TIFF block (EXIF 2.3, section 4.6.2)."""
    order, at = _orientation_entry(block)
    value = int.from_bytes(block[at + 8 : at + 10], order)
    short = int.from_bytes(block[at + 2 : at + 4], order) == _SHORT
    return value if at and short and 1 <= value <= 8 else 1


def tiff_upright(block: bytes) -> bytes:
    """The same TIFF block with orientation 1, if it has one: Pillow would apply another."""
    order, at = _orientation_entry(block)
    one = b"".join(number.to_bytes(size, order) for number, size in ((_SHORT, 2), (1, 4), (1, 2)))
    return block[: at + 2] + one + block[at + 10 :] if at else block


def _orientation_entry(block: bytes) -> tuple[Order, int]:
    """The byte order, and where the tag's entry is in the first directory; 0 if it is not.

    Slices behind the block's end are empty and read as zero, so no damage can raise.
    """
    order: Order = "big" if block.startswith(_BIG) else "little"
    if not block.startswith((_BIG, _LITTLE)):
        return order, 0
    first = int.from_bytes(block[4:8], order) + 2
    last = first + 12 * int.from_bytes(block[first - 2 : first], order)
    places = range(first, min(last, len(block) - 11), 12)
    tag = _ORIENTATION.to_bytes(2, order)
    return order, next((at for at in places if block[at : at + 2] == tag), 0)
