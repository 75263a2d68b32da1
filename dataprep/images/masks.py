"""Masks: a number for each pixel of an image, as arrays and as the grey PNGs that are stored."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import ImageFile
from PIL.BmpImagePlugin import BmpImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.TiffImagePlugin import TiffImageFile

from dataprep.errors import ImageError
from dataprep.images import jpeg, pillow, png
from dataprep.images.pixels import Pixels, require_size, upright
from dataprep.recipe import MAX_PIXELS
from dataprep_schemas.fields import WHOLE, Box

NOTHING: Final = 255  # of a pixel of which nobody says what it shows
# Those that keep every number. JPEG does not, and who writes a GIF may number colours anew.
_PLUGINS: Final[dict[str, type[ImageFile.ImageFile]]] = {
    "PNG": PngImageFile,
    "TIFF": TiffImageFile,
    "BMP": BmpImageFile,
}
_INDEXED: Final = ("L", "P", "1", "I", "I;16", "I;16B", "I;16L")


def read(data: bytes, max_pixels: int) -> Pixels:
    """The numbers of a stored mask, (height, width): grey levels, or places in a palette.

    Two levels of one bit are 0 and 1; colours that are grey everywhere are their level.

    Raises:
        ImageError: it is no picture of one number a pixel, or has numbers beyond 255.
    """
    kind = "PNG" if data.startswith(png.MAGIC) else "JPEG" if data.startswith(jpeg.MAGIC) else ""
    kind = kind or pillow.kind_of(data)
    if kind not in _PLUGINS:
        raise ImageError(f"its mask is a {kind}, expected {', '.join(_PLUGINS)}")
    # Of TIFF, whose tiles may be larger than the picture, Pillow's own limits hold.
    limit = min(max_pixels, MAX_PIXELS) if kind == "TIFF" else max_pixels
    with pillow.decoding(f"mask, a {kind}"), _PLUGINS[kind](io.BytesIO(data)) as picture:
        require_size(*picture.size, limit)
        mode, levels = picture.mode, np.asarray(picture)
    if levels.ndim == 3:
        opaque = mode in ("RGB", "LA") or bool((levels[:, :, -1] == NOTHING).all())
        shown = levels[:, :, :1] if mode == "LA" else levels[:, :, :3]
        if not opaque or (shown != shown[:, :, :1]).any():
            raise ImageError(
                f"its mask has colours ({mode}), and nothing says which class each is: expected "
                "grey or a palette, of one number a class; make the masks again"
            )
        levels = shown[:, :, 0]
    elif mode not in _INDEXED:
        raise ImageError(f"its mask is of mode {mode}, expected grey or a palette")
    if levels.dtype != np.uint8:
        if levels.size and not 0 <= levels.min() <= levels.max() <= NOTHING:
            raise ImageError(
                f"its mask has numbers from {levels.min()} to {levels.max()}, expected 0 to 255"
            )
        levels = levels.astype(np.uint8)
    return levels


def of_runs(runs: Iterable[tuple[int, str]], size: tuple[int, int], *, down: bool) -> Pixels:
    """A mask of runs of pixels: ``start length start length``, the first pixel being 1.

    Args:
        runs: each with its number; where two overlap, the mask has 255.
        size: height and width.
        down: whether pixels are counted down the columns, as Kaggle does, or along the rows.

    Raises:
        ImageError: a run is none, or leads out of the picture.
    """
    covered = []
    for number, text in runs:
        try:
            ends = np.array(text.split(), np.int64).reshape(-1, 2)
        except (ValueError, OverflowError) as error:
            raise ImageError(f"its mask has the runs {text[:40]!r}: expected pairs") from error
        flat = np.zeros(size[0] * size[1], bool)
        for start, length in ends.tolist():
            if start < 1 or length < 0 or start - 1 + length > flat.size:
                raise ImageError(
                    f"its mask has a run of {length} pixels from {start}, and the image "
                    f"{size[1]}x{size[0]} pixels"
                )
            flat[start - 1 : start - 1 + length] = True
        covered.append((number, flat.reshape(size[::-1]).T if down else flat.reshape(size)))
    return _together(covered, size)


def of_outlines(outlines: Iterable[tuple[int, Any]], size: tuple[int, int]) -> Pixels:
    """A mask of what COCO's annotations outline, rasterised by pycocotools.

    Args:
        outlines: each with its number: a list of polygons ``[x, y, x, y, ...]``, or runs of
            pixels, ``{"size": [height, width], "counts": [...]}`` or the same as a text. Where two
            of different numbers overlap, the mask has 255.
        size: height and width.

    Raises:
        ImageError: an outline is none, or of a picture of another size.
    """
    return _together([(number, _outlined(shape, size)) for number, shape in outlines], size)


def _together(covered: Iterable[tuple[int, NDArray[np.bool_]]], size: tuple[int, int]) -> Pixels:
    levels = np.zeros(size, np.uint8)
    for number, where in covered:
        both = where & (levels != 0) & (levels != number)
        levels[where] = number
        levels[both] = NOTHING
    return levels


def _outlined(shape: Any, size: tuple[int, int]) -> NDArray[np.bool_]:
    if not isinstance(shape, dict):
        shape = _filled(shape, size)
    found: Any = shape.get("counts")
    counts = _decoded(found) if isinstance(found, str) else found or []
    good = isinstance(counts, list) and all(type(it) is int and it >= 0 for it in counts)
    if not good or shape.get("size") != [*size] or sum(counts) != size[0] * size[1]:
        raise ImageError(
            f"its mask has runs of pixels for {shape.get('size')!r:.40} (height, width), that are "
            f"not all of {size[1]}x{size[0]} pixels; correct the annotations"
        )
    values = np.arange(len(counts)) % 2 == 1
    return np.repeat(values, counts).reshape(size[::-1]).T


def _filled(shape: Any, size: tuple[int, int]) -> dict[str, Any]:
    """The runs of polygons, which are decoded here: pycocotools' own way warns with NumPy 2."""
    polygons = shape if isinstance(shape, list) else [shape]
    # pycocotools takes memory for every pixel that an edge passes, also outside of the picture.
    most = 2 * sum(size)
    for polygon in polygons:
        numbers = isinstance(polygon, list) and len(polygon) >= 6 and len(polygon) % 2 == 0
        if not numbers or not all(type(it) in (int, float) and abs(it) <= most for it in polygon):
            raise ImageError(
                f"its mask has the outline {polygon!r:.40}: expected x and y of three points or "
                "more, in pixels"
            )
    from pycocotools import mask as coco  # type: ignore[import-untyped]  # no py.typed

    found = coco.merge(coco.frPyObjects(polygons, *size))
    return {"size": [*size], "counts": found["counts"].decode()}


