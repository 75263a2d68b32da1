"""Changing decoded pixels, and boxes on them: turn, size, crop, colour; every function is pure."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dataprep.errors import ImageError
from dataprep.recipe import Color, Filter, Resize
from dataprep_schemas.fields import Box

try:
    import cykooz_resizer as fast
except ModuleNotFoundError:  # there are wheels for x86-64 only, as of 4.0.1
    fast = None

# uint8: (height, width) is grey, (height, width, 3) is RGB. In C order, or RGB with a spare byte
# behind each pixel, see `padded`.
Pixels: TypeAlias = NDArray[np.uint8]
# What decoders give: uint8 or uint16.
Levels: TypeAlias = NDArray[Any]
# What can be reshaped, likewise.
Dtype = TypeVar("Dtype", np.uint8, np.uint16)

_UPSIDE_DOWN, _MIRRORED = (3, 4, 7, 8), (2, 3, 6, 7)  # orientations, rows and columns swapped first

if fast is not None:
    _FILTERS = {
        name: fast.ResizeOptions(fast.ResizeAlg.convolution(kind), use_alpha=False)
        for name, kind in {
            "box": fast.FilterType.box,
            "bilinear": fast.FilterType.bilinear,
            "bicubic": fast.FilterType.catmull_rom,  # Pillow's bicubic, a = -0.5
            "lanczos": fast.FilterType.lanczos3,  # Pillow's as well
        }.items()
    }


def resampler() -> str:
    """Name and version of what `resized` computes with: another one makes other bytes."""
    name = "pillow" if fast is None else "cykooz_resizer"
    return f"{name} {version(name)}"


def padded(pixels: NDArray[Dtype]) -> NDArray[Dtype] | None:
    """The whole (height, width, 4) array of which RGB pixels are the view ``[:, :, :3]``, if so.

    libjpeg-turbo writes and reads pixels of four bytes as readily as those of three, and the
    resampler needs them: this way a photograph goes through all three without being copied.
    """
    whole = pixels.base
    if pixels.ndim == 3 and isinstance(whole, np.ndarray) and whole.strides == pixels.strides:
        return whole if whole.shape == (*pixels.shape[:2], 4) else None
    return None


def packed(pixels: NDArray[Dtype]) -> NDArray[Dtype]:
    """The same pixels in C order, without spare bytes."""
    whole = padded(pixels)
    if whole is None:
        return np.ascontiguousarray(pixels)
    # Ten times as fast as numpy, which copies three bytes at a time.
    data = mapped("RGBA", whole).tobytes("raw", "RGB")
    return np.frombuffer(data, pixels.dtype).reshape(pixels.shape)


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


def resized(pixels: NDArray[Dtype], size: tuple[int, int], name: Filter) -> NDArray[Dtype]:
    """Scale to `size` (width, height), antialiased: the filter's support grows with the scale.

    Two passes in integer arithmetic, the same on every CPU, by one thread, without the GIL: 8 bits
    downwards, then across; 16 bits across, then downwards. What the first overshoots is clipped
    and rounded to whole levels before the second; a side that stays as long needs no pass. A level
    that is everywhere stays itself.

    Args:
        pixels: uint8 or uint16.
        size: in pixels, at least 1.

    Returns:
        New pixels; RGB may be `padded`.
    """
    deep = pixels.dtype == np.uint16
    if fast is None:
        if deep and pixels.ndim == 3:  # which Pillow has no mode for
            return np.stack([resized(pixels[:, :, at], size, name) for at in range(3)], axis=2)
        scaled = Image.fromarray(packed(pixels)).resize(size, Image.Resampling[name.upper()])
        return np.asarray(scaled)
    height, width = pixels.shape[:2]
    if deep:
        kind = fast.PixelType.U16 if pixels.ndim == 2 else fast.PixelType.U16x3
        source, target = (
            fast.ImageData(width, height, kind, pixels.tobytes()),
            fast.ImageData(*size, kind),
        )
        fast.Resizer().resize(source, target, _FILTERS[name])
        return np.frombuffer(target.get_buffer(), pixels.dtype).reshape(
            *size[::-1], *pixels.shape[2:]
        )
    return resized_fast(pixels, size, _FILTERS[name])


def resized_fast(pixels: NDArray[Dtype], size: tuple[int, int], options: Any) -> NDArray[Dtype]:
    """Scale 8-bit pixels, or a part of them, to `size` (width, height) by `cykooz_resizer`."""
    whole = padded(pixels)
    found = np.empty((*size[::-1], 4)[: pixels.ndim], pixels.dtype)
    if pixels.ndim == 2:
        source, target = mapped("L", np.ascontiguousarray(pixels)), mapped("L", found)
    elif whole is not None:  # CMYK: four bytes a pixel, none of which is alpha
        source, target = mapped("CMYK", whole), mapped("CMYK", found)
    else:
        source, target = Image.fromarray(np.ascontiguousarray(pixels)), mapped("RGBA", found)
    fast.Resizer().resize_pil(source, target, options)
    return found if pixels.ndim == 2 else found[:, :, :3]


def mapped(mode: str, pixels: NDArray[Dtype]) -> Image.Image:
    """A picture in the very memory of an array in C order."""
    height, width = pixels.shape[:2]
    return Image.frombuffer(mode, (width, height), pixels, "raw", mode, 0, 1)


def eight_bits(pixels: NDArray[Dtype]) -> Pixels:
    """The high byte of 16-bit samples, as libpng's ``png_set_strip_16`` keeps it."""
    return (pixels >> 8 if pixels.dtype == np.uint16 else pixels).astype(np.uint8, copy=False)


