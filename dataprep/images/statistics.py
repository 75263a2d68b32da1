"""What a data set's images are like: sizes, formats, and the mean and spread of their pixels.

Everything is counted in whole numbers, so shards that were counted apart, in any order and on
any machine, add up to exactly what one pass over all images would have found. Only `summary`
divides, and it does so from exact integers.
"""

from __future__ import annotations

import base64
import math
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dataprep.errors import SinkError
from dataprep.images.pixels import Pixels
from dataprep.images.recipe import JSON

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
# Pinned, though these bytes never reach a manifest or a hash.
_ZLIB_LEVEL = 6
_SUM = np.dtype("<u8")
_DAMAGE = (KeyError, TypeError, AttributeError, ValueError, OverflowError, zlib.error)


@dataclass(frozen=True, slots=True, eq=False)
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
class _Range:
    """Smallest, largest and sum of whole numbers."""

    total: int = 0
    min: int | None = None
    max: int | None = None

    def add(self, total: int, smallest: int | None, largest: int | None) -> None:
        self.total += total
        if smallest is not None:
            self.min = smallest if self.min is None else min(self.min, smallest)
        if largest is not None:
            self.max = largest if self.max is None else max(self.max, largest)

    def to_json(self) -> dict[str, JSON]:
        return {"total": self.total, "min": self.min, "max": self.max}

    def summary(self, images: int) -> dict[str, JSON]:
        mean = round(self.total / images, _DECIMALS) if images else None
        return {"min": self.min, "mean": mean, "max": self.max}


