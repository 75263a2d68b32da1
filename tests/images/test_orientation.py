from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from dataprep.images import Recipe, Resize, prepare
from dataprep.images.exif import orientation_of
from dataprep.images.pixels import upright
from dataprep_schemas.fields import BOXES
from tests.images.files import NEEDS_AVIF, PHOTO, encoded, pixels_of

TAG = 0x0112


def _exif(value: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x010F] = "maker"
    exif[TAG] = value
    return exif


@pytest.mark.parametrize(
    ("value", "kind", "mode"),
    [
        *((value, "JPEG", "RGB") for value in range(1, 9)),
        *(
            (6, "JPEG", "L"),
            (8, "PNG", "L"),
            (5, "WEBP", "RGB"),
            (3, "TIFF", "RGB"),
            pytest.param(7, "AVIF", "RGB", marks=NEEDS_AVIF),
        ),
    ],
)
def test_applied_orientation_equals_pillows(value: int, mode: str, kind: str) -> None:
    data = encoded(PHOTO.convert(mode), kind, exif=_exif(value))
    with Image.open(io.BytesIO(data)) as image:
        turned = np.asarray(ImageOps.exif_transpose(image)).astype(np.int16)
    done = prepare(data, Recipe(encoding="png"))
    assert done.turn == value
    again = prepare(data, Recipe(passes=("PNG",), exif="apply"))
    assert np.array_equal(pixels_of(again.data), pixels_of(done.data))
    found = pixels_of(done.data)
    assert found.shape == turned.shape
    assert np.abs(found - turned).max() <= 2
    assert (done.height, done.width) == turned.shape[:2]


@pytest.mark.parametrize("value", range(1, 9))
def test_only_an_image_that_is_not_upright_is_reencoded(value: int) -> None:
    data = encoded(PHOTO, exif=_exif(value))
    passed = prepare(data, Recipe())
    assert (passed.data is data, passed.turn) == (True, 1)
    assert prepare(data, Recipe(exif="ignore", resize=Resize(70))).width == 90
    done = prepare(data, Recipe(exif="apply"))
    assert (done.data is data) == (value == 1)
    assert (done.width, done.height) == ((90, 70) if value < 5 else (70, 90))
    assert done.notes == ()
    assert b"Exif" not in done.data or value == 1


@pytest.mark.parametrize("value", range(1, 9))
def test_boxes_turn_with_the_picture(value: int) -> None:
    picture = np.zeros((8, 16), np.uint8)
    picture[2:4, 4:10] = 255
    shown = upright(picture, value)
    rows, columns = (np.flatnonzero(shown.any(axis=axis)) for axis in (1, 0))
    height, width = shown.shape
    expected = (
        *(columns[0] / width, rows[0] / height),
        *((columns[-1] + 1) / width, (rows[-1] + 1) / height),
    )
    assert BOXES.rules.moved([(4 / 16, 2 / 8, 10 / 16, 4 / 8)], value)[0] == (expected,)


@pytest.mark.parametrize("order", ["big", "little"])
@pytest.mark.parametrize(("value", "expected"), [(0, 1), (1, 1), (6, 6), (8, 8), (9, 1)])
def test_tag_is_read_in_either_byte_order(order: Any, value: int, expected: int) -> None:
    def number(n: int, size: int) -> bytes:
        return n.to_bytes(size, order)

    entry = number(TAG, 2) + number(3, 2) + number(1, 4) + number(value, 2) + bytes(2)
    block = {"big": b"MM", "little": b"II"}[order] + number(42, 2) + number(8, 4)
    assert orientation_of(block + number(1, 2) + entry) == expected
    wrong_type = entry[:2] + number(4, 2) + entry[4:]
    assert orientation_of(block + number(1, 2) + wrong_type) == 1


@given(st.binary(max_size=200), st.sampled_from([b"", b"MM\0*", b"II*\0", b"MM\0*\0\0\0\x08"]))
def test_damaged_block_reads_as_upright_or_a_valid_value(tail: bytes, head: bytes) -> None:
    assert 1 <= orientation_of(head + tail) <= 8
