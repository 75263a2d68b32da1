"""The simulated table of docs/performance.md is what the cost model says today."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_document_has_the_model_s_tables() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "benchmarks.staging_simulated"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert printed.count("1536 nodes") == 3
    assert printed.rstrip("\n") in (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
