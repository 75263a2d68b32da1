"""Pictures that look a little like chest radiographs from the front, computed from a seed.

Dark lungs with ribs between a bright middle and the chest wall, and the grain of the detector:
PNG sizes and decode times follow from smooth shapes plus grain, so that a test on such pictures
tells something about real ones. Each finding leaves a shadow, round which a box can be drawn.

The same numpy version on the same kind of processor gives the same pixels.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from dataprep.synthesize.files import keyed_seed

Plane = NDArray[np.float32]

# Deviation of the grain, of white; set by the size of the files: real ones have 400 KB.
_GRAIN = 0.0065


def radiograph(seed: int, size: int, findings: Iterable[str] = ()) -> NDArray[np.uint8]:
    """Draw one picture.

    Args:
        seed: any non-negative integer.
        size: pixels a side.
        findings: each leaves its shadow in its `lesion_box`.

    Returns:
        Grey levels, (size, size).
    """
    rng = np.random.default_rng(seed)
    right, down, heart, phase, brightness = rng.normal(size=5)
    centres = ((np.arange(size) + 0.5) * 2 / size - 1).astype(np.float32)
    x, y = centres - 0.04 * right, centres[:, np.newaxis] - 0.05 * down
    out = np.abs(x)
    body = _step(0.95 - out) * _step(y + 1.0 - 0.3 * _step(out - 0.5))
    grey = 0.04 + body * (0.62 + 0.12 * y - 0.2 * out**2)
    lungs = _step(1 - ((out - 0.37) / 0.28) ** 2 - ((y + 0.06) / 0.62) ** 2)
    ribs = 0.05 * np.cos((y - 0.4 * out**2) * (2 * np.pi / 0.175) + phase)
    grey += lungs * (0.2 + ribs - grey)
    bulge = _step(1 - ((x - 0.12) / (0.3 + 0.02 * heart)) ** 2 - ((y - 0.2) / 0.36) ** 2)
    grey += np.maximum(_step(0.14 - out), bulge) * (0.76 - grey)
    for finding in findings:
        left, top, side = _lesion(seed, finding)
        near = ((centres - left) ** 2 + (centres[:, np.newaxis] - top) ** 2) / side**2
        grey += 0.3 * np.clip(1 - 4 * near, 0, 1) * (1 - grey)
    grey += 0.02 * brightness + _GRAIN * rng.standard_normal((size, size), np.float32)
    levels: NDArray[np.uint8] = np.clip(grey * 255 + 0.5, 0, 255).astype(np.uint8)
    return levels


def lesion_box(seed: int, finding: str) -> tuple[float, float, float, float]:
    """Left, top, width and height of a finding's shadow; 1 is the side of the picture."""
    x, y, side = _lesion(seed, finding)
    return (x + 1 - side / 2) / 2, (y + 1 - side / 2) / 2, side / 2, side / 2


def _lesion(seed: int, finding: str) -> tuple[float, float, float]:
    """Centre and diameter of a finding's shadow in a lung; the picture goes from -1 to 1."""
    rng = np.random.default_rng(keyed_seed("lesion", seed, finding))
    x, y, side = rng.uniform((0.3, -0.4, 0.1), (0.5, 0.3, 0.5))
    return float(x * rng.choice((-1, 1))), float(y), float(side)


def _step(plane: Plane) -> Plane:
    """From 0 to 1 where the plane rises through 0, over a tenth."""
    return (plane * 10 + 0.5).clip(0, 1)
