"""``--append`` killed while it merges: the next run, whichever that is, finishes it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from dataprep.sealed.verify import verify
from tests.conftest import Cli, Made, hashes
from tests.crash.recorder import quick, recorded
from tests.crash.states import crash_states


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


@pytest.fixture
def half_merged(larger: Made, tmp_path: Path) -> Path:
    """A data set whose merge was killed after its first renames."""
    out = tmp_path / "half"
    shutil.copytree(larger.out.with_name("before"), out)
    with quick(), recorded(out) as recording:
        assert Cli()(*larger.command(out, "--append")).code == 0
    merging = [
        state
        for state in crash_states(recording)
        if state.kind == "kill"
        and ".dataprep/grow.json" in state.tree
        and "manifest.json" not in state.tree
    ]
    merging[3].make(out)
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


def test_an_append_that_was_killed_before_its_merge_adds_what_came_meanwhile(
    cli: Cli, larger: Made, tmp_path: Path
) -> None:
    out, raw = tmp_path / "out", larger.raw.copy(tmp_path / "raw")
    shutil.copytree(larger.out.with_name("before"), out)
    with quick(), recorded(out) as recording:
        assert cli(*raw.command(out, "--append")).code == 0
    sealed = (it for it in crash_states(recording) if ".dataprep/append/manifest.json" in it.tree)
    next(it for it in sealed if ".dataprep/grow.json" not in it.tree).make(out)
    add_images(raw.path, 2)
    assert cli(*raw.command(out, "--append")).code == 0
    assert verify(out, "hash", threads=1).problems == ()


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
