from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from PIL import Image

Encoder: TypeAlias = Callable[..., bytes]


@pytest.fixture(scope="session")
def photo() -> Image.Image:
    """A 90 x 70 RGB picture with gradients, an edge and noise; every mode derives from it."""
    y, x = np.mgrid[:70, :90]
    smooth = np.stack([y * 3, x * 2, (x > 45) * 90 + y], -1)
    noise = np.random.default_rng(7).integers(0, 30, smooth.shape)
    return Image.fromarray((smooth + noise).astype(np.uint8))


@pytest.fixture(scope="session")
def encoded() -> Encoder:
    """Returns encoded(image, format="JPEG", **Pillow's save options) -> bytes."""

    def encode(image: Image.Image, format: str = "JPEG", **options: Any) -> bytes:  # noqa: A002 - Pillow's name for it
        buffer = io.BytesIO()
        image.save(buffer, format, **options)
        return buffer.getvalue()

    return encode


@pytest.fixture(scope="session")
def jpegs(photo: Image.Image, encoded: Encoder) -> dict[str, bytes]:
    """JPEG files of every coding that occurs in the wild."""
    grey = photo.convert("L")
    return {
        "baseline": encoded(photo, quality=80),
        "full chroma": encoded(photo, quality=90, subsampling=0),
        "progressive": encoded(photo, progressive=True),
        "restarts": encoded(photo, restart_marker_blocks=3),
        "grey": encoded(grey),
        "grey progressive": encoded(grey, progressive=True),
        "RGB colour space": encoded(photo, keep_rgb=True),
    }


@pytest.fixture(scope="session")
def pixels_of() -> Callable[[bytes], np.ndarray[Any, np.dtype[np.int16]]]:
    """Returns pixels_of(file) -> Pillow's decode of it as int16, ready for subtraction."""

    def decode(data: bytes) -> np.ndarray[Any, np.dtype[np.int16]]:
        with Image.open(io.BytesIO(data)) as image:
            return np.asarray(image).astype(np.int16)

    return decode
