"""From a stored image back to pixels, for everything that reads finished data sets."""

from __future__ import annotations

from typing import Literal

import numpy as np

from dataprep.errors import ImageError
from dataprep.images import codecs, png
from dataprep.images.pixels import Pixels, eight_bits, packed, recolored, require_size, upright
from dataprep.images.recipe import MAX_PIXELS
from dataprep.images.sniff import orientation_of, sniff


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
    require_size(width, height, max_pixels)
    if format == "RAW":
        return recolored(_viewed(data, height, width), color)
    found = sniff(data)
    if (found.format, found.height, found.width) != (format, height, width):
        raise ImageError(
            f"{found.format} of {found.width}x{found.height} pixels, expected {format} of "
            f"{width}x{height}"
        )
    if isinstance(found, png.Header):
        stored = eight_bits(png.decode(found, png.split(data)))
    else:
        stored, _ = codecs.decode(data, found, grey=color == "gray")
    return packed(recolored(upright(stored, orientation_of(data)), color))


def raw_to_png(data: bytes, height: int, width: int) -> bytes:
    """Encode RAW pixels, grey or RGB by their number of bytes, as PNG.

    Raises:
        ImageError: the number of bytes fits neither.
    """
    return codecs.to_png(_viewed(data, height, width))


def _viewed(data: bytes, height: int, width: int) -> Pixels:
    """View bytes as (height, width) or (height, width, 3); read-only, not copied."""
    pixels = height * width
    if min(height, width) > 0 and len(data) in (pixels, 3 * pixels):
        flat = np.frombuffer(data, np.uint8)
        grey = len(data) == pixels
        return flat.reshape((height, width) if grey else (height, width, 3))
    raise ImageError(
        f"{len(data)} bytes of RAW pixels: {width}x{height} has {pixels} in grey "
        f"or {3 * pixels} in RGB"
    )
