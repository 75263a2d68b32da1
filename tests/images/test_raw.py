from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dataprep.images import Note, Recipe, Resize, prepare


@pytest.fixture(scope="module")
def sources(
    photo: Image.Image, jpegs: dict[str, bytes], encoded: Callable[..., bytes]
) -> dict[str, bytes]:
    return {
        **jpegs,
        "CMYK": encoded(photo.convert("CMYK")),
        "PNG": encoded(photo, "PNG"),
        "grey PNG": encoded(photo.convert("L"), "PNG"),
        "palette PNG": encoded(photo.quantize(16), "PNG"),
        "RGBA PNG": encoded(photo.convert("RGBA"), "PNG"),
        "GIF": encoded(photo.quantize(16), "GIF"),
        "BMP": encoded(photo, "BMP"),
        "WebP": encoded(photo, "WEBP"),
    }


SOURCES = [
    "baseline",
    "full chroma",
    "progressive",
    "grey",
    "RGB colour space",
    "CMYK",
    "PNG",
    "grey PNG",
    "GIF",
    "BMP",
    "WebP",
]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("check", ["header", "bitstream", "pixels"])
@pytest.mark.parametrize("color", ["keep", "rgb", "gray"])
@pytest.mark.parametrize(
    "options", [{}, {"resize": Resize(30, 20)}, {"center_crop": 33}, {"exif": "apply"}]
)
def test_raw_holds_the_very_pixels_that_png_does(
    sources: dict[str, bytes],
    pixels_of: Callable[[bytes], Any],
    source: str,
    check: Any,
    color: Any,
    options: dict[str, Any],
) -> None:
    data = sources[source]
    done = prepare(data, Recipe(check=check, color=color, encoding="raw", **options))
    png = prepare(data, Recipe(check=check, color=color, encoding="png", **options))
    assert type(done.data) is bytes
    assert done.format == "RAW"
    assert (done.height, done.width, done.channels) == (png.height, png.width, png.channels)
    assert done.channels == {"keep": png.channels, "rgb": 3, "gray": 1}[color]
    assert done.data == pixels_of(png.data).astype(np.uint8).tobytes()
    assert len(done.data) == done.height * done.width * done.channels


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("CMYK", "JPEG of 4 components (CMYK or YCCK): stored as RGB pixels"),
        ("palette PNG", "PNG, not JPEG: stored as RGB pixels"),
        ("RGBA PNG", "PNG, not JPEG: stored as RGB pixels"),
        ("WebP", "WebP, not JPEG: stored as RGB pixels"),
    ],
)
def test_raw_notes_what_came_in(sources: dict[str, bytes], source: str, words: str) -> None:
    assert prepare(sources[source], Recipe(encoding="raw")).notes == (Note("repaired", words),)


@pytest.mark.parametrize("source", ["PNG", "grey PNG", "baseline", "grey"])
def test_raw_of_a_plain_image_is_no_repair(sources: dict[str, bytes], source: str) -> None:
    assert prepare(sources[source], Recipe(encoding="raw")).notes == ()


def test_raw_of_a_good_jpeg_is_no_repair_and_ignores_the_quality(jpegs: dict[str, bytes]) -> None:
    done = prepare(jpegs["baseline"], Recipe(encoding="raw", quality=1))
    assert done.notes == ()
    assert done == prepare(jpegs["baseline"], Recipe(encoding="raw", quality=100))


def test_raw_has_no_longest_side(encoded: Callable[..., bytes]) -> None:
    done = prepare(encoded(Image.new("L", (65_501, 1)), "PNG"), Recipe(encoding="raw"))
    assert (done.width, len(done.data)) == (65_501, 65_501)
