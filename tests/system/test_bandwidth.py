"""The bound on what all streams read together, on a clock that only sleeping moves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.errors import StagingError
from dataprep.system.bandwidth import Bandwidth


class _Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


@given(
    rate=st.integers(1_000, 10**10),
    counts=st.lists(st.integers(1, 1 << 23), min_size=1, max_size=8),
)
def test_what_was_taken_never_exceeds_the_rate_by_more_than_the_burst(
    rate: int, counts: list[int]
) -> None:
    clock = _Clock()
    limit = Bandwidth(rate, clock=clock, sleep=clock.sleep)
    # No more naps than a test can afford.
    counts = [min(count, rate * 10) for count in counts]
    for count in counts:
        limit.take(count)
    least = sum(counts) / rate - 0.1
    assert clock.now - 100 >= least - 1e-6
    assert clock.now - 100 <= sum(counts) / rate + 1e-6


def test_a_pause_saves_up_no_more_than_the_burst() -> None:
    clock = _Clock()
    limit = Bandwidth(1000, clock=clock, sleep=clock.sleep)
    clock.now += 3600
    before = clock.now
    limit.take(1100)
    assert clock.now - before == pytest.approx(1.0)


def test_without_a_bound_nobody_waits() -> None:
    clock = _Clock()
    Bandwidth(None, clock=clock, sleep=clock.sleep).take(1 << 40)
    assert clock.now == 100.0


def test_whoever_waits_can_be_stopped() -> None:
    clock = _Clock()

    def stop_after_a_second() -> None:
        if clock.now > 101:
            raise StagingError("another node failed")

    with pytest.raises(StagingError, match="another node failed"):
        Bandwidth(1, clock=clock, sleep=clock.sleep).take(3600, stop_after_a_second)
    assert clock.now < 102
