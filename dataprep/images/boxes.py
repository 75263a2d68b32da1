"""Bounding boxes after a crop: pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from dataprep.index import Box

WHOLE: Box = (0.0, 0.0, 1.0, 1.0)
"""The part of a picture that is left where nothing is cut off."""


def cropped(
    boxes: Sequence[Box], labels: Sequence[int], part: Box
) -> tuple[tuple[Box, ...], tuple[int, ...]]:
    """The boxes as they lie in a part of the picture.

    Args:
        boxes: (xmin, ymin, xmax, ymax) as fractions of width and height.
        labels: what each shows; or none.
        part: the part of the picture that is left, likewise.

    Returns:
        The boxes as fractions of the part, cut off at its edges, without those of which nothing
        is left; and what each of them shows, if `labels` said so.
    """
    if part == WHOLE:
        return tuple(boxes), tuple(labels)
    inside = [_inside(box, part) for box in boxes]
    kept = [place for place, box in enumerate(inside) if box[0] < box[2] and box[1] < box[3]]
    return (
        tuple(inside[place] for place in kept),
        tuple(labels[place] for place in kept) if labels else (),
    )


def _inside(box: Box, part: Box) -> Box:
    left, top, right, bottom = part
    width, height = right - left, bottom - top
    return (
        _fraction((box[0] - left) / width),
        _fraction((box[1] - top) / height),
        _fraction((box[2] - left) / width),
        _fraction((box[3] - top) / height),
    )


def _fraction(value: float) -> float:
    return min(max(value, 0.0), 1.0)
