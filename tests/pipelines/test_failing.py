"""A process that fails again and again takes shards ever more slowly."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataprep_pipelines.failing import Failing

RUN, OTHER = Path("failure-1.json"), Path("failure-2.json")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def waited(failing: Failing, clock: Clock, pause: float = 2.0, run: Path = RUN) -> float:
    began = clock.now
    failing.failed(run, pause, lambda: False)
    return clock.now - began


def test_every_failure_in_a_row_costs_twice_as_much_up_to_a_bound(clock: Clock) -> None:
    failing = Failing(clock, clock.sleep)
    assert [waited(failing, clock) for _ in range(6)] == [2, 4, 8, 16, 16, 16]
    failing.succeeded()
    assert waited(failing, clock) == 2


def test_another_run_begins_anew(clock: Clock) -> None:
    failing = Failing(clock, clock.sleep)
    assert [waited(failing, clock) for _ in range(3)] == [2, 4, 8]
    assert waited(failing, clock, run=OTHER) == 2


def test_threads_that_fail_together_wait_together(clock: Clock) -> None:
    failing = Failing(clock, clock.sleep)
    first, second = failing._next(RUN, 2.0), failing._next(RUN, 2.0)
    assert first == second == clock.now + 2


def test_a_run_that_stops_is_not_waited_for(clock: Clock) -> None:
    began = clock.now
    Failing(clock, clock.sleep).failed(RUN, 2.0, lambda: True)
    assert clock.now == began


def test_where_workers_do_not_compete_nobody_waits(clock: Clock) -> None:
    failing = Failing(clock, clock.sleep)
    assert [waited(failing, clock, pause=0.0) for _ in range(3)] == [0, 0, 0]
