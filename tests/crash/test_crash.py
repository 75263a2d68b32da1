"""Crashed at any moment, the same command ends with the same bytes; see docs/reliability.md."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.crash.scenarios import SCENARIOS, sweep
from tests.crash.states import State

NUMBER = os.environ.get("DATAPREP_CRASH_STATE")
"""Of the only state to try, from an earlier failure."""

LIKE_PREPARE = ("exclude", "radiographs")


def check(place: Path, name: str, *kinds: str) -> None:
    def chosen(state: State) -> bool:
        return state.kind in kinds if NUMBER is None else state.number == int(NUMBER)

    found = sweep(SCENARIOS[name](place), chosen)
    again = f"again: DATAPREP_CRASH_STATE=NUMBER pytest tests/crash -k '[{name}]'"
    assert not found.problems, "\n".join([*found.problems, again])
    assert NUMBER or found.states > 3


def test_kills_and_power_cuts_are_healed_by_the_same_command(place: Path) -> None:
    """The everyday part of the sweep below."""
    check(place, "prepare", "kill", "power")


@pytest.mark.thorough
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_state_is_healed_by_the_same_command(place: Path, name: str) -> None:
    # What may be lost alone, `prepare` has lost already.
    check(place, name, "kill", "power", *(("single",) if name not in LIKE_PREPARE else ()))