def _decoded(text: str) -> list[int]:
    """Lengths of runs, of COCO's text: 5 bits a character from 48 on, differences from the third.

    https://github.com/cocodataset/cocoapi/blob/master/common/maskApi.c, rleFrString
    """
    counts: list[int] = []
    value = shift = 0
    for character in text.encode():
        bits = character - 48
        value |= (bits & 0x1F) << shift
        shift += 5
        if not bits & 0x20:
            value -= (bits & 0x10) and 1 << shift
            counts.append(value + (counts[-2] if len(counts) > 2 else 0))
            value = shift = 0
    return counts


def renumbered(levels: Pixels, values: Sequence[tuple[int, int]]) -> Pixels:
    """With some numbers replaced, all at once."""
    if not values:
        return levels
    table = np.arange(NOTHING + 1, dtype=np.uint8)
    for before, after in values:
        table[before] = after
    return table[levels]


def nothing(height: int, width: int) -> Pixels:
    """A mask that says nothing of any pixel."""
    return np.full((height, width), NOTHING, np.uint8)


def encode(levels: Pixels) -> bytes:
    """As a grey PNG of 8 bits."""
    return png.encode(np.ascontiguousarray(levels))


def fitted(levels: Pixels, turn: int, size: tuple[int, int], part: Box = WHOLE) -> Pixels:
    """A mask as it is of what turning an image, then scaling and cutting, made of it.

    Each pixel gets the number of the nearest one, as by Pillow's ``NEAREST``; of two, the second's.

    Args:
        levels: (height, width), of the image as it came.
        turn: the orientation by which that was turned.
        size: height and width of what was made.
        part: what was left of the turned and scaled image.
    """
    levels = upright(levels, turn)
    if levels.shape == size and part == WHOLE:
        return levels
    starts, ends = part[1::-1], part[:1:-1]  # down, across
    sides = []
    for length, made, start, end in zip(levels.shape, size, starts, ends, strict=True):
        scaled = round(made / (end - start))
        twice = 2 * (round(start * scaled) + np.arange(made)) + 1  # the middles, in half pixels
        sides.append(np.minimum(twice * length // (2 * scaled), length - 1))
    return levels[np.ix_(*sides)]
