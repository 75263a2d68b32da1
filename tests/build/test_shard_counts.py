"""How many shards there are, when nobody said so and when somebody did."""

from __future__ import annotations

import pytest

from dataprep.build.job import check_shard_count, default_shard_count
from dataprep.errors import UsageError


@pytest.mark.parametrize(("shards", "fix"), [(4, "use at most train=3"), (0, "at least 1")])
def test_an_empty_shard_is_refused_with_the_fix(shards: int, fix: str) -> None:
    with pytest.raises(UsageError, match=fix):
        check_shard_count(3, shards, "train")


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
