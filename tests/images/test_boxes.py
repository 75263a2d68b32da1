"""Boxes go where a crop moves what they show."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.images.pixels import WHOLE, cropped

sides = st.tuples(st.integers(0, 64), st.integers(0, 64)).map(sorted)
boxes = st.tuples(sides, sides).map(
    lambda pair: (pair[0][0] / 64, pair[1][0] / 64, pair[0][1] / 64, pair[1][1] / 64)
)


def test_without_a_crop_nothing_changes() -> None:
    assert cropped([(0.5, 0.5, 0.5, 0.5)], [3], WHOLE) == (((0.5, 0.5, 0.5, 0.5),), (3,))


@pytest.mark.parametrize(
    ("box", "expected"),
    [
        ((0.25, 0.25, 0.75, 0.75), (0.0, 0.0, 1.0, 1.0)),
        ((0.375, 0.5, 0.5, 0.625), (0.25, 0.5, 0.5, 0.75)),
        ((0.0, 0.0, 0.5, 0.5), (0.0, 0.0, 0.5, 0.5)),  # cut off at the edge
    ],
)
def test_a_box_in_the_middle_half(box, expected) -> None:
    assert cropped([box], [], (0.25, 0.25, 0.75, 0.75)) == ((expected,), ())


def test_what_was_cut_off_has_no_box_and_no_label() -> None:
    gone, there = (0.0, 0.0, 0.2, 1.0), (0.3, 0.3, 0.5, 0.5)
    found, labels = cropped([gone, there, gone], [1, 2, 3], (0.25, 0.25, 0.75, 0.75))
    assert len(found) == 1
    assert labels == (2,)


@given(st.lists(boxes), boxes.filter(lambda box: box[0] < box[2] and box[1] < box[3]))
def test_a_point_is_in_a_box_before_and_after(given, part) -> None:
    found, labels = cropped(given, range(len(given)), part)
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
