"""What the simulation of large runs promises, and that the document has its tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.engine_simulation import (
    DATA_SETS,
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


def test_one_worker_does_everything_one_after_the_other() -> None:
    # Every tenth shard takes 1.3 times as long.
    assert write_seconds(10, 1, 2.0, 0.5) == pytest.approx(10 * (2.0 + 0.5) + 0.6)


def test_a_worker_is_given_the_next_shard_when_it_is_free() -> None:
    # 2.6 and 2 to begin with; the second worker takes the third shard: 4, the first the fourth.
    assert write_seconds(4, 2, 2.0, 0.0) == pytest.approx(4.6)


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
