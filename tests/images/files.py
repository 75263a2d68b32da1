"""A picture, and files of it in every coding that occurs in the wild."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
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


def deep_tiff(
    samples: NDArray[np.uint16], order: str = "<", *, deflated: bool = False, planar: bool = False
) -> bytes:
    """16-bit RGB TIFF, which Pillow does not write; `planar`: a plane of samples after another."""
    height, width = samples.shape[:2]
    planes = np.moveaxis(samples, 2, 0) if planar else samples[np.newaxis]
    strips = [plane.astype(f"{order}u2").tobytes() for plane in planes]
    strips = [zlib.compress(strip) if deflated else strip for strip in strips]
    sizes = [len(strip) for strip in strips]
    starts = [8 + sum(sizes[:at]) for at in range(len(sizes))]
    fields: list[tuple[int, int, list[int]]] = [
        *((256, 4, [width]), (257, 4, [height]), (258, 3, [16] * 3)),
        *((259, 3, [8 if deflated else 1]), (262, 3, [2]), (273, 4, starts), (277, 3, [3])),
        *((278, 4, [height]), (279, 4, sizes), (284, 3, [2 if planar else 1])),
    ]
    end = 8 + sum(sizes)
    entries, values = struct.pack(f"{order}H", len(fields)), b""
    for tag, kind, numbers in fields:
        value = struct.pack(f"{order}{len(numbers)}{'HI'[kind - 3]}", *numbers)
        if len(value) > 4:
            place = end + 2 + 12 * len(fields) + 4 + len(values)
            values, value = values + value, struct.pack(f"{order}I", place)
        entries += struct.pack(f"{order}HHI", tag, kind, len(numbers)) + value.ljust(4, b"\0")
    start = struct.pack(f"{order}2sHI", b"II" if order == "<" else b"MM", 42, end)
    return start + b"".join(strips) + entries + bytes(4) + values
