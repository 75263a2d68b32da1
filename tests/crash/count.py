"""The table of docs/reliability.md: ``python -m tests.crash.count``."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.crash.recorder import quick
from tests.crash.scenarios import SCENARIOS, states_of


def main() -> None:
    total: Counter[str] = Counter()
    for name, scenario in SCENARIOS.items():
        with TemporaryDirectory() as place, quick():
            recording, states = states_of(scenario(Path(place)))
        found = Counter(state.kind for state in states)
        counts = {"operations": len(recording.operations), **found, "states": len(states)}
        total.update(counts)
        sys.stdout.write(_row(name, Counter(counts)))
    sys.stdout.write(_row("all", total))


def _row(name: str, counts: Counter[str]) -> str:
    numbers = (counts[what] for what in ("operations", "kill", "power", "single", "states"))
    return f"| {name} | {' | '.join(f'{number:,}' for number in numbers)} |\n"


if __name__ == "__main__":
    main()
