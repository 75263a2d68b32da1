"""The table of docs/reliability.md: ``python -m tests.crash.count``."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.crash.recorder import quick
from tests.crash.scenarios import SCENARIOS, chosen_kinds, states_of
from tests.crash.states import sampled

_COLUMNS = ("operations", "kill", "power", "single", "states", "tried")


def main() -> None:
    rows: dict[str, Counter[str]] = {}
    for name, scenario in SCENARIOS.items():
        with TemporaryDirectory() as place, quick():
            recording, states = states_of(scenario(Path(place)))
        kinds = chosen_kinds(name)
        found = Counter[str](it.kind for it in states if it.kind in kinds)
        found += Counter(states=found.total(), operations=len(recording.operations))
        found["tried"] = len(sampled(it for it in states if it.kind in kinds))
        shards = {"1": "every format, one shard", "2": "every format, two shards"}
        for row in (shards.get(name.rpartition("-")[2], name), "all"):
            rows[row] = rows.get(row, Counter()) + found
    rows["all"] = rows.pop("all")
    for row, found in rows.items():
        numbers = (found[what] for what in _COLUMNS)
        sys.stdout.write(f"| {row} | {' | '.join(f'{number:,}' for number in numbers)} |\n")


if __name__ == "__main__":
    main()