def center_cropped(pixels: NDArray[Dtype], side: int) -> tuple[NDArray[Dtype], Box]:
    """Cut a `side` x `side` square from the middle; an odd margin leaves more at the far edge.

    Returns:
        The square, and which part of the picture it is.

    Raises:
        ImageError: the image is smaller than the square.
    """
    height, width = pixels.shape[:2]
    if min(height, width) < side:
        raise ImageError(f"{width}x{height} pixels: smaller than the {side}x{side} centre crop")
    top, left = (height - side) // 2, (width - side) // 2
    whole = padded(pixels)
    source = pixels if whole is None else whole
    square = np.ascontiguousarray(source[top : top + side, left : left + side])
    part = (left / width, top / height, (left + side) / width, (top + side) / height)
    return (square if whole is None else square[:, :, :3]), part


def turned_back(
    drawn_on: Sequence[int], came: tuple[int, int, int], what: str = "its boxes"
) -> tuple[int, str | None]:
    """The orientation that turns what was drawn on a picture as the pixels came, and any doubt.

    It turns back where the picture is what the image's EXIF orientation shows.

    Args:
        drawn_on: width and height of that picture.
        came: width, height and EXIF orientation of the image.
        what: was drawn, for messages.

    Raises:
        ImageError: that picture has another shape, either way.
    """
    (across, down), (width, height, orientation) = drawn_on, came
    stored, shown = (width, height), (height, width) if orientation >= 5 else (width, height)
    fits = [_alike((across, down), size) for size in (stored, shown)]
    if not any(fits):
        turned_by = f", turned by EXIF orientation {orientation}" if orientation > 1 else ""
        raise ImageError(
            f"{what} are of a picture of {across}x{down} pixels, and it has {width}x{height}"
            f"{turned_by}; correct its width and height in the annotations, or the image"
        )
    exact = [(across, down) == size for size in (stored, shown)]
    if exact[0] != exact[1]:  # of nearly square ones, both may be alike
        fits = exact
    if all(fits) and orientation > 1:
        return 1, (
            f"{across}x{down} pixels are its size as stored and as EXIF orientation {orientation} "
            f"turns it: {what} were taken for those of the stored pixels"
        )
    return 1 if fits[0] else {6: 8, 8: 6}.get(orientation, orientation), None


def _alike(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two sizes are one picture's, made larger or smaller: within a rounded pixel each."""
    return abs(one[0] * other[1] - other[0] * one[1]) <= max(sum(one), sum(other))


def recolored(pixels: NDArray[Dtype], color: Color) -> NDArray[Dtype]:
    """Grey to RGB by repeating it, RGB to grey by ITU-R 601 luma; ``keep`` changes nothing.

    Luma is Pillow's, (19595 R + 38470 G + 7471 B + 32768) / 65536 rounded down: where R, G and B
    are alike, exactly their value.
    """
    if color == "rgb" and pixels.ndim == 2:
        return np.repeat(pixels[:, :, np.newaxis], 3, axis=2)
    if color == "gray" and pixels.ndim == 3 and pixels.dtype == np.uint16:
        weighted = pixels.astype(np.uint32) @ np.array([19595, 38470, 7471], np.uint32)
        return ((weighted + 32768) >> 16).astype(pixels.dtype)
    if color == "gray" and pixels.ndim == 3:
        return np.asarray(Image.fromarray(packed(pixels)).convert("L"))
    return pixels


def upright(pixels: NDArray[Dtype], orientation: int) -> NDArray[Dtype]:
    """Turn and mirror an image so that it shows upright.

    Args:
        pixels: uint8 or uint16, (height, width) or (height, width, 3).
        orientation: 1 to 8, as EXIF defines it.
    """
    if orientation == 1:
        return pixels
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    if orientation in _UPSIDE_DOWN:
        pixels = pixels[::-1]
    if orientation in _MIRRORED:
        pixels = pixels[:, ::-1]
    return np.ascontiguousarray(pixels)
