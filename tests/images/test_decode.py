from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.errors import ImageError
from dataprep.images import Recipe, prepare
from dataprep.images.decode import raw_to_png, sniff, to_pixels
from tests.images.files import JPEGS, PHOTO, encoded


@pytest.mark.parametrize(
    ("name", "encoding", "color"),
    [  # every pair of two of the three
        (name, encoding, ("rgb", "gray")[(i + j) % 2])
        for i, name in enumerate(["baseline", "progressive", "grey", "RGB colour space", "CMYK"])
        for j, encoding in enumerate(["keep", "jpeg", "png", "raw"])
    ],
)
def test_stored_image_decodes_to_what_raw_would_have_stored(
    name: str, encoding: Any, color: Any
) -> None:
    data = {**JPEGS, "CMYK": encoded(PHOTO.convert("CMYK"))}[name]
    stored = prepare(data, Recipe(encoding=encoding, color=color))
    found = to_pixels(stored.data, stored.format, 70, 90, color)
    assert found.shape == ((70, 90, 3) if color == "rgb" else (70, 90))
    again = data if encoding in ("png", "raw") else stored.data
    assert found.tobytes() == prepare(again, Recipe(encoding="raw", color=color)).data


def test_damaged_or_misdescribed_images_are_image_errors() -> None:
    jpeg, png, bmp = JPEGS["baseline"], encoded(PHOTO, "PNG"), encoded(PHOTO, "BMP")
    raw = PHOTO.tobytes()
    for data, form, size, reason in [
        (jpeg, "JPEG", (70, 91), "JPEG of 90x70 pixels, expected JPEG of 91x70"),
        (png, "PNG", (90, 70), "PNG of 90x70 pixels, expected PNG of 70x90"),
        (jpeg, "PNG", (70, 90), "JPEG of 90x70 pixels, expected PNG"),
        (bmp, "BMP", (70, 90), "neither JPEG nor PNG"),
        (b"", "JPEG", (70, 90), "neither JPEG nor PNG"),
        (jpeg[:-20], "JPEG", (70, 90), "truncated"),
        (png[:-500], "PNG", (70, 90), "truncated PNG"),
        (raw[:-1], "RAW", (70, 90), "18899 bytes of RAW pixels: 90x70 has 6300 in grey or 18900"),
        (raw, "RAW", (0, 90), "empty image"),
        (raw, "RAW", (-70, -90), "empty image"),
        (raw, "RAW", (10**5, 10**5), "at most 89478485 allowed"),
    ]:
        with pytest.raises(ImageError, match=reason):
            to_pixels(data, form, *size, "rgb")


@given(
    height=st.integers(1, 9),
    width=st.integers(1, 9),
    channels=st.sampled_from([1, 3]),
    data=st.data(),
)
def test_raw_survives_png(height: int, width: int, channels: int, data: st.DataObject) -> None:
    size = height * width * channels
    raw = data.draw(st.binary(min_size=size, max_size=size))
    png = raw_to_png(raw, height, width)
    color: Any = "gray" if channels == 1 else "rgb"
    assert to_pixels(png, "PNG", height, width, color).tobytes() == raw
    assert prepare(png, Recipe(encoding="raw")).data == raw


# --- what a header says


@pytest.mark.parametrize("name", ["baseline", "restarts", "grey progressive", "RGB colour space"])
def test_header_of_a_jpeg(name: str) -> None:
    data = JPEGS[name]
    found = sniff(data)
    assert (found.format, found.height, found.width) == ("JPEG", 70, 90)
    assert found.grey == name.startswith("grey")
    for end in range(0, len(data) - 1, 19):
        with pytest.raises(ImageError):
            sniff(data[:end])
