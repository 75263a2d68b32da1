"""What the simulation of large runs promises, and that the document has its tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.engine_simulation import (
    DATA_SETS,
    WORKERS,
    Costs,
    DataSet,
    Site,
    estimate,
    markdown,
    write_seconds,
)

ROOT = Path(__file__).parents[1]

_FREE = Costs(start=0, scan=0, order=0, launching=0, scheduling=0, waiting=0, recorded=0)
_BOUNDLESS = Site(bandwidth=1e30, operations=1e30, latency=0)


def test_the_document_has_the_simulation_s_tables() -> None:
    printed = markdown()
    assert printed.count("| 1,000 workers |") == len(DATA_SETS)
    document = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert printed.rstrip("\n") in document


def test_it_always_says_the_same() -> None:
    assert estimate(DATA_SETS[1], 64) == estimate(DATA_SETS[1], 64)


def test_one_worker_does_everything_one_after_the_other() -> None:
    # Every tenth shard takes 1.3 times as long.
    assert write_seconds(10, 1, 2.0, 0.5) == pytest.approx(10 * (2.0 + 0.5) + 0.6)


def test_a_worker_is_given_the_next_shard_when_it_is_free() -> None:
    # 2.6 and 2 to begin with; the second worker takes the third shard: 4, the first the fourth.
    assert write_seconds(4, 2, 2.0, 0.0) == pytest.approx(4.6)


def test_more_workers_than_shards_are_of_no_use() -> None:
    data = DataSet("few", 10_000, 10)
    assert estimate(data, 100).seconds["write"] == estimate(data, 10).seconds["write"]
    assert estimate(data, 100).limit == "few shards"


def test_where_nothing_costs_anything_only_the_images_take_time() -> None:
    data = DataSet("even", 1_000_000, 100_000)
    found = estimate(data, 10, _FREE, _BOUNDLESS)
    assert found.total == found.seconds["write"] == pytest.approx(found.ideal, rel=0.001)
    assert found.limit == "workers"


@pytest.mark.parametrize(
    ("costs", "site", "limit"),
    [
        pytest.param(replace(_FREE, scheduling=1.0), _BOUNDLESS, "scheduler", id="scheduler"),
        pytest.param(replace(_FREE, launching=1.0), _BOUNDLESS, "launcher", id="launcher"),
        pytest.param(_FREE, replace(_BOUNDLESS, bandwidth=1e6), "bandwidth", id="bandwidth"),
        pytest.param(_FREE, replace(_BOUNDLESS, operations=300), "metadata", id="metadata"),
    ],
)
def test_what_is_scarce_is_named(costs: Costs, site: Site, limit: str) -> None:
    data = DataSet("large", 10_000_000, 10_000)
    found = estimate(data, 1000, costs, site)
    plenty = estimate(data, 1000, _FREE, _BOUNDLESS)
    assert found.limit == limit
    assert found.total > 2 * plenty.total


def test_a_scheduler_of_one_task_a_second_takes_as_many_seconds_as_there_are_shards() -> None:
    found = estimate(
        DataSet("many", 1_000_000, 1000), 500, replace(_FREE, scheduling=1.0), _BOUNDLESS
    )
    assert 1000 <= found.seconds["write"] < 1003


@given(
    shards=st.integers(1, 3000),
    workers=st.integers(1, 300),
    seconds=st.floats(0.1, 100),
    handing=st.floats(0, 1),
)
@settings(deadline=None)
def test_no_run_beats_an_even_share_nor_what_hands_out(
    shards: int, workers: int, seconds: float, handing: float
) -> None:
    found = write_seconds(shards, workers, seconds, handing)
    assert found >= shards * handing
    assert found * 1.000001 >= shards * seconds / workers
    # Greedy: nobody is idle before the last shard is given away.
    longest = 1.3 * seconds
    assert found <= shards * (longest / workers + handing) + longest + 1e-6


@pytest.mark.parametrize("data", DATA_SETS, ids=lambda data: f"{data.shards}-shards")
def test_more_workers_never_make_it_more_efficient(data: DataSet) -> None:
    found = [estimate(data, workers).efficiency for workers in WORKERS]
    assert found == sorted(found, reverse=True)
    assert all(0 < one <= 1 for one in found)
