from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.images import Measured, Recipe, Resize, Statistics, prepare
from dataprep.images.statistics import (
    ASPECT_RATIO_EDGES,
    SHORTER_SIDE_EDGES,
    histogram_of,
)
from dataprep_schemas import manifest
from dataprep_schemas.state import Counted
from tests.images.files import JPEGS, pixels_of

SIDES = st.integers(1, 6)


def _measured(pixels: Any, *, channels: int = 3, size: int = 10) -> Measured:
    height, width = pixels.shape[:2]
    return Measured(size, "JPEG", height, width, histogram_of(pixels, channels))


def _sum(images: list[Measured]) -> Statistics:
    total = Statistics()
    for image in images:
        total.add(image)
    return total


@st.composite
def _images(draw: st.DrawFn) -> list[Measured]:
    """A few images, decoded or not."""
    decoded = draw(st.booleans())
    channels = draw(st.sampled_from([1, 3]))
    images = []
    for _ in range(draw(st.integers(1, 8))):
        height, width = draw(SIDES), draw(SIDES)
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


@pytest.mark.parametrize("channels", [1, 3])
def test_moments_are_numpys(channels: int) -> None:
    random = np.random.default_rng(3)
    shape = (9, 31, 17) if channels == 1 else (9, 31, 17, 3)
    stack = random.integers(0, 256, shape).astype(np.uint8)
    total = _sum([_measured(pixels, channels=channels) for pixels in stack])
    flat = stack.reshape(-1, channels).astype(np.float64)
    summary = total.summary()
    assert summary.pixels == 9 * 31 * 17
    assert summary.mean == pytest.approx(flat.mean(axis=0).tolist(), abs=1e-6)
    assert summary.std == pytest.approx(flat.std(axis=0).tolist(), abs=1e-6)


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
def test_levels_measured_are_those_stored_before_encoding(
    name: str, color: Any, options: dict[str, Any]
) -> None:
    done = prepare(JPEGS[name], Recipe(color=color, stats="on", **options))
    shape = {key: value for key, value in options.items() if key != "encoding"}
    before = pixels_of(prepare(JPEGS[name], Recipe(color=color, encoding="png", **shape)).data)
    expected = histogram_of(before.astype(np.uint8), 1 if color == "gray" else 3)
    measured = done.measured
    assert measured is not None
    assert measured.histogram is not None
    if options == {"check": "pixels"}:  # Pillow's libjpeg, which may round otherwise
        means = [it @ np.arange(256) / it.sum(axis=1) for it in (measured.histogram, expected)]
        assert np.abs(means[0] - means[1]).max() <= 2
    else:
        assert np.array_equal(measured.histogram, expected)
    assert (measured.bytes, measured.format) == (len(done.data), done.format)
    assert (measured.height, measured.width) == (done.height, done.width)
