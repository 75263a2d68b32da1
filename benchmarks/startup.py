"""Does a small job start at once?

``dataprep --help``; ``dataprep folder`` on 100 JPEGs and ``dataprep imagenet --limit 100`` over
1,000 class folders, beside a program that only imports Beam, which both of them need.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks import raw_sets
from benchmarks.measure import Setting, prepared, rounds, run
from benchmarks.tables import Row, Target, compared, figure

_BEAM = "import apache_beam"
_FOLDER, _LIMIT = "dataprep folder, 100 JPEGs", "dataprep imagenet --limit 100, 1,000 class folders"


def measure(setting: Setting) -> list[Row]:
    """All of them in ten rounds."""
    few, many = raw_sets.tree(setting, 100), raw_sets.class_folders(setting, 1000)
    script = Path(sys.executable).with_name("dataprep")
    help_ = [script] if script.exists() else [sys.executable, "-m", "dataprep"]
    programs: dict[str, Callable[[], float]] = {
        "dataprep --help": lambda: run([*help_, "--help"]).seconds,
        _BEAM: lambda: run([sys.executable, "-c", _BEAM]).seconds,
        _FOLDER: lambda: prepared(setting, few / "train", dataset="folder").seconds,
        _LIMIT: lambda: prepared(setting, many, "--splits", "train", "--limit", "100").seconds,
    }
    found: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(setting.size(3, 1)):
        measured = rounds(setting, "startup", programs, warm_up=[partial(programs[_FOLDER])])
        for name, seconds in measured.items():
            found[name] += seconds
    beam = found[_BEAM]
    against = f"against python -c '{_BEAM}'"
    return [
        figure("dataprep --help", found["dataprep --help"], "s", Target("<=", 0.05, " s")),
        compared(f"{_FOLDER}, {against}", found[_FOLDER], beam, target=Target("<=", 1.5), unit="s"),
        compared(f"{_LIMIT}, {against}", found[_LIMIT], beam, target=Target("<=", 2.5), unit="s"),
    ]
