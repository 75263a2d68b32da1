"""How many images may be missing."""

from __future__ import annotations

import pytest

from dataprep.jobs.request import MaxBad


@pytest.mark.parametrize(
    ("text", "rejected", "images", "allowed"),
    [
        ("0", 0, 10, True),
        ("0", 1, 10, False),
        ("2", 2, 10, True),
        ("2", 3, 10, False),
        ("10%", 1, 10, True),
        ("10%", 2, 10, False),
        ("0.1%", 1281, 1_281_167, True),
        ("0.1%", 1282, 1_281_167, False),
        ("100%", 10, 10, True),
        ("0.001", 1282, 1_281_167, False),
        ("1/3", 3, 9, True),
        ("0.1234567891%", 1234567891, 10**12, True),
        ("0.1234567891%", 1234567892, 10**12, False),
    ],
)
def test_max_bad(text: str, rejected: int, images: int, allowed: bool) -> None:
    assert MaxBad.parse(text).allows(rejected, images) is allowed


@pytest.mark.parametrize("text", ["", "-1", "1.5", "many", "101%", "%", "1 %", "٣"])
def test_max_bad_refuses_nonsense(text: str) -> None:
    with pytest.raises(ValueError, match="expected a number"):
        MaxBad.parse(text)
