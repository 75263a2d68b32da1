"""What a data set's images are like: sizes, formats, and the mean and spread of their pixels.

Everything is counted in whole numbers, so shards that were counted apart, in any order and on
any machine, add up to exactly what one pass over all images would have found. Only `summary`
divides, and it does so from exact integers.
"""

from __future__ import annotations

import math
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import add
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dataprep.errors import SinkError
from dataprep.images.pixels import Pixels
from dataprep_schemas import manifest
from dataprep_schemas.state import Counted, Levels, Sum

SHORTER_SIDE_EDGES: Final = (32, 64, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096)
"""In pixels. Bin 0 is below the first edge, bin i from edge i - 1 to below edge i, and the last
from the last edge on."""

ASPECT_RATIO_EDGES: Final = (0.4, 0.6, 0.7, 0.85, 0.95, 1.05, 1.2, 1.4, 1.6, 2.5)
"""Width / height; bins as above. They lie between the shapes that cameras make (1:2 and 9:16,
2:3, 3:4, 1:1, 4:3, 3:2, 16:9 and 2:1), so that rounding to whole pixels moves none of those."""

# The same edges as integers: binning must not depend on a division.
_HUNDREDTHS = tuple(round(100 * edge) for edge in ASPECT_RATIO_EDGES)
_LEVELS = 256
_DECIMALS = 6
_SUM = np.dtype("<u8")
_NONE = Sum(0, None, None)
Count = TypeVar("Count", np.int64, np.uint64)


@dataclass(slots=True, eq=False)
class Measured:
    """What one stored image adds to the statistics; made in the thread that prepared it.

    Attributes:
        bytes: size of the stored image.
        format: ``JPEG``, ``PNG`` or ``RAW``.
        height: in pixels, as stored.
        width: in pixels, likewise.
        histogram: int64, (channels, 256): pixels by level, channels in RGB order. None if the
            recipe does not decode every image.
        pixels: uint8, (height, width, channels), if the mean image is wanted.
    """

    bytes: int
    format: str
    height: int
    width: int
    histogram: NDArray[np.int64] | None = None
    pixels: Pixels | None = None


def histogram_of(pixels: Pixels, channels: int) -> NDArray[np.int64]:
    """Count pixels by level: int64, (channels, 256).

    Args:
        pixels: uint8, (height, width) or (height, width, 3).
        channels: 1 or 3; grey counts alike in all three, since that is what readers decode it to.
    """
    counted = np.array(Image.fromarray(pixels).histogram(), np.int64).reshape(-1, _LEVELS)
    return np.broadcast_to(counted, (channels, _LEVELS))


def as_channels(pixels: Pixels, channels: int) -> Pixels:
    """View pixels as (height, width, channels), grey repeated without a copy."""
    whole = pixels[:, :, np.newaxis] if pixels.ndim == 2 else pixels
    return np.broadcast_to(whole, (*whole.shape[:2], channels))


