"""The experiment of docs/reliability.md runs as it stands there: the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, said

PAGE = DOCS / "reliability.md"


@pytest.mark.thorough
def test_the_experiment_finds_the_same_bytes(tmp_path: Path) -> None:
    ((place, block),) = said(r"```sh\n([\s\S]*?)```", PAGE)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-eu"],
        input=block[1],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (place, done.stderr)
    hashes = done.stdout.splitlines()[-3:]
    assert len(set(hashes)) == 1, place
    assert done.stderr.count("Killed") >= 3, "it was to be killed in the middle"
    assert (tmp_path / "one" / "manifest.json").is_file()
