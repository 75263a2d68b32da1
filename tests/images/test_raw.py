from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dataprep.images import Recipe, Resize, prepare


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
        "WebP": encoded(photo, "WEBP"),
    }


@pytest.mark.parametrize("source", ["baseline", "grey", "CMYK", "palette PNG", "RGBA PNG", "WebP"])
@pytest.mark.parametrize(
    "options",
    [
        {"check": "header"},
        {"resize": Resize(30, 20), "color": "gray"},
        {"center_crop": 33, "color": "rgb", "check": "pixels"},
    ],
)
def test_raw_holds_the_very_pixels_that_png_does(
    sources: dict[str, bytes],
    pixels_of: Callable[[bytes], Any],
    source: str,
    options: dict[str, Any],
) -> None:
    data = sources[source]
    done = prepare(data, Recipe(encoding="raw", **options))
    png = prepare(data, Recipe(encoding="png", **options))
    assert type(done.data) is bytes
    assert done.format == "RAW"
    assert (done.height, done.width, done.channels) == (png.height, png.width, png.channels)
    assert done.data == pixels_of(png.data).astype(np.uint8).tobytes()


def test_raw_has_no_longest_side(encoded: Callable[..., bytes]) -> None:
    done = prepare(encoded(Image.new("L", (65_501, 1)), "PNG"), Recipe(encoding="raw"))
    assert (done.width, len(done.data)) == (65_501, 65_501)
