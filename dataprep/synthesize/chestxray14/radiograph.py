"""Pictures that look like chest radiographs from the front, computed from a seed.

Dark lungs between a bright mediastinum and the chest wall, domes of the diaphragm, a heart,
a spine, ribs in front and behind, collar bones, vessels that fade outwards and the grain of
the detector. PNG sizes and decode times follow from smooth shapes plus grain, so that a
test on such pictures tells something about real ones. A picture is a function of its seed,
its size and, a little, of the findings: each leaves a shadow where `lesion` says.

The same numpy and Pillow versions on the same kind of processor give the same pixels;
others may differ by a grey level here and there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Plane = NDArray[np.float32]

# Finding: (radius of its shadow in half pictures, what it adds to the grey, of 1).
_SHADOWS: dict[str, tuple[float, float]] = {
    "Atelectasis": (0.14, 0.16),
    "Cardiomegaly": (0.34, 0.10),
    "Consolidation": (0.20, 0.26),
    "Edema": (0.30, 0.14),
    "Effusion": (0.22, 0.34),
    "Emphysema": (0.30, -0.10),
    "Fibrosis": (0.18, 0.12),
    "Hernia": (0.12, 0.18),
    "Infiltration": (0.20, 0.16),
    "Mass": (0.12, 0.34),
    "Nodule": (0.05, 0.34),
    "Pleural_Thickening": (0.10, 0.20),
    "Pneumonia": (0.22, 0.24),
    "Pneumothorax": (0.20, -0.14),
}
FINDINGS = tuple(_SHADOWS)  # in alphabetical order

# Level of the grain at 1024 pixels, set by the size of the files: real ones have 400 KB.
_GRAIN = 0.0051
_COARSEST = 8  # pixels a side of the largest structures of the texture


@dataclass(frozen=True)
class Lesion:
    """Where a finding shows.

    Args:
        x: its centre, from -1 at the left of the picture to 1 at the right.
        y: its centre, from -1 at the top to 1 at the bottom.
        radius: of its shadow, where 1 is half a picture.
        strength: what it adds to the grey, where 1 is white.
    """

    x: float
    y: float
    radius: float
    strength: float


@dataclass(frozen=True)
class _Grid:
    """Coordinates of the pixel centres, -1 to 1, as a row and as a column."""

    x: Plane
    y: Plane


@dataclass(frozen=True)
class _Pose:
    """What differs between chests, drawn from the seed."""

    shift: tuple[float, float]
    scale: float
    tilt: float
    heart: float
    domes: tuple[float, float]
    rib_phase: float
    rib_spacing: float
    brightness: float
    contrast: float


def lesion(seed: int, finding: str) -> Lesion:
    """Where a finding shows in the picture of a seed.

    Args:
        seed: the picture's.
        finding: one of `FINDINGS`.

    Returns:
        A place in one of the lungs; that of Cardiomegaly and Hernia is the heart's.
    """
    radius, strength = _SHADOWS[finding]
    if finding in ("Cardiomegaly", "Hernia"):
        return Lesion(0.12, 0.2, radius, strength)
    # Not from a generator: making one costs as much as drawing a small picture.
    bits = (seed ^ (0x9E3779B97F4A7C15 * (1 + FINDINGS.index(finding)))) >> 7
    across, down = (bits & 0xFFFF) / 0xFFFF, (bits >> 16 & 0xFFFF) / 0xFFFF
    side = -1.0 if bits >> 32 & 1 else 1.0
    height = 0.25 if finding == "Effusion" else -0.45 + 0.7 * down
    return Lesion(side * (0.34 + 0.16 * across), height, radius, strength)


def lesion_box(seed: int, finding: str) -> tuple[float, float, float, float]:
    """The box around a finding in the picture of a seed.

    Args:
        seed: the picture's.
        finding: one of `FINDINGS`.

    Returns:
        Left, top, width and height, where 1 is the side of the picture.
    """
    shadow, pose = lesion(seed, finding), _pose(_generator(seed))
    reach = shadow.radius * pose.scale
    left = shadow.x * pose.scale + pose.shift[0] - reach
    top = shadow.y * pose.scale + pose.shift[1] - reach
    return (left + 1) / 2, (top + 1) / 2, reach, reach


def radiograph(seed: int, size: int, findings: Sequence[str] = ()) -> NDArray[np.uint8]:
    """Draw one picture.

    Args:
        seed: any non-negative integer.
        size: pixels a side.
        findings: of `FINDINGS`, each of which leaves its shadow.

    Returns:
        Grey levels, size x size.
    """
    rng = _generator(seed)
    grid, pose = _grid(size), _pose(rng)
    x = (grid.x - np.float32(pose.shift[0])) / np.float32(pose.scale)
    y = (grid.y - np.float32(pose.shift[1])) / np.float32(pose.scale)
    # A small turn is a shear in both directions, and a shear needs one product only.
    u, v = x + np.float32(pose.tilt) * y, y - np.float32(pose.tilt) * x
    texture = _texture(rng, size)
    out = np.abs(u)
    lung = _lungs(u, v, out, pose)
    grey = _body(out, v)
    inside = np.float32(0.16) + _ribs(out, v, pose) + texture * (np.float32(0.075) - out * 0.05)
    grey += lung * (inside - grey)
    grey += _middle(u, v, out, pose) * np.maximum(np.float32(0.76) - grey, np.float32(-0.02))
    grey += _collar_bones(out, v)
    for finding in findings:
        _shade(grey, u, v, lesion(seed, finding))
    return _develop(rng, grey, texture, pose, size)


def _generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


@lru_cache(maxsize=4)
def _grid(size: int) -> _Grid:
    centres = ((np.arange(size, dtype=np.float32) + np.float32(0.5)) * 2 / size - 1).astype(
        np.float32
    )
    centres.setflags(write=False)
    return _Grid(centres[None, :], centres[:, None])


def _pose(rng: np.random.Generator) -> _Pose:
    draws = rng.standard_normal(10).tolist()
    return _Pose(
        shift=(0.04 * draws[0], 0.05 * draws[1]),
        scale=1.0 + 0.05 * max(-2.0, min(draws[2], 2.0)),
        tilt=0.025 * draws[3],
        heart=0.31 + 0.025 * draws[4],
        domes=(0.36 + 0.04 * draws[5], 0.42 + 0.04 * draws[6]),
        rib_phase=draws[7],
        rib_spacing=0.175 + 0.008 * max(-2.0, min(draws[8], 2.0)),
        brightness=0.02 * draws[9],
        contrast=1.0 + 0.06 * draws[5],
    )


def _texture(rng: np.random.Generator, size: int) -> Plane:
    """Noise of all scales whose amplitude falls with the frequency, as vessels have it."""
    texture = np.zeros((size, size), dtype=np.float32)
    side, amplitude = min(_COARSEST, size), 1.0
    while side <= size and side <= 512:
        noise = rng.standard_normal((side, side), dtype=np.float32) * np.float32(amplitude)
        layer = Image.fromarray(noise)
        texture += np.asarray(layer.resize((size, size), Image.Resampling.BICUBIC))
        side, amplitude = side * 2, amplitude * 0.62
    return texture


def _step(plane: Plane, softness: float) -> Plane:
    """From 0 to 1 where the plane rises through 0, over so wide a range."""
    ramp = np.clip(plane * np.float32(1 / softness) + np.float32(0.5), 0, 1)
    smooth: Plane = ramp * ramp * (3 - 2 * ramp)
    return smooth


def _lungs(u: Plane, v: Plane, out: Plane, pose: _Pose) -> Plane:
    """The air-filled part: two ovals, wider below, cut by the domes of the diaphragm."""
    across = (out - (np.float32(0.36) + np.float32(0.09) * v)) / (
        np.float32(0.285) + np.float32(0.075) * v
    )
    along = (v + np.float32(0.06)) * np.float32(1 / 0.68)
    along *= along
    oval = _step(1 - across * across - along * along, 0.22)
    dome = np.where(u < 0, np.float32(pose.domes[0]), np.float32(pose.domes[1]))
    bend = (out - np.float32(0.36)) * np.float32(1.9)
    lungs: Plane = oval * _step(dome + np.float32(0.55) * bend * bend - v, 0.05)
    return lungs


def _body(out: Plane, v: Plane) -> Plane:
    """Soft tissue: bright below the diaphragm, thin towards the sides, air beyond."""
    bright = np.float32(0.62) + np.float32(0.2) * _step(v - np.float32(0.3), 0.8)
    bright = bright - np.float32(0.26) * out * out
    # The shoulders fall away from the neck; below the arms the flanks end.
    slope = np.float32(0.3) * _step(out - np.float32(0.4), 0.7)
    shoulder = _step(v + np.float32(0.99) - slope, 0.16)
    neck = _step(np.float32(0.24) - out, 0.1)
    flank = _step(
        np.float32(0.9) + np.float32(0.22) * _step(-v, 0.9) - np.float32(0.05) * v - out, 0.07
    )
    body: Plane = np.float32(0.035) + bright * np.maximum(shoulder, neck) * flank
    return body


def _ribs(out: Plane, v: Plane, pose: _Pose) -> Plane:
    """Bands that fall outwards behind, and fainter ones that fall inwards in front."""
    turns = np.float32(2 * np.pi / pose.rib_spacing)
    fall = out * (np.float32(0.1) + np.float32(0.55) * out)
    behind = np.cos((v - fall) * turns + np.float32(pose.rib_phase))
    front = np.cos(
        (v + np.float32(0.75) * out) * (turns * np.float32(0.8)) - np.float32(pose.rib_phase)
    )
    ribs: Plane = np.float32(0.085) * _step(behind - np.float32(0.45), 0.4)
    ribs += np.float32(0.04) * _step(front - np.float32(0.3), 0.5)
    # The chest wall is thicker seen along its surface.
    ribs += np.float32(0.2) * out * out
    return ribs


def _middle(u: Plane, v: Plane, out: Plane, pose: _Pose) -> Plane:
    """Spine, great vessels and heart, as one shadow; the windpipe is spared."""
    width = np.float32(0.12) + np.float32(0.05) * _step(v + np.float32(0.2), 0.5)
    column = _step(width - out, 0.1)
    windpipe = _step(np.float32(0.055) - out, 0.05) * _step(np.float32(-0.3) - v, 0.3)
    bones = np.cos(v * np.float32(38)) * np.float32(0.04)
    column = column * (np.float32(0.86) + bones) - np.float32(0.2) * windpipe
    # An oval whose lower end points to the right of the picture, the patient's left.
    right = (u - np.float32(0.12) - np.float32(0.5) * (v - np.float32(0.18))) * np.float32(
        1 / pose.heart
    )
    down = (v - np.float32(0.18)) * np.float32(1 / 0.36)
    heart = _step(1 - right * right - down * down, 0.55)
    knob = _step(1 - ((u - np.float32(0.1)) ** 2 + (v + np.float32(0.3)) ** 2) * 90, 0.9)
    # Shadows cross each other like veils do; edges of hidden parts do not show.
    middle: Plane = 1 - (1 - np.clip(column, 0, 1)) * (1 - heart) * (1 - np.float32(0.8) * knob)
    return middle


def _collar_bones(out: Plane, v: Plane) -> Plane:
    line = np.float32(-0.5) - np.float32(0.22) * (out - np.float32(0.12))
    line += np.float32(0.3) * (out - np.float32(0.45)) ** 2
    band = _step(np.float32(0.03) - np.abs(v - line), 0.025)
    ends = _step(out - np.float32(0.1), 0.08) * _step(np.float32(0.66) - out, 0.1)
    bones: Plane = np.float32(0.1) * band * ends
    return bones


def _shade(grey: Plane, u: Plane, v: Plane, shadow: Lesion) -> None:
    """Add one finding in place."""
    across = (u - np.float32(shadow.x)) * np.float32(1 / shadow.radius)
    down = (v - np.float32(shadow.y)) * np.float32(1 / shadow.radius)
    shape = _step(np.float32(0.7) - across * across - down * down, 1.2)
    # What is white already gets no whiter.
    grey += shape * (1 - grey) * np.float32(1.4 * shadow.strength)


def _develop(
    rng: np.random.Generator, grey: Plane, texture: Plane, pose: _Pose, size: int
) -> NDArray[np.uint8]:
    """Add what the detector adds, set brightness and contrast, and round to 8 bits."""
    grain = rng.standard_normal((size, size), dtype=np.float32)
    grey += grain * np.float32(_GRAIN) + texture * np.float32(0.006)
    grey = (grey - np.float32(0.45)) * np.float32(pose.contrast) + np.float32(
        0.45 + pose.brightness
    )
    _mark_side(grey, size)
    levels: NDArray[np.uint8] = np.clip(grey * np.float32(255) + np.float32(0.5), 0, 255).astype(
        np.uint8
    )
    return levels


def _mark_side(grey: Plane, size: int) -> None:
    """Put the letter L of lead into the corner, as radiographers do."""
    unit = size // 128
    if unit:
        top, left = 4 * unit, size - 10 * unit
        grey[top : top + 6 * unit, left : left + unit] = 0.97
        grey[top + 5 * unit : top + 6 * unit, left : left + 4 * unit] = 0.97
