"""``--append`` killed at any moment: the same command ends with the same bytes."""

from __future__ import annotations

import json
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from dataprep.build.verify import verify
from tests.conftest import Cli, Made, hashes, leftovers
from tests.faults.conftest import Forks

# What a merge changes, and beside that what an append does. Nothing of the lock, whose kills are
# others' tests: a run waits half a minute for a guard that was left.
MERGED = (
    *(".dataprep/.grow.json", ".dataprep/grow.json", ".dataprep/.job.json"),
    *("manifest.json", ".manifest.json", "records.parquet", "index", "test", "train"),
)
CHANGED = (*MERGED, ".dataprep/append", ".dataprep/index")


def add_images(raw: Path, shade: int) -> None:
    """Three of a known class, and three of a new one."""
    for name in ("bar", f"new{shade}"):
        (raw / name).mkdir(exist_ok=True)
        for number in range(3):
            colour = (number, shade, 40)
            Image.new("RGB", (16, 16), colour).save(raw / name / f"{shade}-{number}.jpg", "JPEG")


@pytest.fixture(scope="module")
def larger(folders: Made, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """What is added to is in ``before``; the bytes are those of the grown data set."""
    path = tmp_path_factory.mktemp("larger")
    options = ("--fractions", "train=0.7,test=0.3", "--workers", "1")
    raw = replace(folders.raw.copy(path / "raw"), options=options)
    folders.copy(path / "before")
    add_images(raw.path, 1)
    folders.copy(path / "out")
    assert Cli()(*raw.command(path / "out", "--append")).code == 0
    return Made(raw, path / "out", hashes(path / "out"))


@pytest.mark.parametrize("every", [10, pytest.param(2, marks=pytest.mark.thorough)])
def test_a_kill_before_any_change_is_healed_by_the_same_command(
    cli: Cli, larger: Made, forks: Forks, tmp_path: Path, every: int
) -> None:
    """Also one of the run that finishes what the first one began."""
    out, words = tmp_path / "out", larger.command(tmp_path / "out", "--append")
    before = larger.out.with_name("before")
    merging = 0
    changed = [out / name for name in CHANGED]
    for step in range(1, 400, every):
        shutil.copytree(before, out)
        if forks.run(words, step=step, out=changed) == 0:
            break
        if (out / ".dataprep" / "grow.json").exists():
            merging += 1
            assert "run the same command again" in cli("status", out).out
            again = forks.run(words, step=merging, out=[out / name for name in MERGED])
            assert again in (-signal.SIGKILL, 0)
        else:
            assert verify(out, "hash", threads=1).problems == ()  # as it was, or grown
        result = cli(*words)
        assert result.code == 0, (step, result)
        assert hashes(out) == larger.files, step
        assert leftovers(out) == [], step
        private = {path.name for path in (out / ".dataprep").iterdir()}
        assert not private & {"append", "grow.json"}, step
        shutil.rmtree(out)
    assert step > 50
    assert merging > 30 // every


@pytest.fixture
def half_merged(larger: Made, forks: Forks, tmp_path: Path) -> Path:
    """A data set whose merge was killed after its first renames."""
    out = tmp_path / "half"
    shutil.copytree(larger.out.with_name("before"), out)
    words = larger.command(out, "--append")
    assert forks.run(words, step=8, out=[out / name for name in MERGED]) == -signal.SIGKILL
    assert (out / ".dataprep" / "grow.json").exists()
    assert not (out / "manifest.json").exists()
    return out


def test_any_run_finishes_a_merge_first(cli: Cli, larger: Made, half_merged: Path) -> None:
    result = cli(*larger.command(half_merged))
    assert "finished what --append or compact had begun" in result.out
    assert "grew by --append" in result.error
    assert hashes(half_merged) == larger.files


def test_a_merge_that_lost_a_file_says_which_and_can_be_overwritten(
    cli: Cli, larger: Made, half_merged: Path
) -> None:
    journal = json.loads((half_merged / ".dataprep" / "grow.json").read_bytes())
    for name in journal["renames"][-2]:
        (half_merged / name).unlink(missing_ok=True)
    result = cli(*larger.command(half_merged, "--append"))
    assert "is gone" in result.error
    assert cli(*larger.command(half_merged, "--overwrite")).code == 0
    assert verify(half_merged, "hash", threads=1).problems == ()
    named = json.loads((half_merged / "manifest.json").read_bytes())["num_shards"]
    assert len([*half_merged.glob("*/*-of-*")]) == sum(named.values())


def test_another_append_after_a_killed_one_adds_what_came_meanwhile(
    cli: Cli, larger: Made, half_merged: Path, tmp_path: Path
) -> None:
    """The merge is a generation of its own, as if the first run had not been killed."""
    raw = larger.raw.copy(tmp_path / "raw")
    add_images(raw.path, 2)
    whole = larger.copy(tmp_path / "whole")
    for out in (half_merged, whole):
        assert cli(*raw.command(out, "--append")).code == 0
    assert hashes(half_merged) == hashes(whole)
