"""Crashed at any moment, the same command ends with the same bytes; see docs/reliability.md."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.crash.scenarios import SCENARIOS, chosen_kinds, sweep
from tests.crash.states import Kind, State, sampled

WHICH = os.environ.get("DATAPREP_CRASH_STATE", "")
"""The number of the only state to try, from an earlier failure; or ``all`` of them."""

# For tests of about a minute, and workers that share them.
PARTS = {"append": 2, "append-cleaned": 2, "overwrite": 2, "radiographs": 2}


def check(place: Path, name: str, *kinds: Kind, part: int, parts: int) -> None:
    def chosen(states: Sequence[State]) -> Sequence[State]:
        if WHICH.isdigit():
            return [states[int(WHICH)]]
        ours = [state for state in states if state.kind in kinds]
        return (ours if WHICH == "all" else sampled(ours))[part::parts]

    found = sweep(SCENARIOS[name](place), chosen)
    again = f"again: DATAPREP_CRASH_STATE=NUMBER pytest tests/crash -k 'every and [{name}]'"
    assert not found.problems, "\n".join([*found.problems, again])
    assert WHICH.isdigit() or found.states > 3


def test_kills_and_power_cuts_are_healed_by_the_same_command(place: Path) -> None:
    """The everyday part of the sweep below, spread over all of the run."""
    check(place, "prepare", "kill", "power", part=0, parts=2)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "part"),
    [
        pytest.param(name, part, id=f"{name}:{part}" if part else name)
        for name in SCENARIOS
        for part in range(PARTS.get(name, 1))
    ],
)
def test_every_state_is_healed_by_the_same_command(place: Path, name: str, part: int) -> None:
    check(place, name, *chosen_kinds(name), part=part, parts=PARTS.get(name, 1))
