"""Pictures as files: JPEGs with the settings found in ImageNet, and the odd ones.

The mix of quality and chroma subsampling was counted on real ImageNet files: two thirds
are resized pictures at quality 96 without subsampling; the others come as their cameras
and web sites left them.
"""

from __future__ import annotations

import io
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Kind = Literal["rgb", "grey", "cmyk", "png"]

# (quality, Pillow's name of the chroma subsampling, share)
_SETTINGS = (
    (96, "4:4:4", 0.70),
    (80, "4:4:4", 0.04),
    (86, "4:4:4", 0.03),
    (92, "4:4:4", 0.02),
    (75, "4:2:0", 0.08),
    (80, "4:2:0", 0.04),
    (85, "4:2:0", 0.05),
    (92, "4:2:0", 0.03),
    (86, "4:2:2", 0.01),
)
# Only the pictures that were brought down to 500 pixels were saved again at quality 96.
_RESIZED_PIXELS = 500 * 500
_SETTING_BOUNDS = np.cumsum([share for _, _, share in _SETTINGS])


def encode(pixels: NDArray[np.uint8], kind: Kind, seed: int) -> bytes:
    """Write a picture as a file of the given kind.

    Args:
        pixels: RGB, height x width x 3.
        kind: ``rgb`` and ``grey`` are JPEGs with three and one components, ``cmyk`` is
            an inverted four-component JPEG with an Adobe marker, ``png`` is a PNG.
        seed: decides on the quality and the subsampling.

    Returns:
        The bytes of the file.
    """
    image = Image.fromarray(pixels)
    if kind == "png":
        return _saved(image, "PNG")
    if kind == "cmyk":
        return _saved(_separated(image), "JPEG", quality=90)
    draw = np.random.Generator(np.random.PCG64([seed, 1])).random()
    if pixels.size > 3 * _RESIZED_PIXELS:
        draw = _SETTING_BOUNDS[0] + draw * (1.0 - _SETTING_BOUNDS[0])
    choice = min(int(np.searchsorted(_SETTING_BOUNDS, draw)), len(_SETTINGS) - 1)
    quality, subsampling, _ = _SETTINGS[choice]
    if kind == "grey":
        return _saved(image.convert("L"), "JPEG", quality=quality)
    return _saved(image, "JPEG", quality=quality, subsampling=subsampling)


def _separated(image: Image.Image) -> Image.Image:
    """CMYK with a black plate, as a print shop has it; Pillow's own conversion leaves K 0."""
    rgb = np.asarray(image).astype(np.int32)
    black = (255 - rgb.max(axis=2)) * 3 // 4
    # Black ink dims what the others leave, so that those have to leave more.
    inks = 255 - rgb * 255 // (255 - black[..., None])
    plates = [*np.moveaxis(inks, 2, 0), black]
    return Image.merge("CMYK", [Image.fromarray(plate.astype(np.uint8)) for plate in plates])


def _saved(image: Image.Image, container: str, **options: int | str) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, container, **options)
    return buffer.getvalue()
