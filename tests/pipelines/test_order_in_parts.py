"""Many images are put in order by the engine: the same bytes, and nothing left, whoever dies."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dataprep.tables import order_parts
from tests.conftest import Cli, Made, hashes
from tests.steering import remains

# The command, with very small parts; the process is killed before this part of that step.
_KILLED = """
import os, signal, sys
from dataprep.cli import entry_point
from dataprep.tables import order_parts
order_parts.LARGE, order_parts._PART = 2, 4
step, number = sys.argv.pop(1), int(sys.argv.pop(1))
make = order_parts.make_part
def make_or_die(sort, part):
    if (sort.step, part) == (step, number):
        os.kill(os.getpid(), signal.SIGKILL)
    make(sort, part)
order_parts.make_part = make_or_die
entry_point()
"""


@pytest.fixture(autouse=True)
def _in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_parts, "LARGE", 2)
    monkeypatch.setattr(order_parts, "_PART", 4)


@pytest.mark.parametrize("workers", [1, 2])
def test_it_does_not_show(cli: Cli, tiny: Made, tmp_path: Path, workers: int) -> None:
    result = cli(*tiny.command(tmp_path, "--workers", workers))
    assert result.code == 0, result
    assert "order: train: in " in result.out
    assert hashes(tmp_path) == tiny.files
    assert remains(tmp_path) == []


@pytest.mark.parametrize("shuffle", ["global", "none"])
def test_nor_with_another_shuffle(
    cli: Cli, tiny: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shuffle: str
) -> None:
    words = ("--shuffle", shuffle, "--workers", 1)
    assert cli(*tiny.command(tmp_path / "parts", *words)).code == 0
    monkeypatch.setattr(order_parts, "LARGE", 1 << 30)
    result = cli(*tiny.command(tmp_path / "whole", *words))
    assert "order: " not in result.out
    assert hashes(tmp_path / "parts") == hashes(tmp_path / "whole")


@pytest.mark.parametrize("step", ["scatter", "rank", "gather"])
def test_a_killed_run_begins_the_order_anew(
    cli: Cli, tiny: Made, tmp_path: Path, step: str
) -> None:
    words = tiny.command(tmp_path, "--workers", 1)
    run = [sys.executable, "-c", _KILLED, step, "1", *map(str, words)]
    assert subprocess.run(run, check=False, capture_output=True).returncode == -signal.SIGKILL
    assert [*(tmp_path / ".dataprep").glob(".order-train.*")]
    assert not [*(tmp_path / ".dataprep" / "order").glob("train.json")]
    assert cli(*words).code == 0
    assert hashes(tmp_path) == tiny.files
    assert remains(tmp_path) == []
