"""The pictures have what radiographs of the chest have: dark lungs, a bright middle, grain."""

from __future__ import annotations

import numpy as np
import pytest

from dataprep.synthesize.chestxray14.encoding import encode_radiograph
from dataprep.synthesize.chestxray14.radiograph import FINDINGS, lesion_box, radiograph


@pytest.mark.parametrize("size", [8, 31, 32, 256])
def test_a_picture_is_a_square_of_greys_that_depends_on_its_seed(size: int) -> None:
    picture = radiograph(1, size)
    assert (picture.shape, picture.dtype) == ((size, size), np.uint8)
    assert np.array_equal(picture, radiograph(1, size))
    assert not np.array_equal(picture, radiograph(2, size))


@pytest.mark.parametrize("size", [32, 128])
def test_lungs_are_darker_than_what_lies_between_and_below(size: int) -> None:
    mean = np.mean([radiograph(seed, size) for seed in range(20)], axis=0)

    def around(across: float, down: float) -> float:
        x, y, reach = int(across * size), int(down * size), size // 16
        return float(mean[y - reach : y + reach, x - reach : x + reach].mean())

    for lung in (around(0.31, 0.4), around(0.69, 0.35)):
        assert lung < around(0.5, 0.5) - 50
        assert lung < around(0.5, 0.85) - 50
    assert around(0.08, 0.08) < 60  # air beside the neck


@pytest.mark.parametrize("finding", FINDINGS)
def test_each_finding_shows_in_its_box_and_nowhere_else(finding: str) -> None:
    seed, size = 5 << 90 | 77, 128
    change = radiograph(seed, size, [finding]).astype(int) - radiograph(seed, size)
    left, top, width, height = lesion_box(seed, finding)
    inside = np.zeros_like(change, bool)
    slack = 4  # the turn of the chest
    inside[
        max(int(top * size) - slack, 0) : int((top + height) * size) + slack,
        max(int(left * size) - slack, 0) : int((left + width) * size) + slack,
    ] = True
    assert np.abs(change[inside]).max() > 8
    assert np.abs(change[~inside]).max() <= 6


def test_files_are_as_large_as_the_originals() -> None:
    # 42 GB for 112,120 pictures of 1024 pixels a side.
    assert 300_000 < len(encode_radiograph(radiograph(0, 1024), "grey")) < 500_000
