"""How near does each filter come to the ideal reduction, in how much time?

Decoded photographs to a shorter side of 256 pixels, one thread, beside Pillow's filters, which made
them before, and the bilinear of OpenCV that ``im2rec.py`` takes: it reads four pixels for each new
one, and so aliases. The ideal is the band-limited reduction: of a picture's cosine transform, the
low frequencies that the smaller one has. Decibels (PSNR) are of the mean squared error of all.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, get_args

import numpy as np
from PIL import Image

from benchmarks import raw_set
from benchmarks.results import Row
from benchmarks.setting import CannotRunError, Setting
from dataprep.images import Resize, codecs, pixels
from dataprep.images.recipe import Filter

_SIDE = 256
_OLD = ("box", "bilinear", "hamming", "bicubic", "lanczos")
_ALIASED = "im2rec's bilinear"
_DEFAULT = "bicubic"

# Height and width in pixels of what is made, as Pillow orders them: width first.
Scale = Callable[[Any, tuple[int, int]], Any]


@dataclass
class _Measured:
    """One filter: milliseconds an image in each round, and how near it came."""

    times: list[float] = field(default_factory=list)
    decibels: float = 0

    def __str__(self) -> str:
        return f"{median(self.times):.2f} ms, {self.decibels:.1f} dB"


def measure(setting: Setting) -> list[Row]:
    """Every filter beside Pillow's of that name, and the default beside the others."""
    raw = raw_set.tree(setting, setting.size(400, 40))
    found = [codecs.fast_decode(path.read_bytes(), "RGB") for path in raw_set.files(raw)]
    found = [picture for picture in found if min(picture.shape[:2]) > _SIDE]
    if not found:
        raise CannotRunError(f"--images: none is larger than {_SIDE} pixels")
    sizes = [pixels.target_size(it.shape[1], it.shape[0], Resize(_SIDE)) for it in found]
    ideals = [_ideal(picture, size) for picture, size in zip(found, sizes, strict=True)]
    plain = [pixels.packed(picture) for picture in found]
    ours = {name: _ours(name) for name in get_args(Filter)}
    theirs = {**{f"Pillow's {name}": _pillow(name) for name in _OLD}, _ALIASED: _aliased}
    measured: Mapping[str, _Measured] = {name: _Measured() for name in (*ours, *theirs)}
    for number in range(setting.repeat):
        setting.say(f"filters: {number + 1} of {setting.repeat}")
        for pictures, scales in ((found, ours), (plain, theirs)):
            for name, scale in scales.items():
                start = time.thread_time()
                made = [scale(*pair) for pair in zip(pictures, sizes, strict=True)]
                measured[name].times.append(1000 * (time.thread_time() - start) / len(made))
                measured[name].decibels = _decibels(made, ideals)
    return _rows(measured, list(ours), len(found))


def _rows(measured: Mapping[str, _Measured], ours: Sequence[str], images: int) -> list[Row]:
    pairs = [(name, f"Pillow's {name}") for name in ours]
    rows = []
    for name, other in [*pairs, (_DEFAULT, "Pillow's hamming"), (_DEFAULT, _ALIASED)]:
        mine, what = measured[name], f"{images} photographs to {_SIDE}, {name}"
        if other == _ALIASED:  # ours is slow on purpose: only its pixels matter
            rows.append(
                Row(f"{what}, against {other}", str(mine), f"{measured[other].decibels:.1f} dB")
            )
        elif other in measured:
            ratios = tuple(b / a for a, b in zip(mine.times, measured[other].times, strict=True))
            rows.append(
                Row(f"{what}, against {other}; speed", str(mine), str(measured[other]), ratios)
            )
        else:
            rows.append(Row(what, str(mine)))
    return rows


def _ours(name: Filter) -> Scale:
    return lambda picture, size: pixels.resized(picture, size, name)


def _pillow(name: str) -> Scale:
    kind = Image.Resampling[name.upper()]
    return lambda picture, size: np.asarray(Image.fromarray(picture).resize(size, kind))


def _aliased(picture: Any, size: tuple[int, int]) -> Any:
    """OpenCV's INTER_LINEAR, rounded once."""
    found = picture.astype(np.float32)
    for axis, new in enumerate(reversed(size)):
        length = found.shape[axis]
        at = ((np.arange(new) + 0.5) * (length / new) - 0.5).clip(0, length - 1)
        low = np.minimum(at.astype(int), max(length - 2, 0))
        share = (at - low).astype(np.float32).reshape([-1 if it == axis else 1 for it in range(3)])
        found = found.take(low, axis) * (1 - share) + found.take(low + 1, axis) * share
    return (found + 0.5).astype(np.uint8)


def _ideal(picture: Any, size: tuple[int, int]) -> Any:
    across, down = (_lowpass(old, new) for old, new in zip(picture.shape[1::-1], size, strict=True))
    made = np.einsum("ih,hwc,jw->ijc", down, picture.astype(float), across, optimize=True)
    return made.clip(0, 255).astype(np.float32)


def _lowpass(old: int, new: int) -> Any:
    """(new, old): the cosine transform of `old` samples, cut at `new`, and back."""
    return _cosines(new).T @ _cosines(old)[:new] * math.sqrt(new / old)


def _cosines(length: int) -> Any:
    """The orthonormal DCT-II as a matrix."""
    angles = np.outer(np.arange(length), 2 * np.arange(length) + 1) * (math.pi / (2 * length))
    found = np.cos(angles) * math.sqrt(2 / length)
    found[0] /= math.sqrt(2)
    return found


def _decibels(made: Sequence[Any], ideals: Sequence[Any]) -> float:
    errors = [np.mean((a - b) ** 2, dtype=float) for a, b in zip(made, ideals, strict=True)]
    return 10 * math.log10(255**2 / (sum(errors) / len(errors)))
