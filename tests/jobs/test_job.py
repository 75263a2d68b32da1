"""How many shards there are."""

from __future__ import annotations

import pytest

from dataprep.jobs.running.job import default_shard_count


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
