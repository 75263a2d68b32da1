"""Does a small job start at once?

``dataprep --help``; ``dataprep folder`` on 100 JPEGs, beside a program that only imports Beam.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks import raw_sets
from benchmarks.measure import Setting, prepared, rounds, run
from benchmarks.tables import Row, Target, compared, figure

_BEAM = "import apache_beam"
_FOLDER = "dataprep folder, 100 JPEGs"


def measure(setting: Setting) -> list[Row]:
    """All of them, in more rounds than others have."""
    few = raw_sets.tree(setting, 100)
    script = Path(sys.executable).with_name("dataprep")
    help_ = [script] if script.exists() else [sys.executable, "-m", "dataprep"]
    programs: dict[str, Callable[[], float]] = {
        "dataprep --help": lambda: run([*help_, "--help"]).seconds,
        _BEAM: lambda: run([sys.executable, "-c", _BEAM]).seconds,
        _FOLDER: lambda: prepared(setting, few / "train", dataset="folder").seconds,
    }
    more = replace(setting, repeat=setting.size(3, 1) * setting.repeat)
    found = rounds(more, "startup", programs, warm_up=[programs[_FOLDER]])
    beam = found[_BEAM]
    against = f"against python -c '{_BEAM}'"
    return [
        figure("dataprep --help", found["dataprep --help"], "s", Target("<=", 0.05, " s")),
        compared(f"{_FOLDER}, {against}", found[_FOLDER], beam, target=Target("<=", 1.5), unit="s"),
    ]
