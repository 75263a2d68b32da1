"""A stored picture decoded, cut, scaled and mirrored into its place in a batch, in one step.

Decoder and resampler run without the GIL, so that threads share the work. A JPEG of which a half,
a quarter or an eighth is enough is decoded to that; libjpeg's other scales take longer than all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import simplejpeg  # type: ignore[import-untyped]  # it ships stubs, but no py.typed
from PIL import Image

from dataprep.errors import ImageError
from dataprep.images import jpeg
from dataprep.images.decode import orientation_of, shown
from dataprep.images.part import Scale, decode_part
from dataprep.images.pixels import Pixels, eight_bits, resized_fast

try:
    import cykooz_resizer as fast
except ModuleNotFoundError:  # there are wheels for x86-64 only, as of 4.0.1
    fast = None

_AREA: Final = (0.08, 1.0)  # of the picture, and the ratio of its sides: Szegedy et al., Going
_RATIO: Final = (3 / 4, 4 / 3)  # deeper with convolutions, 2015; as torchvision and timm take them
_ATTEMPTS: Final = 10
_SCALES: Final[tuple[Scale, ...]] = (1, 2, 4, 8)
_CENTER: Final = 224 / 256  # of the shorter side, as ImageNet is evaluated

# Left, top, width and height of a part of a picture, in pixels.
Part = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Crop:
    """What of each picture is shown: all of it, or a part.

    A ``random`` part has 8 to 100 % of the area, its sides 3:4 to 4:3; ``center`` is the largest
    part in the middle that has the sides' ratio, and 7/8 of that.
    """

    size: tuple[int, int]  # (height, width) in pixels of what is shown
    kind: Literal["random", "center"] | None = None
    flip: bool = False  # every second one is mirrored, left to right
    scales: bool = True  # a picture of another size is scaled, and not refused

    @property
    def draws(self) -> int:
        """How many random numbers it needs."""
        return 2 * _ATTEMPTS + 3 if self.kind == "random" else int(self.flip)

    def part(self, height: int, width: int, drawn: Sequence[float]) -> Part:
        """Which part of a picture of this size is shown.

        Raises:
            ImageError: it would have to be scaled, and must not be.
        """
        if not self.scales and (height, width) != self.size:
            raise ImageError(
                f"{width}x{height} pixels, others have {self.size[1]}x{self.size[0]}; give size="
            )
        if self.kind == "random":
            return _random_part(height, width, drawn)
        if self.kind == "center":
            return _middle(height, width, self.size[1] / self.size[0], _CENTER)
        return 0, 0, width, height


def place(data: bytes, crop: Crop, drawn: Sequence[float], target: Pixels) -> None:
    """Put what is shown of a stored JPEG or PNG into its place.

    Where nothing is cut or scaled these are the pixels of `decode.shown`, of 16 bits the higher 8;
    scaled ones are antialiased, bilinear.

    Args:
        drawn: `Crop.draws` numbers from 0 to below 1.
        target: shape (height, width, 3), or (height, width) for grey; in C order.

    Raises:
        ImageError: it is no image, or damaged, or of a size that it must not have.
    """
    channels = 3 if target.ndim == 3 else 1
    if data.startswith(jpeg.MAGIC):
        with suppress(ValueError):  # of what libjpeg-turbo complains of, Pillow decides
            space = jpeg.plain_space(data, channels)
            if space and orientation_of(data) == 1 and _placed(data, space, crop, drawn, target):
                return
    try:
        pixels = eight_bits(shown(data, channels))
    except Exception as error:  # whatever Pillow raises tells of the image
        raise ImageError(f"it cannot be decoded: {error}") from error
    place_pixels(pixels, crop, drawn, target)


def place_pixels(pixels: Pixels, crop: Crop, drawn: Sequence[float], target: Pixels) -> None:
    """The same for pixels, (height, width) or (height, width, 3)."""
    height, width = pixels.shape[:2]
    _put(pixels, crop.part(height, width, drawn), crop, drawn, target)


def place_mask(levels: Pixels, crop: Crop, drawn: Sequence[float], target: Pixels) -> None:
    """Put what is shown of an image's mask into its place: of each pixel the nearest number.

    Args:
        levels: (height, width), of the upright image.
        drawn: the numbers of its image.
        target: shape (height, width).
    """
    left, top, across, down = crop.part(levels.shape[0], levels.shape[1], drawn)
    rows, columns = (
        np.clip((begin + (np.arange(size) + 0.5) * length / size).astype(np.intp), 0, most - 1)
        for begin, length, size, most in (
            (top, down, crop.size[0], levels.shape[0]),
            (left, across, crop.size[1], levels.shape[1]),
        )
    )
    if crop.flip and drawn[-1] < 0.5:
        columns = columns[::-1]
    target[...] = levels[np.ix_(rows, columns)]


def _placed(
    data: bytes, space: Literal["GRAY", "RGB"], crop: Crop, drawn: Sequence[float], target: Pixels
) -> bool:
    height, width, _, _ = simplejpeg.decode_jpeg_header(data)
    mirrored = crop.flip and drawn[-1] < 0.5
    if (height, width) == crop.size and crop.kind is None and not mirrored:
        jpeg.decode_packed(data, space, target)
        return True
    left, top, across, down = crop.part(height, width, drawn)
    ratios = across / crop.size[1], down / crop.size[0]
    scale = max(one for one in _SCALES if one <= max(min(ratios), 1))
    part = (left / scale, top / scale, across / scale, down / scale)
    shown_of = None
    if (across, down) != (width, height):
        # An antialiased pixel is drawn from a half more on each side than it covers.
        x, y = (math.ceil(max(ratio / scale, 1) / 2) + 1 for ratio in ratios)
        right, bottom = math.ceil(part[0] + part[2]) + x, math.ceil(part[1] + part[3]) + y
        box = (math.floor(part[0]) - x, math.floor(part[1]) - y, right, bottom)
        shown_of = decode_part(data, space, scale, box)
    if shown_of is None:
        # The scaled picture is rounded up to whole pixels.
        least = {"min_height": -(-height // scale), "min_width": -(-width // scale)}
        wanted = "GRAY" if space == "GRAY" else "RGBX"
        whole = simplejpeg.decode_jpeg(data, wanted, strict=True, **(least if scale > 1 else {}))
        shown_of = (whole[:, :, 0] if space == "GRAY" else whole[:, :, :3]), (0, 0)
    pixels, (x, y) = shown_of
    _put(pixels, (part[0] - x, part[1] - y, *part[2:]), crop, drawn, target)
    return True


def _put(pixels: Pixels, part: Part, crop: Crop, drawn: Sequence[float], target: Pixels) -> None:
    height, width = pixels.shape[:2]
    if crop.size != (height, width) or part != (0, 0, width, height):
        pixels = _scaled(pixels, part, crop.size)
    if crop.flip and drawn[-1] < 0.5:
        pixels = pixels[:, ::-1]
    if pixels.ndim == 2:
        target[...] = pixels
    else:  # numpy copies a plane at a time sooner than three bytes of four, and without the GIL
        for channel in range(3):
            target[:, :, channel] = pixels[:, :, channel]


def _scaled(pixels: Pixels, part: Part, size: tuple[int, int]) -> Pixels:
    """A part of a picture scaled to (height, width)."""
    height, width = pixels.shape[:2]
    left, top = min(part[0], width - 1), min(part[1], height - 1)
    across, down = min(part[2], width - left), min(part[3], height - top)
    if fast is None:
        box = (left, top, left + across, top + down)
        picture = Image.fromarray(np.ascontiguousarray(pixels))
        return np.asarray(picture.resize(size[::-1], Image.Resampling.BILINEAR, box))
    options = fast.ResizeOptions(
        fast.ResizeAlg.convolution(fast.FilterType.bilinear),
        crop_box=fast.CropBox(left, top, across, down),
        use_alpha=False,
    )
    return resized_fast(pixels, size[::-1], options)


def _random_part(height: int, width: int, drawn: Sequence[float]) -> Part:
    """As torchvision's ``RandomResizedCrop`` finds it."""
    for attempt in range(_ATTEMPTS):
        area = height * width * (_AREA[0] + (_AREA[1] - _AREA[0]) * drawn[2 * attempt])
        ratio = _RATIO[0] * (_RATIO[1] / _RATIO[0]) ** drawn[2 * attempt + 1]
        across, down = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < across <= width and 0 < down <= height:
            left, top = drawn[2 * _ATTEMPTS : 2 * _ATTEMPTS + 2]
            return int(left * (width - across + 1)), int(top * (height - down + 1)), across, down
    nearest = min(max(width / height, _RATIO[0]), _RATIO[1])
    return _middle(height, width, nearest, 1.0)


def _middle(height: int, width: int, ratio: float, share: float) -> Part:
    """The largest part in the middle whose width is so many times its height, or less of it."""
    across, down = min(width, height * ratio) * share, min(height, width / ratio) * share
    return (width - across) / 2, (height - down) / 2, across, down
