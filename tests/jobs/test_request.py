"""How many images may be missing, and how many shards there are."""

from __future__ import annotations

import pytest

from dataprep.errors import UsageError
from dataprep.jobs.job import default_shard_count
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
    ],
)
def test_max_bad(text: str, rejected: int, images: int, allowed: bool) -> None:
    assert MaxBad.parse(text).allows(rejected, images) is allowed


@pytest.mark.parametrize("text", ["", "-1", "1.5", "many", "101%", "%", "1 %", "٣"])
def test_max_bad_refuses_nonsense(text: str) -> None:
    with pytest.raises(UsageError, match="expected a number"):
        MaxBad.parse(text)


@pytest.mark.parametrize(
    ("count", "preferred", "expected"),
    [
        (1_281_167, 1024, 1024),
        (50_000, 128, 128),
        (102_400, 1024, 1024),
        (102_399, 1024, 512),
        (400, 1024, 4),
        (399, 1024, 2),
        (100, 128, 1),
        (3, 128, 1),
    ],
)
def test_default_shard_count(count: int, preferred: int, expected: int) -> None:
    assert default_shard_count(count, preferred) == expected
