"""Writing pixels as JPEG or PNG, always the same bytes for the same pixels and versions."""

from __future__ import annotations

import io
from importlib.metadata import version

from numpy.typing import NDArray
from PIL import Image, features

from dataprep.errors import ImageError
from dataprep.images import turbo
from dataprep.images.pixels import Level, Pixels, packed, resampler
from dataprep.images.recipe import MAX_SIDE

# Measured on radiographs of 250 x 250: zlib's default, 6, takes 2.2 times as long for 2 % less.
_PNG_LEVEL = 4


def to_jpeg(pixels: Pixels, quality: int, chroma: str) -> bytes:
    """Encode as baseline JPEG without metadata; grey stays one component.

    Args:
        pixels: uint8, (height, width) or (height, width, 3).
        quality: 1 to 100.
        chroma: subsampling of the colour planes, ``420`` or ``444``.

    Raises:
        ImageError: a side is longer than a JPEG can have.
    """
    height, width = pixels.shape[:2]
    if max(height, width) > MAX_SIDE:
        raise ImageError(f"{width}x{height} pixels: a side of a JPEG has at most {MAX_SIDE}")
    return turbo.encode(pixels, quality, chroma)


def to_png(pixels: NDArray[Level]) -> bytes:
    """Encode as 8-bit grey or RGB PNG, or 16-bit grey, without metadata."""
    buffer = io.BytesIO()
    Image.fromarray(packed(pixels)).save(buffer, "PNG", compress_level=_PNG_LEVEL)
    return buffer.getvalue()


def codec_versions() -> dict[str, str]:
    """Versions of everything that can change re-encoded bytes.

    simplejpeg carries a libjpeg-turbo of its own, fixed by simplejpeg's version;
    ``libjpeg`` is the one that Pillow decodes CMYK images with.
    """
    # Asking Pillow for a feature it does not know is a warning; older ones know no zlib-ng.
    zlib_ng = features.version("zlib_ng") if "zlib_ng" in features.features else None
    turbo = features.version("libjpeg_turbo")
    return {
        "pillow": version("pillow"),
        "libjpeg": f"libjpeg-turbo {turbo}" if turbo else f"libjpeg {features.version('jpg')}",
        "simplejpeg": version("simplejpeg"),
        "zlib": f"zlib-ng {zlib_ng}" if zlib_ng else f"zlib {features.version('zlib')}",
        "resampler": resampler(),
        "webp": str(features.version("webp")),
    }
