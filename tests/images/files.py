"""A picture, and files of it in every coding that occurs in the wild."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image, features

HAS_AVIF = "avif" in features.modules and features.check("avif")
"""Pillow before 11.3 knows nothing of it, and one of a distribution may be built without."""

NEEDS_AVIF = pytest.mark.skipif(not HAS_AVIF, reason="needs a Pillow with AVIF")


def _photo() -> Image.Image:
    y, x = np.mgrid[:70, :90]
    smooth = np.stack([y * 3, x * 2, (x > 45) * 90 + y], -1)
    noise = np.random.default_rng(7).integers(0, 30, smooth.shape)
    return Image.fromarray((smooth + noise).astype(np.uint8))


def encoded(image: Image.Image, kind: str = "JPEG", **options: Any) -> bytes:
    """A file by Pillow, with its options for saving."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def pixels_of(data: bytes) -> Any:
    """Pillow's decode of a file as int16, ready for subtraction."""
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image).astype(np.int16)


PHOTO = _photo()
"""90 x 70 pixels, RGB, with gradients, an edge and noise; every mode derives from it."""

JPEGS = {
    "baseline": encoded(PHOTO, quality=80),
    "full chroma": encoded(PHOTO, quality=90, subsampling=0),
    "progressive": encoded(PHOTO, progressive=True),
    "restarts": encoded(PHOTO, restart_marker_blocks=3),
    "grey": encoded(PHOTO.convert("L")),
    "grey progressive": encoded(PHOTO.convert("L"), progressive=True),
    "RGB colour space": encoded(PHOTO, keep_rgb=True),
}
