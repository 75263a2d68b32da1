"""How much of the machine a command takes: --nice, --io_limit and the default of --workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Cli, Made, hashes

# Runs the command line and tells how nice it was in the end.
_NICENESS = """
import os, sys
from dataprep.cli import main
code = main(sys.argv[1:])
print(code, os.getpriority(os.PRIO_PROCESS, 0))
"""


@pytest.mark.parametrize("command", ["imagenet", "convert"])
def test_a_nice_command_is_nice(tiny: Made, tmp_path: Path, command: str) -> None:
    out = tmp_path / "out"
    words = tiny.command(out)
    if command == "convert":
        words = ["convert", str(tiny.out), "--to", str(out), "--sink", "recordio"]
    done = subprocess.run(
        [sys.executable, "-c", _NICENESS, *words, "--nice", "11"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    level = max(11, os.getpriority(os.PRIO_PROCESS, 0))
    assert done.stdout.splitlines()[-1] == f"0 {level}"


@pytest.mark.parametrize("workers", [1, 6])
def test_a_bound_changes_no_byte(cli: Cli, tiny: Made, tmp_path: Path, workers: int) -> None:
    words = tiny.command(tmp_path / "out", "--workers", workers, "--io_limit", "1GB")
    assert cli(*words).code == 0
    assert hashes(tmp_path / "out") == tiny.files