@dataclass(slots=True)
class Statistics:
    """A running count over images; `merge` is associative, commutative and exact."""

    _images: int = 0
    _bytes: Sum = _NONE
    _height: Sum = _NONE
    _width: Sum = _NONE
    _formats: Counter[str] = field(default_factory=Counter)
    _shorter_side: tuple[int, ...] = (0,) * (len(SHORTER_SIDE_EDGES) + 1)
    _aspect_ratio: tuple[int, ...] = (0,) * (len(ASPECT_RATIO_EDGES) + 1)
    _histogram: NDArray[np.int64] | None = None
    _sums: NDArray[Any] | None = None  # of levels

    def add(self, measured: Measured) -> None:
        """Count one image; nothing is counted if it is refused.

        Raises:
            SinkError: the mean image is wanted, and this image has another size than the others.
        """
        height, width, size = measured.height, measured.width, measured.bytes
        one = Statistics(
            1,
            Sum(size, size, size),
            Sum(height, height, height),
            Sum(width, width, width),
            Counter([measured.format]),
            _binned(min(height, width), SHORTER_SIDE_EDGES),
            # floor(100 w / h) reaches a whole edge exactly when 100 w / h does.
            _binned(100 * width // height, _HUNDREDTHS),
            measured.histogram,
            measured.pixels,
        )
        self.merge(one)

    def merge(self, other: Statistics) -> None:
        """Add everything that ``other`` counted; it stays as it is.

        Raises:
            SinkError: the mean image is wanted, and the images have different sizes.
        """
        mine, theirs = self._sums, other._sums
        if mine is not None and theirs is not None and mine.shape != theirs.shape:
            found, expected = (f"{array.shape[0]}x{array.shape[1]}" for array in (theirs, mine))
            raise SinkError(
                f"the mean image needs one fixed size: found {found} (height x width), "
                f"expected {expected}; add --resize WIDTHxHEIGHT or --center_crop"
            )
        self._sums = _sum(mine, theirs, np.uint64)
        self._histogram = _sum(self._histogram, other._histogram, np.int64)
        self._images += other._images
        self._bytes = _added(self._bytes, other._bytes)
        self._height = _added(self._height, other._height)
        self._width = _added(self._width, other._width)
        self._formats.update(other._formats)
        self._shorter_side = tuple(map(add, self._shorter_side, other._shorter_side))
        self._aspect_ratio = tuple(map(add, self._aspect_ratio, other._aspect_ratio))

    def mean_image(self) -> NDArray[np.float64] | None:
        """The mean of every pixel, 0 to 255: float64, (height, width, channels), RGB order.

        None unless the recipe's statistics are ``mean`` and every image is decoded.
        """
        if self._sums is None:
            return None
        return self._sums.astype(np.float64) / self._images

    def summary(self) -> manifest.Statistics:
        """For the manifest: the same on every machine for the same stored pixels."""
        images, mean, std = self._images, *self._moments()
        return manifest.Statistics(
            images=images,
            bytes=manifest.TotalRange(*_range(self._bytes, images), self._bytes.total),
            formats=dict(self._formats),
            height=manifest.Range(*_range(self._height, images)),
            width=manifest.Range(*_range(self._width, images)),
            shorter_side=manifest.Histogram(SHORTER_SIDE_EDGES, self._shorter_side),
            aspect_ratio=manifest.Histogram(ASPECT_RATIO_EDGES, self._aspect_ratio),
            pixels=0 if self._histogram is None else int(self._histogram[0].sum()),
            mean=mean,
            std=std,
        )

    def _moments(self) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
        if self._histogram is None:
            return None, None
        means, stds = list[float](), list[float]()
        # Python's integers do not overflow, and it rounds their quotient correctly.
        for counts in self._histogram.tolist():
            pixels = sum(counts)
            first = sum(level * count for level, count in enumerate(counts))
            second = sum(level * level * count for level, count in enumerate(counts))
            means.append(round(first / pixels, _DECIMALS))
            variance = (pixels * second - first * first) / (pixels * pixels)
            stds.append(round(math.sqrt(variance), _DECIMALS))
        return tuple(means), tuple(stds)

    def counted(self) -> Counted:
        """Everything counted, for commit records; equal counts give equal values."""
        histogram, sums = self._histogram, self._sums
        return Counted(
            images=self._images,
            bytes=self._bytes,
            height=self._height,
            width=self._width,
            formats=dict(self._formats),
            shorter_side=self._shorter_side,
            aspect_ratio=self._aspect_ratio,
            histogram=None if histogram is None else tuple(map(tuple, histogram.tolist())),
            sums=None if sums is None else _packed(sums, self._images),
        )

    @classmethod
    def of(cls, counted: Counted) -> Statistics:
        """The inverse of `counted`."""
        histogram, sums = counted.histogram, counted.sums
        return cls(
            counted.images,
            counted.bytes,
            counted.height,
            counted.width,
            Counter(counted.formats),
            counted.shorter_side,
            counted.aspect_ratio,
            None if histogram is None else np.array(histogram, np.int64),
            None if sums is None else _unpacked(sums),
        )


def _binned(value: int, edges: Sequence[int]) -> tuple[int, ...]:
    place = bisect_right(edges, value)
    return tuple(int(number == place) for number in range(len(edges) + 1))


def _added(mine: Sum, theirs: Sum) -> Sum:
    smallest = min((end for end in (mine.min, theirs.min) if end is not None), default=None)
    largest = max((end for end in (mine.max, theirs.max) if end is not None), default=None)
    return Sum(mine.total + theirs.total, smallest, largest)


def _range(found: Sum, images: int) -> tuple[int | None, float | None, int | None]:
    """Smallest, mean and largest."""
    return found.min, round(found.total / images, _DECIMALS) if images else None, found.max


def _sum(
    mine: NDArray[Count] | None, theirs: NDArray[Any] | None, kind: type[Count]
) -> NDArray[Count] | None:
    if theirs is None:
        return mine
    if mine is None:
        return theirs.astype(kind)
    mine += theirs
    return mine


def _packed(sums: NDArray[np.uint64], images: int) -> Levels:
    return Levels(images, sums.shape, zlib.compress(sums.astype(_SUM).tobytes()))


def _unpacked(levels: Levels) -> NDArray[np.uint64]:
    plain = zlib.decompress(levels.zlib)
    return np.frombuffer(plain, _SUM).reshape(levels.shape).astype(np.uint64)
