"""A process that fails again and again takes shards ever more slowly."""

from __future__ import annotations

import pytest

from dataprep_pipelines.failing import Failing


def waited(failing: Failing, naps: list[float], pause: float = 2.0) -> float:
    naps.clear()
    failing.failed(pause, lambda: False)
    return sum(naps)


def test_every_failure_in_a_row_costs_twice_as_much_up_to_a_minute() -> None:
    naps: list[float] = []
    failing = Failing(naps.append)
    assert [waited(failing, naps) for _ in range(7)] == [2, 4, 8, 16, 32, 60, 60]
    failing.succeeded()
    assert waited(failing, naps) == 2


@pytest.mark.parametrize("pause", [0.0, 2.0])
def test_a_run_that_stops_is_not_waited_for(pause: float) -> None:
    naps: list[float] = []
    Failing(naps.append).failed(pause, lambda: True)
    assert naps == []


def test_where_workers_do_not_compete_nobody_waits() -> None:
    naps: list[float] = []
    failing = Failing(naps.append)
    assert [waited(failing, naps, pause=0.0) for _ in range(3)] == [0, 0, 0]
