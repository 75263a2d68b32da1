"""Bugs that are planted in the lock: the simulation finds every one."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from dataprep.jobs.output import lock
from dataprep.jobs.running import seal
from dataprep.system import durable_files
from tests.simulation import scenario
from tests.simulation.scenario import sweep

MOST = 10_000
"""Schedules in which each must be found."""


def replaced(owner: Any, name: str, before: str, after: str) -> Callable[[Any], None]:
    """The source of a function with another text in it."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        source = textwrap.dedent(inspect.getsource(getattr(owner, name)))
        assert before in source
        made: dict[str, Any] = {}
        code = compile(source.replace(before, after), "mutant", "exec")
        exec(code, vars(inspect.getmodule(getattr(owner, name))), made)
        for place in (owner, scenario, seal):
            if hasattr(place, name):
                patch.setattr(place, name, made[name])

    return plant


MUTANTS = {
    "the markers of others at it stay": replaced(
        lock, "claim_marker", "other.unlink(missing_ok=True)", "pass"
    ),
    "the marker is not looked at again": replaced(
        lock, "claim_marker", "sight(path) != before", "False"
    ),
    "anybody's marker is touched": replaced(lock, "sight", "text == touch_if", "touch_if"),
    "the marker is not touched": replaced(lock, "_beating", "touch_if=lease.marker", ""),
    "silence counts by the file's time": replaced(
        lock.Silence, "of", "return seconds", "return now - sighting.modified / 1e9"
    ),
    "silence counts what nobody watched": replaced(
        lock.Silence, "of", "min(now - looked, self._longest_gap)", "now - looked"
    ),
    "the lease is shorter than a beat": replaced(lock, "_take", ">= lease_seconds", ">= 4.0"),
    "a living holder on another host is dead": replaced(
        lock, "_take", "alive is False", "not alive"
    ),
    "workers do not look": replaced(
        lock.Lease, "_look", "found is None or found.text != self.marker", "False"
    ),
    "another's lock is removed": replaced(
        lock, "locked", "found is not None and found.text == text", "found"
    ),
    "another's files are removed": replaced(
        lock, "locked", "lease.failure.stem in path.name", "True"
    ),
    "a run that was taken over goes on": replaced(
        lock, "check_held", "lease.taken_over(now=now)", "False"
    ),
    "what is finished is renamed unasked": replaced(
        durable_files, "rename", "    check()\n    try:", "    try:"
    ),
    "what a host remembers is believed": replaced(lock, "sight", "not _is_listed(path)", "True"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    assert sweep(range(MOST), most=1)
