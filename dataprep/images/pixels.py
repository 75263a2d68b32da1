"""Changing decoded pixels: colour, size and crop; every function is pure."""

from __future__ import annotations

from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dataprep.errors import ImageError
from dataprep.images.recipe import Color, Filter, Resize
from dataprep.index import Box

# uint8, C order: (height, width) is grey, (height, width, 3) is RGB.
Pixels: TypeAlias = NDArray[np.uint8]
# What can be reshaped: uint8, and grey in uint16.
Level = TypeVar("Level", np.uint8, np.uint16)

_FILTERS: dict[Filter, Image.Resampling] = {
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "hamming": Image.Resampling.HAMMING,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


def require_size(width: int, height: int, max_pixels: int) -> None:
    """Refuse an image that is empty or too large to be decoded safely.

    Raises:
        ImageError: a side is 0, or there are more than `max_pixels` pixels.
    """
    if width < 1 or height < 1:
        raise ImageError(f"empty image: {width}x{height} pixels")
    if width * height > max_pixels:
        raise ImageError(
            f"too large, a decompression bomb? {width}x{height} = {width * height} pixels, "
            f"at most {max_pixels} allowed"
        )


def target_size(width: int, height: int, resize: Resize) -> tuple[int, int]:
    """Width and height in pixels after a resize.

    The longer side is rounded to the nearest integer, halves up, in integer arithmetic, so
    that no platform's floating point can move it.
    """
    if resize.height is not None:
        return resize.width, resize.height
    short, long = sorted((width, height))
    scaled = (2 * long * resize.width + short) // (2 * short)
    return (resize.width, scaled) if width <= height else (scaled, resize.width)


def resized(pixels: NDArray[Level], size: tuple[int, int], name: Filter) -> NDArray[Level]:
    """Scale to `size` (width, height), antialiased: the filter's support grows with the scale.

    uint16 is scaled as float32, which holds it exactly, and rounded once, halves up. Pillow's own
    16-bit mode would round between the two directions, too.
    """
    if pixels.dtype == np.uint8:
        return np.asarray(Image.fromarray(pixels).resize(size, _FILTERS[name]))
    real = Image.fromarray(pixels.astype(np.float32)).resize(size, _FILTERS[name])
    whole = np.floor(np.asarray(real).astype(np.float64) + 0.5)
    return whole.clip(0, np.iinfo(np.uint16).max).astype(pixels.dtype)


def eight_bits(pixels: NDArray[Level]) -> Pixels:
    """The high byte of 16-bit samples, as libpng's ``png_set_strip_16`` keeps it."""
    return pixels.astype(np.uint8) if pixels.dtype == np.uint8 else (pixels >> 8).astype(np.uint8)


def center_cropped(pixels: NDArray[Level], side: int) -> NDArray[Level]:
    """Cut a `side` x `side` square from the middle; an odd margin leaves more at the far edge.

    Raises:
        ImageError: the image is smaller than the square.
    """
    height, width = pixels.shape[:2]
    if min(height, width) < side:
        raise ImageError(f"{width}x{height} pixels: smaller than the {side}x{side} centre crop")
    top, left = (height - side) // 2, (width - side) // 2
    return np.ascontiguousarray(pixels[top : top + side, left : left + side])


def center_part(width: int, height: int, side: int) -> Box:
    """The part of a picture that `center_cropped` leaves, as fractions of width and height."""
    left, top = (width - side) // 2, (height - side) // 2
    return left / width, top / height, (left + side) / width, (top + side) / height


def recolored(pixels: NDArray[Level], color: Color) -> NDArray[Level]:
    """Grey to RGB by repeating it, RGB to grey by ITU-R 601 luma; ``keep`` changes nothing.

    Luma is Pillow's, (19595 R + 38470 G + 7471 B + 32768) / 65536 rounded down: where R, G and B
    are alike, exactly their value.
    """
    if color == "rgb" and pixels.ndim == 2:
        return np.repeat(pixels[:, :, np.newaxis], 3, axis=2)
    if color == "gray" and pixels.ndim == 3:
        return np.asarray(Image.fromarray(pixels).convert("L"))
    return pixels
