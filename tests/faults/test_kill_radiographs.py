"""Radiographs, killed before any change: the same command ends with the same bytes.

What is not in `test_kill`: archives with restart points, three splits, and files for what is
missing.
"""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from dataprep.synthesize.chestxray14 import synthesize_chestxray14
from tests.conftest import Cli, Made, Raw, hashes, leftovers, make
from tests.faults.conftest import Forks


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """13 images of 6 patients in two archives; one is missing, one unlisted, one truncated."""
    path = tmp_path_factory.mktemp("few")
    synthesize_chestxray14(path / "raw", patients=6, archives=2, size=8, defects=True)
    options = ("--num_shards", "1", "--max_bad", "3", "--workers", "1")
    split = ("--split", "random-by-patient", "--test_fraction", "0.4", "--validation_fraction", "0")
    made = make(Raw(path / "raw", (*split, *options), "chestxray14"), path / "out")
    assert {"records.parquet", "manifest.json"} < made.files.keys()
    return made


def check_kills(cli: Cli, made: Made, forks: Forks, out: Path, steps: range) -> int:
    """Kill a run before each of these changes, and heal it; returns how many kills there were."""
    for number, step in enumerate(steps):
        code = forks.run(made.command(out), step=step, out=out)
        if code == 0:
            return number
        assert code == -signal.SIGKILL
        result = cli(*made.command(out))
        assert result.code == 0, (step, result)
        assert hashes(out) == made.files, step
        assert leftovers(out) == [], step
        shutil.rmtree(out, ignore_errors=True)
    raise AssertionError(f"more than {steps.stop} changes")


def test_a_killed_run_over_radiographs_is_healed_by_the_same_command(
    cli: Cli, few: Made, forks: Forks, tmp_path: Path
) -> None:
    assert check_kills(cli, few, forks, tmp_path / "out", range(3, 200, 7)) > 6


def test_a_killed_run_over_folders_is_healed_by_the_same_command(
    cli: Cli, folders: Made, forks: Forks, tmp_path: Path
) -> None:
    assert check_kills(cli, folders, forks, tmp_path / "out", range(17, 200, 40)) > 0


def test_a_kill_before_missing_images_are_refused_changes_nothing(
    cli: Cli, few: Made, forks: Forks, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    refused = few.command(out, "--max_bad", "0")
    assert cli(*refused).code == 3
    named = (out / ".dataprep" / "unmatched.csv").read_bytes()
    assert hashes(out) == {}
    shutil.rmtree(out)
    for step in range(4, 200, 9):
        code = forks.run(refused, step=step, out=out)
        if code == 3:
            break
        assert code == -signal.SIGKILL
        assert cli(*refused).code == 3, step
        assert hashes(out) == {}, step
        assert (out / ".dataprep" / "unmatched.csv").read_bytes() == named, step
        assert leftovers(out) == [], step
        shutil.rmtree(out)
    assert step > 9
    assert cli(*few.command(out)).code == 0
    assert hashes(out) == few.files
