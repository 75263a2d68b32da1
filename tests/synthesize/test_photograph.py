"""The pictures have the statistics that make photographs photographs."""

from __future__ import annotations

from io import BytesIO
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from dataprep.synthesize.imagenet.encoding import Kind, encode
from dataprep.synthesize.imagenet.photograph import class_look, photograph


def luma(pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    return np.asarray(Image.fromarray(pixels).convert("L")).astype(np.float64)


def power_slope(plane: NDArray[np.float64]) -> float:
    """Exponent of the radial power spectrum, fitted between the scales of picture and pixel."""
    side = min(min(plane.shape), 256)
    window = np.hanning(side)
    square = plane[:side, :side]
    square = (square - square.mean()) * window[:, None] * window
    power = np.abs(np.fft.fft2(square)) ** 2
    frequency = np.fft.fftfreq(side) * side
    radius = np.hypot(frequency[:, None], frequency).round().astype(int)
    radial = np.bincount(radius.ravel(), power.ravel()) / np.bincount(radius.ravel())
    edges = np.unique(np.geomspace(4, side / 3, 14).astype(int))
    bands = list(pairwise(edges))
    means = [radial[low:high].mean() for low, high in bands]
    centres = [(low + high - 1) / 2 for low, high in bands]
    return float(np.polyfit(np.log(centres), np.log(means), 1)[0])


@given(seed=st.integers(0, 2**64))
@settings(max_examples=25, deadline=None)
def test_every_power_spectrum_falls_like_a_photographs(seed: int) -> None:
    # 400 real ImageNet files: 5 % to 95 % of the slopes lie between -3.3 and -1.6.
    # Amplitude 1/f is power -2; white noise has 0.
    assert -4.2 < power_slope(luma(photograph(seed))) < -1.2


def test_the_mean_power_spectrum_is_about_one_over_f_squared() -> None:
    slopes = [power_slope(luma(photograph(seed))) for seed in range(40)]
    assert -2.9 < np.mean(slopes) < -2.1


def test_white_noise_would_not_pass_for_a_photograph() -> None:
    noise = np.random.default_rng(0).normal(size=(300, 300))
    assert power_slope(noise) > -0.3


def test_brightness_varies_several_times_more_than_colour() -> None:
    bands = [np.asarray(Image.fromarray(photograph(s)).convert("YCbCr")) for s in range(20)]
    deviations = np.mean([band.reshape(-1, 3).std(axis=0) for band in bands], axis=0)
    assert 3 < deviations[0] / deviations[1] < 12
    assert 3 < deviations[0] / deviations[2] < 12


def test_a_picture_depends_on_its_seed_and_look_only() -> None:
    look = class_look(5)
    first, _, again = photograph(1, look), photograph(2, look), photograph(1, look)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, photograph(1, class_look(6)))


def test_most_pictures_have_the_sizes_of_imagenet() -> None:
    shapes = [photograph(seed).shape for seed in range(60)]
    assert all(pixels == 3 for *_, pixels in shapes)
    assert sum(max(shape) == 500 for shape in shapes) > 40
    assert len(set(shapes)) > 5


def test_files_are_as_large_as_imagenets() -> None:
    sizes = [
        len(encode(photograph(seed, class_look(seed % 7)), "rgb", seed)) for seed in range(150)
    ]
    assert 90_000 < np.mean(sizes) < 130_000
    assert 35_000 < np.std(sizes) < 90_000


@pytest.mark.parametrize("kind", ["rgb", "grey", "cmyk", "png"])
def test_every_kind_shows_the_picture(kind: Kind) -> None:
    pixels = photograph(11)
    encoded = encode(pixels, kind, 11)
    with Image.open(BytesIO(encoded)) as image:
        shown = luma(np.asarray(image.convert("RGB")))
    assert np.abs(shown - luma(pixels)).mean() < 6
