"""What a data set's images are like: sizes, formats, and the mean and spread of their pixels.

Everything is counted in whole numbers, so shards that were counted apart, in any order and on
any machine, add up to exactly what one pass over all images would have found. Only `summary`
divides, and it does so from exact integers.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from operator import add
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dataprep.images.pixels import Pixels
from dataprep_schemas import manifest
from dataprep_schemas.state import Counted, Sum

# In pixels. Bin 0 is below the first edge, bin i from edge i - 1 to below edge i, and the last from
# the last edge on.
SHORTER_SIDE_EDGES: Final = (32, 64, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096)
# Width / height; bins as above. They lie between the shapes that cameras make (1:2 and 9:16, 2:3,
# 3:4, 1:1, 4:3, 3:2, 16:9 and 2:1), so that rounding to whole pixels moves none of those.
ASPECT_RATIO_EDGES: Final = (0.4, 0.6, 0.7, 0.85, 0.95, 1.05, 1.2, 1.4, 1.6, 2.5)

# The same edges as integers: binning must not depend on a division.
_HUNDREDTHS = tuple(round(100 * edge) for edge in ASPECT_RATIO_EDGES)
_LEVELS = 256
_DECIMALS = 6


@dataclass(slots=True, eq=False)
class Measured:
    """What one stored image adds to the statistics; made in the thread that prepared it."""

    bytes: int
    format: str  # ``JPEG``, ``PNG`` or ``RAW``
    height: int  # in pixels, as stored
    width: int  # likewise
    # (channels, 256): pixels by level, in RGB order; None unless the recipe decodes every image.
    histogram: NDArray[np.int64] | None = None


def histogram_of(pixels: Pixels, channels: int) -> NDArray[np.int64]:
    """Count pixels by level: int64, (channels, 256).

    Args:
        pixels: uint8, (height, width) or (height, width, 3).
        channels: 1 or 3; grey counts alike in all three, since that is what readers decode it to.
    """
    counted = np.array(Image.fromarray(pixels).histogram(), np.int64).reshape(-1, _LEVELS)
    return np.broadcast_to(counted, (channels, _LEVELS))


class Statistics:
    """A running count over images, one by one or a shard at a time; exact in any order."""

    def __init__(self) -> None:
        self._counted = _NOTHING  # but for the pixels, which are added up here:
        self._histogram: NDArray[np.int64] | None = None

    def add(self, measured: Measured) -> None:
        """Count one image."""
        height, width = measured.height, measured.width
        sizes = tuple(Sum(size, size, size) for size in (measured.bytes, height, width))
        bins = (
            _binned(min(height, width), SHORTER_SIDE_EDGES),
            # floor(100 w / h) reaches a whole edge exactly when 100 w / h does.
            _binned(100 * width // height, _HUNDREDTHS),
        )
        one = Counted(1, {measured.format: 1}, sizes, *bins)
        self._include(one, measured.histogram)

    def merge(self, counted: Counted) -> None:
        """Count the images of a shard, as its commit record says."""
        histogram = counted.histogram
        self._include(counted, None if histogram is None else np.array(histogram, np.int64))

    def _include(self, counted: Counted, histogram: NDArray[np.int64] | None) -> None:
        if self._histogram is None:
            self._histogram = None if histogram is None else histogram.copy()
        elif histogram is not None:
            self._histogram += histogram
        if (mine := self._counted).images:
            counted = Counted(
                mine.images + counted.images,
                dict(Counter(mine.formats) + Counter(counted.formats)),
                tuple(map(_added, mine.sizes, counted.sizes)),
                tuple(map(add, mine.shorter_side, counted.shorter_side)),
                tuple(map(add, mine.aspect_ratio, counted.aspect_ratio)),
            )
        self._counted = counted

    def counted(self) -> Counted:
        """Everything counted, for commit records; equal counts give equal values."""
        if self._histogram is None:
            return self._counted
        levels = tuple(map(tuple, self._histogram.tolist()))
        return msgspec.structs.replace(self._counted, histogram=levels)

    def summary(self) -> manifest.Statistics:
        """For the manifest: the same on every machine for the same stored pixels."""
        counted = self._counted
        ranges = [
            (size.min, round(size.total / counted.images, _DECIMALS), size.max)
            for size in counted.sizes
        ]
        means, stds = list[float](), list[float]()
        # Python's integers do not overflow, and it rounds their quotient correctly.
        histogram = [] if self._histogram is None else self._histogram.tolist()
        for counts in histogram:
            pixels = sum(counts)
            first = sum(level * count for level, count in enumerate(counts))
            second = sum(level * level * count for level, count in enumerate(counts))
            means.append(round(first / pixels, _DECIMALS))
            variance = (pixels * second - first * first) / (pixels * pixels)
            stds.append(round(math.sqrt(variance), _DECIMALS))
        return manifest.Statistics(
            images=counted.images,
            bytes=manifest.TotalRange(*ranges[0], counted.sizes[0].total),
            formats=counted.formats,
            height=manifest.Range(*ranges[1]),
            width=manifest.Range(*ranges[2]),
            shorter_side=manifest.Histogram(SHORTER_SIDE_EDGES, counted.shorter_side),
            aspect_ratio=manifest.Histogram(ASPECT_RATIO_EDGES, counted.aspect_ratio),
            pixels=sum(histogram[0]) if histogram else 0,
            mean=tuple(means) or None,
            std=tuple(stds) or None,
        )


_NOTHING: Final = Counted(0, {}, (), (), ())


def _binned(value: int, edges: Sequence[int]) -> tuple[int, ...]:
    place = bisect_right(edges, value)
    return tuple(int(number == place) for number in range(len(edges) + 1))


def _added(mine: Sum, theirs: Sum) -> Sum:
    return Sum(mine.total + theirs.total, min(mine.min, theirs.min), max(mine.max, theirs.max))
