"""Pictures with the statistics of photographs, computed from a seed.

A photograph is not noise: the amplitude of its spatial frequencies falls like 1/f, objects
occlude each other with sharp or soft edges, colour varies less and more slowly than
brightness. JPEG sizes and decode times follow from these properties, so that a test on such
pictures tells something about real ones, and flat or random pixels do not.

The model is "dead leaves" (occluding textured shapes, sizes by a power law) over a 1/f
background. The same numpy and Pillow versions on the same kind of processor give the same
pixels; others may differ by a grey level here and there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Plane = NDArray[np.float32]

# (width, height, share): a long side of 500 pixels, from Flickr, dominates ImageNet.
_SIZES = (
    (500, 375, 0.45),
    (500, 333, 0.20),
    (375, 500, 0.15),
    (333, 500, 0.06),
    (640, 480, 0.05),
    (1024, 768, 0.02),
    (320, 240, 0.04),
    (128, 96, 0.03),
)
_RADII = (0.03, 0.55)  # smallest and largest shape, of the picture's shorter side
_CONTRASTS = (22.0, 85.0)


def photograph(seed: int, hue: float = 0.0) -> NDArray[np.uint8]:
    """Draw one picture.

    Args:
        seed: any non-negative integer; the picture is a function of it and the hue.
        hue: main direction of the colours, in radians; what the pictures of a class share.

    Returns:
        RGB pixels, (height, width, 3); the size varies as in ImageNet.
    """
    rng = np.random.default_rng(seed)
    width, height, _ = _SIZES[int(rng.choice(len(_SIZES), p=[share for *_, share in _SIZES]))]
    texture = float(np.exp(rng.normal(0.0, 0.9)))
    detail = _noise(rng, height, width, 0.9)
    colour = _noise(rng, height, width, 1.35) * 7.0
    tint = (0.0, 10.0 * np.cos(hue), 10.0 * np.sin(hue))
    luma = 28.0 * _noise(rng, height, width, 1.6) + min(3.0 * texture, 9.0) * detail
    picture = np.stack([luma, colour + tint[1], tint[2] - colour]).astype(np.float32)
    for _ in range(int(rng.integers(14, 44))):
        _draw_shape(rng, picture, detail, texture, tint)
    contrast = np.clip(rng.normal(58.0, 13.0), *_CONTRASTS)
    picture[0] -= picture[0].mean()
    picture[0] *= contrast / picture[0].std()
    picture[0] += rng.normal(118.0, 24.0)
    picture[1:] += 128.0
    levels = np.clip(picture, 0.0, 255.0).astype(np.uint8)
    return np.asarray(Image.merge("YCbCr", [*map(Image.fromarray, levels)]).convert("RGB"))


def _noise(rng: np.random.Generator, height: int, width: int, exponent: float) -> Plane:
    """Gaussian noise with amplitude 1/f**exponent, mean 0 and deviation 1."""
    rows, columns = np.fft.fftfreq(height)[:, np.newaxis], np.fft.rfftfreq(width)
    squared = rows**2 + columns**2
    squared[0, 0] = np.inf
    white = np.fft.rfft2(rng.standard_normal((height, width), np.float32))
    field = np.fft.irfft2(white * squared ** (-exponent / 2), s=(height, width))
    normal: Plane = (field / field.std()).astype(np.float32)
    return normal


def _draw_shape(
    rng: np.random.Generator,
    picture: Plane,
    detail: Plane,
    texture: float,
    tint: tuple[float, float, float],
) -> None:
    """Cover a part of the picture with an ellipse that has a surface and a shade of its own."""
    height, width = detail.shape
    short = min(height, width)
    # Density of radii r**-2.2: a few large shapes, many small ones, at every scale.
    smallest, largest = ((short * part) ** -1.2 for part in _RADII)
    radius = float(rng.uniform(largest, smallest) ** (-1.0 / 1.2))
    softness = 1.2 + float(rng.exponential(1.2))  # in pixels: what is out of focus has more
    y, x = rng.uniform(0, height), rng.uniform(0, width)
    reach, stretch = 1.6 * radius + softness, float(rng.uniform(0.65, 1.5))
    rows = slice(max(int(y - reach), 0), int(y + reach) + 1)
    columns = slice(max(int(x - reach), 0), int(x + reach) + 1)
    piece = detail[rows, columns]
    down = np.arange(rows.start, rows.start + piece.shape[0], dtype=np.float32)[:, np.newaxis] - y
    across = np.arange(columns.start, columns.start + piece.shape[1], dtype=np.float32) - x
    inside = (radius - np.hypot(down * stretch, across / stretch)).astype(np.float32)
    cover = np.clip(inside / softness + 0.5, 0.0, 1.0)
    gain = min(13.0 * texture * float(np.exp(rng.normal(0.0, 0.6))), 30.0)
    # Falls off towards the edge, so that the shape looks like a body and not like paper.
    surface = piece * gain + inside * (rng.normal(0.0, 22.0) / radius)
    shares = (1.0, *rng.normal(0.0, 0.16, 2))
    for plane, spread, share, centre in zip(picture, (36.0, 11.0, 11.0), shares, tint, strict=True):
        target = surface * share + rng.normal(centre, spread)
        plane[rows, columns] += cover * (target - plane[rows, columns])
