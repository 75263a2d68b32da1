"""Pictures with the statistics of photographs, computed from a seed.

A photograph is not noise: neighbouring pixels agree, the amplitude of its spatial
frequencies falls like 1/f, objects occlude each other with sharp edges, some of them out
of focus, colour varies less and more slowly than brightness. JPEG sizes and decode times
follow from exactly these properties, so a benchmark or a test on such pictures tells
something about real ones, and flat or random pixels do not.

The model is "dead leaves" (occluding textured shapes, sizes by a power law) over a 1/f
background, lit by a smooth gradient. Everything depends on the seed and the look alone.
The same numpy and Pillow versions on the same kind of processor give the same pixels;
others may differ by a grey level here and there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Plane = NDArray[np.float32]

# (width, height, share). Flickr's 500-pixel long side dominates ImageNet; a free height
# (0) stands for the many odd crops in between.
_SIZES = (
    (500, 375, 0.36),
    (500, 333, 0.15),
    (375, 500, 0.12),
    (333, 500, 0.05),
    (500, 334, 0.04),
    (500, 0, 0.14),
    (600, 450, 0.03),
    (640, 480, 0.02),
    (800, 600, 0.02),
    (1024, 768, 0.010),
    (1600, 1200, 0.002),
    (320, 240, 0.018),
    (200, 150, 0.03),
    (128, 96, 0.01),
)
_SIZE_BOUNDS = np.cumsum([share for _, _, share in _SIZES])
_FAST_LENGTHS = np.unique([2**a * 3**b for a in range(4, 13) for b in range(5)])


@dataclass(frozen=True)
class Look:
    """What the pictures of one class have in common.

    Args:
        chroma: centre of the colours, as (Cb, Cr) offsets from grey.
        sides: corners of the shapes; 0 for ellipses.
        elongation: length of a shape over its width.
        angle: main direction of the shapes, radians.
        roughness: factor on the amount of fine texture.
        light: direction the light comes from, radians.
    """

    chroma: tuple[float, float] = (0.0, 0.0)
    sides: int = 0
    elongation: float = 1.4
    angle: float = 0.0
    roughness: float = 1.0
    light: float = 0.0


def class_look(seed: int) -> Look:
    """The look of a class, so that a model has something to tell classes apart by."""
    rng = np.random.Generator(np.random.PCG64(seed))
    hue = rng.uniform(0.0, 2.0 * np.pi)
    strength = rng.uniform(6.0, 14.0)
    return Look(
        chroma=(float(strength * np.cos(hue)), float(strength * np.sin(hue))),
        sides=int(rng.choice([0, 0, 3, 4, 5, 6])),
        elongation=float(rng.uniform(1.0, 3.0)),
        angle=float(rng.uniform(0.0, np.pi)),
        roughness=float(rng.uniform(0.8, 1.2)),
        light=float(rng.uniform(0.0, 2.0 * np.pi)),
    )


def photograph(seed: int, look: Look | None = None) -> NDArray[np.uint8]:
    """Draw one picture.

    Args:
        seed: any non-negative integer; the picture is a function of it and the look.
        look: what it shares with the other pictures of its class.

    Returns:
        RGB pixels, height x width x 3; the size varies as in ImageNet.
    """
    look = look or Look()
    rng = np.random.Generator(np.random.PCG64(seed))
    width, height = _picture_size(rng)
    texture = np.exp(rng.normal(0.0, 0.9)) * look.roughness
    slope = rng.uniform(0.7, 1.1)
    planes = _background(rng, height, width, slope, look)
    detail = _field(rng, height, width, slope)
    planes[0] += detail * np.float32(min(3.0 * texture, 9.0))
    _draw_leaves(rng, planes, detail, texture, look)
    return _develop(rng, planes, look)


def _picture_size(rng: np.random.Generator) -> tuple[int, int]:
    choice = min(int(np.searchsorted(_SIZE_BOUNDS, rng.random())), len(_SIZES) - 1)
    width, height, _ = _SIZES[choice]
    return width, height or int(rng.integers(300, 460))


def _field(rng: np.random.Generator, height: int, width: int, exponent: float) -> Plane:
    """Gaussian noise with amplitude 1/f**exponent, mean about 0 and deviation about 1."""
    # Cut out of a larger torus: a periodic picture would show its seams as a match of
    # opposite borders.
    rows = int(_FAST_LENGTHS[np.searchsorted(_FAST_LENGTHS, height * 1.05)])
    columns = int(_FAST_LENGTHS[np.searchsorted(_FAST_LENGTHS, width * 1.02)])
    log_frequency = _log_frequency(rows, columns)
    amplitude = np.exp(np.float32(-exponent) * log_frequency)
    amplitude[0, 0] = 0.0
    noise = rng.standard_normal((rows, columns // 2 + 1, 2), dtype=np.float32)
    spectrum = noise.view(np.complex64)[..., 0] * amplitude
    field = np.fft.irfft2(spectrum, s=(rows, columns))[:height, :width]
    return (field / max(float(field.std()), 1e-12)).astype(np.float32)


@lru_cache(maxsize=16)
def _log_frequency(rows: int, columns: int) -> Plane:
    vertical = np.fft.fftfreq(rows)[:, None]
    horizontal = np.fft.rfftfreq(columns)[None, :]
    squared = vertical**2 + horizontal**2
    squared[0, 0] = 1.0
    plane: Plane = (0.5 * np.log(squared)).astype(np.float32)
    plane.setflags(write=False)
    return plane


def _background(
    rng: np.random.Generator, height: int, width: int, slope: float, look: Look
) -> list[Plane]:
    """Y, Cb and Cr of the scene behind the shapes, around 0, softer than the shapes."""
    luma = _field(rng, height, width, slope + rng.uniform(0.4, 1.0)) * np.float32(28.0)
    colour = _field(rng, height, width, slope + 0.45)
    planes = [luma]
    for centre, sign in zip(look.chroma, (1.0, -1.0), strict=True):
        spread = np.float32(sign * rng.uniform(3.0, 11.0))
        # Colour follows brightness in part: shadows are cooler than what is lit.
        tilt = np.float32(rng.normal(0.0, 0.12))
        tint = np.float32(rng.normal(centre, 5.0))
        planes.append(spread * colour + tilt * luma + tint)
    return planes


def _draw_leaves(
    rng: np.random.Generator, planes: list[Plane], detail: Plane, texture: float, look: Look
) -> None:
    """Cover the background with occluding shapes, each with a surface of its own."""
    height, width = detail.shape
    for _ in range(int(rng.integers(14, 44))):
        window, mask, shading = _leaf(rng, height, width, look)
        surface = _surface(rng, detail, mask.shape, texture)
        surface += shading * np.float32(rng.normal(0.0, 22.0))
        shades = (rng.normal(0.0, 36.0), *rng.normal(look.chroma, 11.0))
        shares = (1.0, *rng.normal(0.0, 0.16, 2))
        for plane, shade, share in zip(planes, shades, shares, strict=True):
            target = surface * np.float32(share) + np.float32(shade)
            plane[window] += mask * (target - plane[window])


def _surface(
    rng: np.random.Generator, detail: Plane, shape: tuple[int, ...], texture: float
) -> Plane:
    """A piece of the fine texture from anywhere, stronger on some surfaces than on others."""
    top = int(rng.integers(0, detail.shape[0] - shape[0] + 1))
    left = int(rng.integers(0, detail.shape[1] - shape[1] + 1))
    gain = min(13.0 * texture * np.exp(rng.normal(0.0, 0.6)), 30.0)
    piece = detail[top : top + shape[0], left : left + shape[1]]
    surface: Plane = piece * np.float32(gain)
    return surface


def _leaf(
    rng: np.random.Generator, height: int, width: int, look: Look
) -> tuple[tuple[slice, slice], Plane, Plane]:
    """One shape: its window of the picture, its coverage of each pixel, and its shading.

    The edge is a ramp at least a pixel wide, placed with sub-pixel precision; what is out
    of focus has a wider one.
    """
    short = min(height, width)
    # Density of radii r**-2.2: a few large shapes, many small ones, at every scale.
    bounds = (0.55 * short) ** -1.2, (0.03 * short) ** -1.2
    radius = float(rng.uniform(*bounds) ** (-1.0 / 1.2))
    softness = 1.2 + float(rng.exponential(1.2))
    angle = look.angle + rng.normal(0.0, 0.35)
    stretch = (look.elongation * np.exp(rng.normal(0.0, 0.2))) ** 0.5
    y, x = float(rng.uniform(0, height)), float(rng.uniform(0, width))
    reach = radius * max(stretch, 1.0 / stretch) * 1.7 + softness
    window = _span(y, reach, height), _span(x, reach, width)
    rows = np.arange(window[0].start, window[0].stop, dtype=np.float32)[:, None] - np.float32(y)
    columns = np.arange(window[1].start, window[1].stop, dtype=np.float32) - np.float32(x)
    cosine, sine = np.float32(np.cos(angle)), np.float32(np.sin(angle))
    along = (columns * cosine + rows * sine) / np.float32(stretch)
    across = (rows * cosine - columns * sine) * np.float32(stretch)
    depth = np.float32(radius) - _distance(along, across, look.sides)
    coverage = np.clip(depth / np.float32(softness) + np.float32(0.5), 0.0, 1.0)
    # Falls off towards one end, so that the shape looks like a body and not like paper.
    return window, coverage, (along + depth) / np.float32(radius)


def _span(centre: float, reach: float, length: int) -> slice:
    return slice(max(int(centre - reach), 0), min(int(centre + reach) + 1, length))


def _distance(along: Plane, across: Plane, sides: int) -> Plane:
    """Distance from the centre, in the norm whose circles are the wanted shapes."""
    if sides == 0:
        radii: Plane = np.hypot(along, across)
        return radii
    distance = np.full(along.shape, -np.inf, dtype=np.float32)
    for direction in 2.0 * np.pi * np.arange(sides) / sides:
        side = along * np.float32(np.cos(direction)) + across * np.float32(np.sin(direction))
        np.maximum(distance, side, out=distance)
    # Corners reach beyond the circle inside; this keeps the area about that of an ellipse.
    distance *= np.float32(1.25)
    return distance


def _develop(rng: np.random.Generator, planes: list[Plane], look: Look) -> NDArray[np.uint8]:
    """Light the scene, set exposure and contrast, and convert it to 8-bit RGB."""
    luma, *chroma = planes
    luma = luma + _light(rng, luma.shape, look)
    exposure, contrast = rng.normal(118.0, 24.0), np.clip(rng.normal(58.0, 13.0), 22.0, 85.0)
    luma = (luma - luma.mean()) * np.float32(contrast / max(float(luma.std()), 1.0))
    channels = [luma + np.float32(exposure), *(plane + np.float32(128.0) for plane in chroma)]
    bands = [Image.fromarray(np.clip(c, 0.0, 255.0).astype(np.uint8)) for c in channels]
    return np.asarray(Image.merge("YCbCr", bands).convert("RGB"))


def _light(rng: np.random.Generator, shape: tuple[int, ...], look: Look) -> Plane:
    """Brightness that grows evenly in one direction across the whole picture."""
    angle = look.light + rng.normal(0.0, 0.4)
    strength = rng.uniform(15.0, 60.0)
    rows = np.linspace(-0.5, 0.5, shape[0], dtype=np.float32) * np.float32(np.sin(angle))
    columns = np.linspace(-0.5, 0.5, shape[1], dtype=np.float32) * np.float32(np.cos(angle))
    light: Plane = (rows[:, None] + columns) * np.float32(strength)
    return light