@dataclass(slots=True)
class Statistics:
    """A running count over images; `merge` is associative, commutative and exact."""

    _images: int = 0
    _bytes: _Range = field(default_factory=_Range)
    _height: _Range = field(default_factory=_Range)
    _width: _Range = field(default_factory=_Range)
    _formats: Counter[str] = field(default_factory=Counter)
    _shorter_side: list[int] = field(default_factory=lambda: [0] * (len(SHORTER_SIDE_EDGES) + 1))
    _aspect_ratio: list[int] = field(default_factory=lambda: [0] * (len(ASPECT_RATIO_EDGES) + 1))
    _histogram: NDArray[np.int64] | None = None
    _sums: NDArray[np.uint64] | None = None  # over the images whose pixels were given
    _summed: int = 0

    def add(self, measured: Measured) -> None:
        """Count one image; nothing is counted if it is refused.

        Raises:
            SinkError: the mean image is wanted, and this image has another size than the others;
                or it has another number of channels.
        """
        height, width = measured.height, measured.width
        self._add_pixels(measured.histogram, measured.pixels, int(measured.pixels is not None))
        self._images += 1
        self._bytes.add(measured.bytes, measured.bytes, measured.bytes)
        self._height.add(height, height, height)
        self._width.add(width, width, width)
        self._formats[measured.format] += 1
        self._shorter_side[bisect_right(SHORTER_SIDE_EDGES, min(height, width))] += 1
        # floor(100 w / h) reaches a whole edge exactly when 100 w / h does.
        self._aspect_ratio[bisect_right(_HUNDREDTHS, 100 * width // height)] += 1

    def merge(self, other: Statistics) -> None:
        """Add everything that ``other`` counted; it stays as it is.

        Raises:
            SinkError: the mean image is wanted, and the images have different sizes; or one
                counted grey and the other RGB.
        """
        self._add_pixels(other._histogram, other._sums, other._summed)
        self._images += other._images
        for mine, theirs in (
            (self._bytes, other._bytes),
            (self._height, other._height),
            (self._width, other._width),
        ):
            mine.add(theirs.total, theirs.min, theirs.max)
        self._formats.update(other._formats)
        self._shorter_side = _added(self._shorter_side, other._shorter_side)
        self._aspect_ratio = _added(self._aspect_ratio, other._aspect_ratio)

    def _add_pixels(
        self,
        histogram: NDArray[np.int64] | None,
        sums: Pixels | NDArray[np.uint64] | None,
        summed: int,
    ) -> None:
        if sums is not None and self._sums is not None and sums.shape != self._sums.shape:
            found, expected = (f"{array.shape[0]}x{array.shape[1]}" for array in (sums, self._sums))
            raise SinkError(
                f"the mean image needs one fixed size: found {found} (height x width), "
                f"expected {expected}; add --resize WIDTHxHEIGHT or --center_crop"
            )
        if histogram is not None:
            if self._histogram is None:
                self._histogram = np.zeros(histogram.shape, np.int64)
            if len(histogram) != len(self._histogram):
                raise SinkError(
                    f"the statistics of {len(histogram)} colour channels cannot be added to "
                    f"those of {len(self._histogram)}; they are of different data sets"
                )
            self._histogram += histogram
        if sums is not None:
            if self._sums is None:
                self._sums = np.zeros(sums.shape, np.uint64)
            self._sums += sums
            self._summed += summed

    def mean_image(self) -> NDArray[np.float64] | None:
        """The mean of every pixel, 0 to 255: float64, (height, width, channels), RGB order.

        None unless the recipe's statistics are ``mean`` and every image is decoded.
        """
        if self._sums is None:
            return None
        return self._sums.astype(np.float64) / self._summed

    def summary(self) -> dict[str, JSON]:
        """For the manifest: the same on every machine for the same stored pixels.

        Bytes and pixels of the stored images; `SHORTER_SIDE_EDGES` and `ASPECT_RATIO_EDGES` are
        given with the counts. ``mean`` and ``std`` (of the population) are 0 to 255, one number
        a channel in RGB order, over ``pixels`` pixels; null if none were decoded.
        """
        mean, std = self._moments()
        return {
            "images": self._images,
            "bytes": {"total": self._bytes.total, **self._bytes.summary(self._images)},
            "formats": dict(sorted(self._formats.items())),
            "height": self._height.summary(self._images),
            "width": self._width.summary(self._images),
            "shorter_side": {
                "edges": list(SHORTER_SIDE_EDGES),
                "images": list(self._shorter_side),
            },
            "aspect_ratio": {
                "edges": list(ASPECT_RATIO_EDGES),
                "images": list(self._aspect_ratio),
            },
            "pixels": 0 if self._histogram is None else int(self._histogram[0].sum()),
            "mean": mean,
            "std": std,
        }

    def _moments(self) -> tuple[list[JSON] | None, list[JSON] | None]:
        if self._histogram is None:
            return None, None
        means: list[JSON] = []
        stds: list[JSON] = []
        # Python's integers do not overflow, and it rounds their quotient correctly.
        for counts in self._histogram.tolist():
            pixels = sum(counts)
            first = sum(level * count for level, count in enumerate(counts))
            second = sum(level * level * count for level, count in enumerate(counts))
            means.append(round(first / pixels, _DECIMALS))
            variance = (pixels * second - first * first) / (pixels * pixels)
            stds.append(round(math.sqrt(variance), _DECIMALS))
        return means, stds

    def to_json(self) -> dict[str, JSON]:
        """Everything counted, for commit records; equal counts give equal values."""
        return {
            "images": self._images,
            "bytes": self._bytes.to_json(),
            "height": self._height.to_json(),
            "width": self._width.to_json(),
            "formats": dict(sorted(self._formats.items())),
            "shorter_side": list(self._shorter_side),
            "aspect_ratio": list(self._aspect_ratio),
            "histogram": None if self._histogram is None else self._histogram.tolist(),
            "sums": None if self._sums is None else _pack(self._sums, self._summed),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Statistics:
        """Read back what `to_json` gave.

        Raises:
            SinkError: the value is not one of `to_json`'s.
        """
        try:
            sums, summed = (None, 0) if value["sums"] is None else _unpack(value["sums"])
            return cls(
                _images=int(value["images"]),
                _bytes=_range(value["bytes"]),
                _height=_range(value["height"]),
                _width=_range(value["width"]),
                _formats=Counter({str(name): int(n) for name, n in value["formats"].items()}),
                _shorter_side=_bins(value["shorter_side"], len(SHORTER_SIDE_EDGES) + 1),
                _aspect_ratio=_bins(value["aspect_ratio"], len(ASPECT_RATIO_EDGES) + 1),
                _histogram=_levels(value["histogram"]),
                _sums=sums,
                _summed=summed,
            )
        except _DAMAGE as error:
            raise SinkError(
                f"the recorded image statistics are damaged: {type(error).__name__}: {error}; "
                "expected what this version of dataprep writes; make the shard again"
            ) from error


def _range(value: Mapping[str, Any]) -> _Range:
    smallest, largest = (None if value[end] is None else int(value[end]) for end in ("min", "max"))
    return _Range(int(value["total"]), smallest, largest)


def _added(mine: list[int], theirs: list[int]) -> list[int]:
    return [a + b for a, b in zip(mine, theirs, strict=True)]


def _bins(counts: list[int], number: int) -> list[int]:
    if len(counts) != number:
        raise ValueError(f"{len(counts)} bins, expected {number}")
    return [int(count) for count in counts]


def _levels(counts: list[list[int]] | None) -> NDArray[np.int64] | None:
    if counts is None:
        return None
    levels = np.array(counts, np.int64)
    if levels.shape not in ((1, _LEVELS), (3, _LEVELS)):
        raise ValueError(f"a histogram of shape {levels.shape}, expected 1 or 3 x {_LEVELS}")
    if levels.min() < 0 or not levels.any(axis=1).all():
        raise ValueError("a histogram of no pixels")
    return levels


def _pack(sums: NDArray[np.uint64], images: int) -> dict[str, JSON]:
    packed = zlib.compress(sums.astype(_SUM).tobytes(), _ZLIB_LEVEL)
    shape: list[JSON] = [int(side) for side in sums.shape]
    return {"images": images, "shape": shape, "zlib": base64.b64encode(packed).decode("ascii")}


def _unpack(value: Mapping[str, Any]) -> tuple[NDArray[np.uint64], int]:
    height, width, channels = (int(side) for side in value["shape"])
    size = height * width * channels * _SUM.itemsize
    plain = zlib.decompressobj().decompress(base64.b64decode(value["zlib"]), size + 1)
    sums = np.frombuffer(plain, _SUM).reshape(height, width, channels)
    images = int(value["images"])
    if images < 1:
        raise ValueError(f"sums over {images} images")
    return sums.astype(np.uint64), images
