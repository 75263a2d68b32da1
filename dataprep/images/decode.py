"""What a stored image is: its header, its orientation, what it tells of people; and its pixels.

For everything that reads finished data sets.
"""

from __future__ import annotations

import io
import re
from contextlib import suppress
from typing import Literal

import numpy as np
from PIL import Image

from dataprep.errors import ImageError
from dataprep.images import exif, jpeg, pixels, png
from dataprep.images.pixels import Levels, Pixels
from dataprep.recipe import MAX_PIXELS

_TEXTS = frozenset({b"tEXt", b"zTXt", b"iTXt"})
_TURNED_BY_XMP = "an orientation in XMP alone"  # by which hardly any reader turns
_SEGMENTS = (
    ("XMP", jpeg.APP1, re.compile(rb"http://ns\.adobe\.com/x")),
    ("IPTC", 0xED, re.compile(rb"8BIM\x04\x04")),  # one of Photoshop's resources
    ("JPEG comment", jpeg.COM, re.compile(b"")),
    ("pictures behind the first", 0xE2, re.compile(rb"\A.{4}MPF\0", re.DOTALL)),  # CIPA DC-007
    (_TURNED_BY_XMP, jpeg.APP1, re.compile(rb"""tiff:Orientation(=["']|>)[2-8]["'<]""")),
)
_TELLING = frozenset(code for _, code, _ in _SEGMENTS)  # EXIF is in APP1, as XMP is


def sniff(data: bytes) -> jpeg.Frame | png.Header:
    """Read the header: its format, the size, and whether it is grey.

    Raises:
        ImageError: it is neither a JPEG nor a PNG, or its header is damaged.
    """
    if data.startswith(jpeg.MAGIC):
        return jpeg.read_frame(data)
    if data.startswith(png.MAGIC):
        return png.read_header(data)
    raise ImageError(f"neither JPEG nor PNG: it begins with {data[:8]!r}")


def orientation_of(data: bytes) -> int:
    """Orientation, 1 to 8, of a JPEG or PNG; 1 if it says none, or is unreadable."""
    return exif.orientation_of(_exif_of(data))


def metadata_of(data: bytes) -> tuple[str, ...]:
    """What a JPEG or PNG has beside pixels that its owner should know of; never the values.

    ``EXIF orientation 6`` if it is not 1, ``EXIF GPS``, ``PNG text`` and the like.
    """
    found: list[str] = []
    with suppress(ImageError):
        if data.startswith(png.MAGIC):
            chunks = png.split(data)
            found = exif.traits_of(chunks.exif) + ["PNG text"] * (
                not _TEXTS.isdisjoint(chunks.names)
            )
        elif data.startswith(jpeg.MAGIC):
            told = [it for it in jpeg.segments(data) if it[0] in _TELLING]
            if told:
                found = exif.traits_of(_exif_of(data))
            for marker, start, end in told:
                body = data[start:end]
                found += [
                    name for name, code, key in _SEGMENTS if code == marker and key.search(body)
                ]
            if _TURNED_BY_XMP in found and exif.has_orientation(_exif_of(data)):
                found.remove(_TURNED_BY_XMP)
    return tuple(dict.fromkeys(found))


def _exif_of(data: bytes) -> bytes:
    """The first EXIF block, in TIFF form; empty without one."""
    with suppress(ImageError):
        if data.startswith(png.MAGIC):
            return png.split(data).exif
        for marker, start, end in jpeg.segments(data) if data.startswith(jpeg.MAGIC) else ():
            if marker == jpeg.APP1 and data.startswith(exif.HEAD, start + 4):
                return data[start + 4 + len(exif.HEAD) : end]
    return b""


def to_pixels(
    data: bytes,
    format: str,  # noqa: A002 - the field's name in Example
    height: int,
    width: int,
    color: Literal["rgb", "gray"],
    max_pixels: int = MAX_PIXELS,
) -> Pixels:
    """Decode a stored image with the very decoders that `prepare` uses.

    So a JPEG that passed through gives the pixels that ``Recipe(encoding="raw")`` would have
    stored of it, upright.

    Args:
        data: the encoded image, or the uint8 pixels in (height, width, channel) order.
        format: ``JPEG``, ``PNG`` or ``RAW``.
        height: that it should have, in pixels, as stored.
        color: what to return: ``rgb`` is (height, width, 3), ``gray`` (height, width).
        max_pixels: refuse images that are, or claim to be, larger.

    Raises:
        ImageError: it cannot be decoded, or is not what `format` or the size say.
    """
    pixels.require_size(width, height, max_pixels)
    if format == "RAW":
        return pixels.recolored(_viewed(data, height, width), color)
    found = sniff(data)
    if (found.format, found.height, found.width) != (format, height, width):
        raise ImageError(
            f"{found.format} of {found.width}x{found.height} pixels, expected {format} of "
            f"{width}x{height}"
        )
    if isinstance(found, png.Header):
        stored = pixels.eight_bits(png.decode(found, png.split(data)))
    else:
        stored, _ = jpeg.decode(data, found, grey=color == "gray")
    return pixels.packed(pixels.recolored(pixels.upright(stored, orientation_of(data)), color))


def shown(data: bytes, channels: int) -> Levels:
    """Decode a stored image as Pillow would, and turn it upright: what training sees.

    Most JPEGs are decoded by libjpeg-turbo alone, which is sooner and without the GIL.

    Args:
        channels: 3 gives RGB, (height, width, 3); 1 gives grey, (height, width), of 16 bits where
            they were kept.
    """
    stored: Levels | None = None
    if data.startswith(jpeg.MAGIC):
        with suppress(ValueError):
            if space := jpeg.plain_space(data, channels):
                stored = jpeg.decode_packed(data, space)
    if stored is None:
        with Image.open(io.BytesIO(data)) as picture:
            deep = picture.mode.startswith("I;16")
            mode = picture.mode if deep else "RGB" if channels == 3 else "L"
            stored = np.asarray(picture.convert(mode))
    return pixels.upright(stored, orientation_of(data))


def raw_to_png(data: bytes, height: int, width: int) -> bytes:
    """Encode RAW pixels, grey or RGB by their number of bytes, as PNG.

    Raises:
        ImageError: the number of bytes fits neither.
    """
    return png.encode(_viewed(data, height, width))


def _viewed(data: bytes, height: int, width: int) -> Pixels:
    """View bytes as (height, width) or (height, width, 3); read-only, not copied."""
    count = height * width
    if min(height, width) > 0 and len(data) in (count, 3 * count):
        flat = np.frombuffer(data, np.uint8)
        grey = len(data) == count
        return flat.reshape((height, width) if grey else (height, width, 3))
    raise ImageError(
        f"{len(data)} bytes of RAW pixels: {width}x{height} has {count} in grey "
        f"or {3 * count} in RGB"
    )
