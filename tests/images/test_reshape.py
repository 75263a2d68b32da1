from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.errors import ImageError
from dataprep.images import Recipe, Resize, prepare
from dataprep.images.pixels import center_cropped, recolored, target_size
from dataprep_schemas.fields import BOX_FLAGS, BOX_LABELS, BOXES, Box, Field, moved
from tests.images.files import JPEGS, PHOTO, encoded, pixels_of

SIDES = st.integers(1, 5000)


@given(width=SIDES, height=SIDES, side=st.integers(1, 600))
def test_shorter_side_is_exact_and_the_longer_one_rounds_half_up(
    width: int, height: int, side: int
) -> None:
    new_width, new_height = target_size(width, height, Resize(side))
    assert min(new_width, new_height) == side
    short, long = sorted((width, height))
    scaled = max(new_width, new_height)
    assert 2 * short * scaled - short <= 2 * long * side < 2 * short * scaled + short
    assert (new_width <= new_height) == (width <= height) or new_width == new_height
    assert target_size(height, width, Resize(side)) == (new_height, new_width)
    assert target_size(width, height, Resize(30, 20)) == (30, 20)


@given(width=st.integers(1, 40), height=st.integers(1, 40), side=st.integers(1, 40))
def test_crop_is_centred_or_refused(width: int, height: int, side: int) -> None:
    pixels = np.arange(width * height).reshape(height, width).astype(np.uint8)
    if side > min(width, height):
        with pytest.raises(ImageError, match=f"{width}x{height} pixels: smaller than"):
            center_cropped(pixels, side)
        return
    left, top = (width - side) // 2, (height - side) // 2
    square, part = center_cropped(pixels, side)
    assert np.array_equal(square, pixels[top : top + side, left : left + side])
    assert part[:2] == (left / width, top / height)
    assert part[2:] == ((left + side) / width, (top + side) / height)


@pytest.mark.parametrize(
    ("source", "encoding", "color", "resize"),
    [  # every pair of two of the four
        (source, encoding, ("rgb", "gray")[(i + j) % 2], (None, Resize(20))[(i + j // 2) % 2])
        for i, source in enumerate(["baseline", "grey", "CMYK", "PNG", "grey PNG"])
        for j, encoding in enumerate(["keep", "jpeg", "png"])
    ],
)
def test_colour_and_encoding_asked_for_are_what_is_stored(
    source: str, encoding: Any, color: Any, resize: Resize | None
) -> None:
    others = {
        "CMYK": encoded(PHOTO.convert("CMYK")),
        "PNG": encoded(PHOTO, "PNG"),
        "grey PNG": encoded(PHOTO.convert("L"), "PNG"),
    }
    data = {**JPEGS, **others}[source]
    done = prepare(data, Recipe(color=color, encoding=encoding, resize=resize))
    stored = pixels_of(done.data)
    assert (1 if stored.ndim == 2 else 3) == done.channels == (1 if color == "gray" else 3)
    assert stored.shape[:2] == (done.height, done.width)
    assert done.format == ("PNG" if encoding == "png" else "JPEG")
    assert done.data.startswith(b"\x89PNG" if encoding == "png" else b"\xff\xd8")
    repaired = source == "CMYK" or (source.endswith("PNG") and encoding != "png")
    assert [note.kind for note in done.notes] == (["repaired"] if repaired else [])


@pytest.mark.parametrize(
    ("recipe", "quality"),
    [
        (Recipe(quality=70), 100),
        (Recipe(quality=70, resize=Resize(20)), 70),
        (Recipe(quality=70, center_crop=20), 70),
        (Recipe(quality=70, encoding="jpeg"), 70),
    ],
)
def test_only_a_mere_repair_has_full_quality(recipe: Recipe, quality: int) -> None:
    done = prepare(encoded(PHOTO, "PNG"), recipe)
    assert done.notes[0].text == f"PNG, not JPEG: re-encoded as RGB JPEG, quality {quality}"


@given(st.binary(min_size=3, max_size=3))
def test_grey_is_luma_of_itu_r_601(color: bytes) -> None:
    pixel = np.frombuffer(color, np.uint8).reshape(1, 1, 3)
    red, green, blue = color
    expected = (19595 * red + 38470 * green + 7471 * blue + 32768) >> 16
    assert recolored(pixel, "gray").tolist() == [[expected]]


# --- boxes go where a crop moves what they show

FIELDS = (BOXES, BOX_LABELS, *BOX_FLAGS, Field("age", "int"))
sides = st.tuples(st.integers(0, 64), st.integers(0, 64)).map(sorted)
boxes = st.tuples(sides, sides).map(
    lambda pair: (pair[0][0] / 64, pair[1][0] / 64, pair[0][1] / 64, pair[1][1] / 64)
)


def test_without_a_crop_nothing_changes() -> None:
    said = {"boxes": ((0.5, 0.5, 0.5, 0.5),), "box_labels": (3,)}
    assert moved(said, FIELDS, 1) == said


def test_what_was_cut_off_has_no_box_and_no_label() -> None:
    gone, there = (0.0, 0.0, 0.2, 1.0), (0.3, 0.3, 0.5, 0.5)
    said: dict[str, Any] = {"boxes": (gone, there, gone), "box_labels": (1, 2, 3)}
    said |= {"difficult": "101", "age": 7}
    said = {**moved(said, FIELDS, 1, (0.25, 0.25, 0.75, 0.75))}
    assert len(said.pop("boxes")) == 1
    assert said == {"box_labels": (2,), "age": 7}


@given(st.lists(boxes), boxes.filter(lambda box: box[0] < box[2] and box[1] < box[3]))
def test_a_point_is_in_a_box_before_and_after(given: list[Box], part: Box) -> None:
    said = {"boxes": tuple(given), "box_labels": tuple(range(len(given)))}
    cut = moved(said, FIELDS, 1, part)
    found, labels = cut.get("boxes", ()), cut.get("box_labels", ())
    assert len(found) == len(labels)
    left, top, right, bottom = map(Fraction, part)
    for box, place in zip(found, labels, strict=True):
        assert 0 <= box[0] < box[2] <= 1
        assert 0 <= box[1] < box[3] <= 1
        old = given[place]
        across = left + (Fraction(box[0]) + Fraction(box[2])) / 2 * (right - left)
        down = top + (Fraction(box[1]) + Fraction(box[3])) / 2 * (bottom - top)
        assert old[0] < across < old[2]
        assert old[1] < down < old[3]
