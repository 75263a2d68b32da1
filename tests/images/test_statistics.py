from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.errors import SinkError
from dataprep.images import Measured, Recipe, Resize, Statistics, prepare
from dataprep.images.statistics import (
    ASPECT_RATIO_EDGES,
    SHORTER_SIDE_EDGES,
    as_channels,
    histogram_of,
)
from dataprep_schemas import manifest
from dataprep_schemas.state import Counted
from tests.images.files import JPEGS, pixels_of

SIDES = st.integers(1, 6)


def _measured(pixels: Any, *, channels: int = 3, mean: bool = False, size: int = 10) -> Measured:
    kept = as_channels(pixels, channels) if mean else None
    height, width = pixels.shape[:2]
    return Measured(size, "JPEG", height, width, histogram_of(pixels, channels), kept)


def _sum(images: list[Measured]) -> Statistics:
    total = Statistics()
    for image in images:
        total.add(image)
    return total


@st.composite
def _images(draw: st.DrawFn) -> list[Measured]:
    """A few images: measured or not; of one size where a mean image is wanted."""
    mean, decoded = draw(st.booleans()), draw(st.booleans())
    channels = draw(st.sampled_from([1, 3]))
    fixed = (draw(SIDES), draw(SIDES))
    images = []
    for _ in range(draw(st.integers(1, 8))):
        height, width = fixed if mean else (draw(SIDES), draw(SIDES))
        grey = channels == 1 or draw(st.booleans())
        shape = (height, width) if grey else (height, width, 3)
        flat = draw(st.binary(min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
        pixels = np.frombuffer(flat, np.uint8).reshape(shape)
        images.append(
            Measured(
                bytes=draw(st.integers(1, 2**40)),
                format=draw(st.sampled_from(["JPEG", "PNG"])),
                height=height,
                width=width,
                histogram=histogram_of(pixels, channels) if decoded else None,
                pixels=as_channels(pixels, channels) if decoded and mean else None,
            )
        )
    return images


@given(images=_images(), data=st.data())
def test_any_partition_in_any_order_adds_up_to_the_same(
    images: list[Measured], data: st.DataObject
) -> None:
    whole = _sum(images)
    places = st.integers(0, data.draw(st.integers(0, 3)))
    parts: dict[int, Statistics] = {}
    for image in data.draw(st.permutations(images)):
        parts.setdefault(data.draw(places), Statistics()).add(image)
    found = Statistics()
    for part in parts.values():
        file = msgspec.json.encode(part.counted())
        found.merge(msgspec.json.decode(file, type=Counted))
    assert found.counted() == whole.counted()
    summary = msgspec.json.encode(whole.summary(), order="deterministic")
    assert msgspec.json.encode(found.summary(), order="deterministic") == summary
    read = msgspec.json.decode(summary, type=manifest.Statistics)
    assert msgspec.json.encode(read, order="deterministic") == summary  # as state files must be
    again, mean = found.mean_image(), whole.mean_image()
    assert (again is None) == (mean is None)
    if again is not None and mean is not None:
        assert np.array_equal(again, mean)


@pytest.mark.parametrize("channels", [1, 3])
def test_moments_and_mean_image_are_numpys(channels: int) -> None:
    random = np.random.default_rng(3)
    shape = (9, 31, 17) if channels == 1 else (9, 31, 17, 3)
    stack = random.integers(0, 256, shape).astype(np.uint8)
    total = _sum([_measured(pixels, channels=channels, mean=True) for pixels in stack])
    flat = stack.reshape(-1, channels).astype(np.float64)
    summary = total.summary()
    assert summary.pixels == 9 * 31 * 17
    assert summary.mean == pytest.approx(flat.mean(axis=0).tolist(), abs=1e-6)
    assert summary.std == pytest.approx(flat.std(axis=0).tolist(), abs=1e-6)
    mean = total.mean_image()
    assert mean is not None
    assert mean.shape == (31, 17, channels)
    assert np.allclose(mean, stack.reshape(9, 31, 17, channels).mean(axis=0), atol=1e-12)


def test_moments_are_exact_where_floating_point_cancels() -> None:
    histogram = np.zeros((1, 256), np.int64)
    histogram[0, 255] = 10**15
    histogram[0, 254] = 1
    summary = _sum([Measured(1, "RAW", 1, 1, histogram)]).summary()
    assert summary.mean == (255.0,)
    variance = Fraction(10**15, (10**15 + 1) ** 2)
    assert summary.std == (round(float(variance) ** 0.5, 6),)


def test_summary_of_known_images() -> None:
    sizes = [(100, 31, 32), (300, 333, 500), (200, 500, 375), (400, 5000, 5000)]
    total = _sum([Measured(size, "JPEG", height, width) for size, height, width in sizes])
    total.add(Measured(50, "PNG", 256, 256))
    assert msgspec.to_builtins(total.summary()) == {
        "images": 5,
        "bytes": {"total": 1050, "min": 50, "mean": 210.0, "max": 400},
        "formats": {"JPEG": 4, "PNG": 1},
        "height": {"min": 31, "mean": 1224.0, "max": 5000},
        "width": {"min": 32, "mean": 1232.6, "max": 5000},
        "shorter_side": {
            "edges": (32, 64, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096),
            "images": (1, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 1),
        },
        "aspect_ratio": {
            "edges": (0.4, 0.6, 0.7, 0.85, 0.95, 1.05, 1.2, 1.4, 1.6, 2.5),
            "images": (0, 0, 0, 1, 0, 3, 0, 0, 1, 0, 0),
        },
        "pixels": 0,
        "mean": None,
        "std": None,
    }


@given(height=st.integers(1, 9000), width=st.integers(1, 9000))
def test_bins_are_closed_below_and_open_above(height: int, width: int) -> None:
    summary = _sum([Measured(1, "JPEG", height, width)]).summary()
    for histogram, value, edges in (
        (summary.shorter_side, Fraction(min(height, width)), SHORTER_SIDE_EDGES),
        (summary.aspect_ratio, Fraction(width, height), ASPECT_RATIO_EDGES),
    ):
        place = sum(value >= Fraction(str(edge)) for edge in edges)
        expected = [0] * (len(edges) + 1)
        expected[place] = 1
        assert histogram.images == tuple(expected)


def test_mean_image_needs_one_size_and_says_how_to_get_it() -> None:
    total = _sum([_measured(np.zeros((4, 6), np.uint8), mean=True)])
    other = _measured(np.zeros((6, 4), np.uint8), mean=True)
    before = total.counted()
    words = (
        r"^the mean image needs one fixed size: found 6x4 \(height x width\), expected 4x6; "
        r"add --resize WIDTHxHEIGHT or --center_crop$"
    )
    with pytest.raises(SinkError, match=words):
        total.add(other)
    with pytest.raises(SinkError, match=words):
        total.merge(_sum([other]).counted())
    assert total.counted() == before


# --- what `prepare` measures


@pytest.mark.parametrize(
    ("name", "color"), [("baseline", "keep"), ("grey", "rgb"), ("progressive", "gray")]
)
@pytest.mark.parametrize(
    "options",
    [
        {"resize": Resize(40)},
        {"center_crop": 50},
        {"encoding": "jpeg"},
        {"encoding": "png"},
        {"encoding": "raw"},
        {"check": "pixels"},
    ],
)
def test_measured_pixels_are_those_stored_before_encoding(
    name: str, color: Any, options: dict[str, Any]
) -> None:
    done = prepare(JPEGS[name], Recipe(color=color, statistics="mean", **options))
    shape = {key: value for key, value in options.items() if key != "encoding"}
    before = pixels_of(prepare(JPEGS[name], Recipe(color=color, encoding="png", **shape)).data)
    expected = as_channels(before.astype(np.uint8), 1 if color == "gray" else 3)
    measured = done.measured
    assert measured is not None
    assert measured.pixels is not None
    assert measured.histogram is not None
    if options == {"check": "pixels"}:  # Pillow's libjpeg, which may round otherwise
        assert np.abs(measured.pixels.astype(int) - expected).max() <= 2
        expected = measured.pixels
    assert np.array_equal(measured.pixels, expected)
    for channel, counts in enumerate(measured.histogram):
        assert np.array_equal(counts, np.bincount(expected[..., channel].ravel(), minlength=256))
    assert (measured.bytes, measured.format) == (len(done.data), done.format)
    assert (measured.height, measured.width) == (done.height, done.width)
