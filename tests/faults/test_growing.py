"""``--append`` and ``dataprep compact`` killed half way: what goes on with them.

tests/crash has every moment, and the same command after it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

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


def compacting(out: Path) -> list[str]:
    return ["compact", str(out), "--workers", "1"]


@pytest.fixture(scope="module")
def grown(folders: Made, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """What was added to once, with images for a second time in its raw data."""
    path = tmp_path_factory.mktemp("grown")
    options = ("--fractions", "train=0.7,test=0.3", "--workers", "1")
    raw = replace(folders.raw.copy(path / "raw"), options=options)
    out = folders.copy(path / "out")
    add_images(raw.path, 1)
    assert Cli()(*raw.command(out, "--append")).code == 0
    add_images(raw.path, 2)
    return Made(raw, out, hashes(out))


def after(grown: Made, out: Path, *commands: list[str]) -> Made:
    """What a copy of the data set is after these commands."""
    grown.copy(out)
    for words in commands:
        assert Cli()(*words).code == 0
    return replace(grown, out=out, files=hashes(out))


@pytest.fixture(scope="module")
def appended(grown: Made, tmp_path_factory: pytest.TempPathFactory) -> Made:
    out = tmp_path_factory.mktemp("appended") / "out"
    return after(grown, out, grown.command(out, "--append"))


@pytest.fixture(scope="module")
def compacted(grown: Made, tmp_path_factory: pytest.TempPathFactory) -> Made:
    out = tmp_path_factory.mktemp("compacted") / "out"
    return after(grown, out, compacting(out))


def killed(
    grown: Made, out: Path, words: list[str], when: Callable[[Collection[str]], bool]
) -> Path:
    """A data set of which a command was killed in the midst of the states that fit."""
    grown.copy(out)
    with quick(), recorded(out) as recording:
        assert Cli()(*words).code == 0
    states = [state for state in crash_states(recording) if state.kind == "kill"]
    fitting = [state for state in states if when(state.tree)]
    fitting[len(fitting) // 2].make(out)
    return out


def is_merging(tree: Collection[str]) -> bool:
    return ".dataprep/grow.json" in tree and "manifest.json" not in tree


def is_writing(tree: Collection[str]) -> bool:
    made = [path for path in tree if "append/.dataprep/commits/" in path]
    return any(path.endswith(".json") for path in made) and "manifest.json" in tree


@pytest.fixture
def half_merged(grown: Made, tmp_path: Path) -> Path:
    """A data set to which something is half added."""
    out = tmp_path / "half"
    return killed(grown, out, grown.command(out, "--append"), is_merging)


@pytest.fixture
def half_compacted(grown: Made, tmp_path: Path) -> Path:
    """Some of the new shards are there."""
    out = tmp_path / "half"
    return killed(grown, out, compacting(out), is_writing)


# --- adding ---


def test_any_run_finishes_a_merge_first(cli: Cli, appended: Made, half_merged: Path) -> None:
    result = cli(*appended.command(half_merged))
    assert "finished what --append or compact had begun" in result.out
    assert "grew by --append" in result.error
    assert hashes(half_merged) == appended.files


def test_status_names_the_command_that_was_merging(cli: Cli, grown: Made, tmp_path: Path) -> None:
    words = grown.command(tmp_path / "half", "--append")
    killed(grown, tmp_path / "half", words, is_merging)
    said = cli("status", tmp_path / "half").out
    assert "run the same command again to finish" in said


def test_a_merge_that_lost_a_file_says_which_and_what_to_do(
    cli: Cli, grown: Made, half_merged: Path
) -> None:
    journal = json.loads((half_merged / ".dataprep" / "grow.json").read_bytes())
    for name in journal["renames"][-2]:
        (half_merged / name).unlink(missing_ok=True)
    result = cli(*grown.command(half_merged, "--append"))
    assert "is gone" in result.error
    assert "move the directory away" in result.error


@pytest.mark.parametrize("merging", [True, False])
def test_another_append_after_a_killed_one_adds_what_came_meanwhile(
    cli: Cli, grown: Made, appended: Made, tmp_path: Path, merging: bool
) -> None:
    """A merge that was begun is a generation of its own, as if the first run had not been killed.

    What was only sealed, to be merged, is made anew with what came.
    """

    def is_sealed(tree: Collection[str]) -> bool:
        return ".dataprep/append/manifest.json" in tree and ".dataprep/grow.json" not in tree

    half = tmp_path / "half"
    killed(grown, half, grown.command(half, "--append"), is_merging if merging else is_sealed)
    raw = grown.raw.copy(tmp_path / "raw")
    add_images(raw.path, 3)
    whole = (appended if merging else grown).copy(tmp_path / "whole")
    for out in (half, whole):
        assert cli(*raw.command(out, "--append")).code == 0
    assert hashes(half) == hashes(whole)


# --- compacting ---


def test_what_was_made_already_is_kept(cli: Cli, compacted: Made, half_compacted: Path) -> None:
    said = cli("status", half_compacted).out
    assert "sealed, but not finished is what --append or `dataprep compact` was making" in said
    assert "run the same command again" in said
    assert "train: " in said
    assert "already there" in cli(*compacting(half_compacted)).out
    assert hashes(half_compacted) == compacted.files


def test_a_set_that_grows_meanwhile_is_compacted_with_that(
    cli: Cli, grown: Made, compacted: Made, half_compacted: Path, tmp_path: Path
) -> None:
    whole = grown.copy(tmp_path / "whole")
    for out in (half_compacted, whole):
        assert cli(*grown.command(out, "--append")).code == 0
        assert cli(*compacting(out)).code == 0
    assert hashes(half_compacted) == hashes(whole) != compacted.files


def test_the_command_that_adds_finishes_it_first(cli: Cli, appended: Made, tmp_path: Path) -> None:
    out = tmp_path / "half"
    whole = after(appended, tmp_path / "whole", compacting(tmp_path / "whole"))
    killed(appended, out, compacting(out), is_merging)
    assert (
        "what --append or `dataprep compact` made is not all in its place" in cli("status", out).out
    )
    result = cli(*appended.command(out, "--append"))
    assert "finished what --append or compact had begun" in result.out
    assert "nothing to add" in result.out
    assert hashes(out) == whole.files
