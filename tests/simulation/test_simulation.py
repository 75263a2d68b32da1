"""Whatever befalls launchers and workers on several hosts: see docs/reliability.md."""

from __future__ import annotations

import pytest

from tests.simulation.metadata import load
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


def test_what_a_shard_asks_of_a_metadata_server() -> None:
    found = load(workers=8, shards=3, seconds=1.3, rate=20_000, look_seconds=2.0)
    each = {kind: count // 24 for kind, count in found.requests.items()}
    assert (each["rename"], each["link"], each["other"]) == (3, 1, 19)
    assert sum(found.requests.values()) < 24 * 47  # looks of the launcher, and of the workers, too
    assert found.busy < 0.02


def test_a_slow_metadata_server_is_the_limit() -> None:
    found = load(workers=8, shards=3, seconds=1.3, rate=100, look_seconds=2.0)
    assert found.busy > 0.85
    assert found.seconds > 2 * 4 * 1.3  # as long as three shards take, and the last one's start
