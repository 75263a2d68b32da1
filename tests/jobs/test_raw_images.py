"""What becomes of an image becomes of what is said about it."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import dataprep
from tests.conftest import FINDINGS, Cli, Made

SIDE, CROP = 24, 16
RENAMED = {"Infiltrate": "Infiltration"}


def cut(start: float, extent: float) -> tuple[float, float]:
    """A box's side in pixels of 1024, as fractions of the middle of the picture."""
    margin = (SIDE - CROP) / 2
    ends = ((end / 1024 * SIDE - margin) / CROP for end in (start, start + extent))
    low, high = (min(max(end, 0.0), 1.0) for end in ends)
    return low, high


def test_boxes_lie_in_what_a_crop_leaves(cli: Cli, radiographs: Made, tmp_path: Path) -> None:
    assert cli(*radiographs.command(tmp_path, "--center_crop", CROP)).code == 0
    expected: dict[str, list[tuple[str, list[float]]]] = {}
    with (radiographs.raw.path / "BBox_List_2017.csv").open(encoding="ascii", newline="") as file:
        _, *lines = csv.reader(file)
    for key, finding, *numbers in lines:
        x, y, width, height = map(float, numbers[:4])
        (left, right), (top, bottom) = cut(x, width), cut(y, height)
        if left < right and top < bottom:
            shown = RENAMED.get(finding, finding)
            expected.setdefault(key, []).append((shown, [left, top, right, bottom]))
    found = {
        example.key: sorted(
            (FINDINGS[label], list(box))
            for label, box in zip(
                example.fields.get("box_labels", ()), example.fields["boxes"], strict=True
            )
        )
        for split in ("train", "validation", "test")
        for example in dataprep.open(tmp_path, split)
        if "boxes" in example.fields
    }
    assert found.keys() == expected.keys()
    for key, boxes in found.items():
        for (shown, box), (finding, sides) in zip(boxes, sorted(expected[key]), strict=True):
            assert shown == finding
            assert box == pytest.approx(sides, abs=1e-5)
    assert len(found) > 3
