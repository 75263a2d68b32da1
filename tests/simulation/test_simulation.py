"""Whatever befalls launchers and workers on several hosts: see docs/reliability.md."""

from __future__ import annotations

import pytest

from tests.simulation.scenario import Schedule, again, simulated, sweep


def check(seeds: range) -> None:
    found = sweep(seeds)
    assert not found, "\n".join(f"{problems}; {again(seed)}" for seed, problems in found.items())


def test_some_schedules() -> None:
    check(range(300))


@pytest.mark.thorough
@pytest.mark.parametrize("part", range(4))
def test_many_schedules(part: int) -> None:
    check(range(1000 + 2500 * part, 3500 + 2500 * part))


def test_a_seed_is_one_schedule() -> None:
    traces = []
    with simulated():
        for _ in range(2):
            schedule = Schedule(42, trace=True)
            schedule.run()
            traces.append(schedule.trace())
    assert traces[0] == traces[1] != []
