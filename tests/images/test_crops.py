"""Parts of pictures in their place in a batch: where they lie, and how they look."""

from __future__ import annotations

import io
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dataprep.errors import ImageError
from dataprep.images import crops
from dataprep.images.crops import Crop, place, place_pixels
from dataprep.images.decode import shown

SIZES = st.integers(1, 3000)
Kind = Literal["random", "center"]


def gradient(width: int, height: int) -> Image.Image:
    across = np.linspace(0, 255, width)[None, :].repeat(height, 0)
    down = np.linspace(0, 255, height)[:, None].repeat(width, 1)
    pixels = np.stack([across, down, np.full_like(across, 90)], axis=2)
    return Image.fromarray(pixels.round().astype(np.uint8))


def encoded(picture: Image.Image, kind: str = "JPEG", **options: object) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **{"quality": 95} if kind == "JPEG" else {}, **options)
    return file.getvalue()


def in_place(data: bytes, crop: Crop, drawn: list[float], channels: int = 3) -> np.ndarray:
    target = np.zeros((*crop.size, channels)[: 3 if channels == 3 else 2], np.uint8)
    place(data, crop, drawn, target)
    return target


@given(SIZES, SIZES, st.lists(st.floats(0, 1, exclude_max=True), min_size=23, max_size=23))
def test_random_parts_are_as_the_field_takes_them(
    height: int, width: int, drawn: list[float]
) -> None:
    left, top, across, down = Crop((224, 224), "random").part(height, width, drawn)
    assert left >= 0
    assert top >= 0
    assert left + across <= width + 1e-6
    assert top + down <= height + 1e-6
    if min(height, width) > 50 and 0.75 <= width / height <= 4 / 3:
        assert 0.07 < across * down / (height * width) <= 1
        assert 0.72 < across / down < 1.38


@given(SIZES, SIZES)
def test_the_middle_is_in_the_middle(height: int, width: int) -> None:
    left, top, across, down = Crop((224, 224), "center").part(height, width, [])
    assert across == pytest.approx(min(height, width) * 0.875)
    assert down == pytest.approx(across)
    assert left == pytest.approx((width - across) / 2)
    assert top == pytest.approx((height - down) / 2)
    wide = Crop((100, 200), "center").part(height, width, [])
    assert wide[2] == pytest.approx(2 * wide[3])


def test_without_scaling_it_is_the_very_picture() -> None:
    colour, grey = gradient(64, 48), gradient(64, 48).convert("L")
    for data, channels in (
        (encoded(colour), 3),
        (encoded(grey), 3),
        (encoded(grey), 1),
        (encoded(colour), 1),
        (encoded(colour, "PNG"), 3),
        (encoded(colour.convert("CMYK")), 3),
    ):
        expected = shown(data, channels)
        assert (in_place(data, Crop((48, 64)), [], channels) == expected).all()
        mirrored = in_place(data, Crop((48, 64), flip=True), [0.25], channels)
        assert (mirrored == expected[:, ::-1]).all()
        assert (in_place(data, Crop((48, 64), flip=True), [0.5], channels) == expected).all()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_it_is_upright(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(gradient(64, 48), exif=exif.tobytes())
    expected = shown(data, 3)
    assert (in_place(data, Crop(expected.shape[:2]), []) == expected).all()


@pytest.mark.parametrize(("width", "height"), [(256, 256), (400, 300), (1200, 900), (60, 80)])
@pytest.mark.parametrize("kind", ["random", "center", None])
def test_scaled_it_is_what_pillow_scales(width: int, height: int, kind: Kind | None) -> None:
    """To two levels on average: of large ones the decoder has scaled before."""
    data = encoded(gradient(width, height))
    crop = Crop((96, 64), kind)
    drawn = [0.4, 0.6] * 11 + [0.0]
    left, top, across, down = crop.part(height, width, drawn)
    whole = Image.fromarray(shown(data, 3))
    box = (left, top, left + across, top + down)
    expected = np.asarray(whole.resize((64, 96), Image.Resampling.BILINEAR, box))
    found = in_place(data, crop, drawn)
    assert np.abs(found.astype(int) - expected).mean() < 2
    other = in_place(encoded(Image.fromarray(shown(data, 3)), "PNG"), crop, drawn)
    assert np.abs(other.astype(int) - expected).max() <= 2


def test_without_the_fast_resampler_pillow_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    data, crop = encoded(gradient(400, 300)), Crop((96, 64), "center")
    expected = in_place(data, crop, [])
    monkeypatch.setattr(crops, "fast", None)
    assert np.abs(in_place(data, crop, []).astype(int) - expected).max() <= 2


def test_deep_grey_keeps_its_higher_bits() -> None:
    levels = np.arange(64 * 64, dtype=np.uint16).reshape(64, 64) * 16
    data = encoded(Image.fromarray(levels), "PNG")
    assert (in_place(data, Crop((64, 64)), [], 1) == levels >> 8).all()


def test_pixels_are_placed_alike() -> None:
    pixels = np.asarray(gradient(64, 48))
    target = np.zeros((48, 64, 3), np.uint8)
    place_pixels(pixels, Crop((48, 64), flip=True), [0.1], target)
    assert (target == pixels[:, ::-1]).all()


@pytest.mark.parametrize("data", [b"", b"\xff\xd8\xff", b"no image", encoded(gradient(9, 9))[:300]])
def test_what_is_no_image_is_said_in_a_line(data: bytes) -> None:
    with pytest.raises(ImageError, match="it cannot be decoded: ") as told:
        in_place(data, Crop((8, 8)), [])
    assert "\n" not in str(told.value)


def test_a_size_that_must_not_differ_is_refused() -> None:
    with pytest.raises(ImageError, match="64x48 pixels, others have 8x8; give size="):
        in_place(encoded(gradient(64, 48)), Crop((8, 8), scales=False), [])
