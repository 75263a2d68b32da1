"""How much of the machine a command takes: --nice, --io_limit and the default of --workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dataprep.api.calls import within_limits
from dataprep.errors import UsageError
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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--nice", "20"), "20"),
        (("--nice", "-1"), "-1"),
        (("--io_limit", "200"), "'200': expected 100.0 KB or more"),
        (("--io_limit", "fast"), "'fast': expected a size"),
    ],
)
def test_what_makes_no_sense_is_refused(
    cli: Cli, tiny: Made, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    result = cli(*tiny.command(tmp_path / "out", *words))
    assert result.code == 2
    assert said in result.error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["nice", "io_limit"])
def test_what_binds_only_this_machine_is_refused_where_others_work(option: str) -> None:
    values = {"nice": None, "io_limit": None, option: 5}
    with (
        pytest.raises(UsageError, match=f"--{option} is for the processes that dataprep starts"),
        within_limits(values, here=False),
    ):
        pass
