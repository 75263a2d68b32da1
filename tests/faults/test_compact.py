"""``dataprep compact`` killed half way: what goes on with it; tests/crash has every moment."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

import pytest

from dataprep.synthesize.imagenet import synthesize_imagenet
from tests.cli.test_append import manifest_of
from tests.conftest import Cli, Made, Raw, hashes, make
from tests.crash.recorder import quick, recorded
from tests.crash.states import crash_states
from tests.faults.test_append import add_images


def words(out: Path) -> list[str]:
    return ["compact", str(out), "--workers", "1"]


@pytest.fixture(scope="module")
def grown(folders: Made, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """What was added to twice; the bytes are those of the compacted data set."""
    path = tmp_path_factory.mktemp("grown")
    options = ("--fractions", "train=0.7,test=0.3", "--workers", "1")
    raw = replace(folders.raw.copy(path / "raw"), options=options)
    out = folders.copy(path / "out")
    for shade in (1, 2):
        add_images(raw.path, shade)
        assert Cli()(*raw.command(out, "--append")).code == 0
    shutil.copytree(out, path / "whole")
    assert Cli()(*words(path / "whole")).code == 0
    return Made(raw, out, hashes(path / "whole"))


def killed(grown: Made, out: Path, when: Callable[[Collection[str]], bool]) -> Path:
    """A data set whose compaction was killed in the midst of the states that fit."""
    grown.copy(out)
    with quick(), recorded(out) as recording:
        assert Cli()(*words(out)).code == 0
    states = [state for state in crash_states(recording) if state.kind == "kill"]
    fitting = [state for state in states if when(state.tree)]
    fitting[len(fitting) // 2].make(out)
    return out


@pytest.fixture
def half_written(grown: Made, tmp_path: Path) -> Path:
    """Some of the new shards are there."""

    def is_half(tree: Collection[str]) -> bool:
        made = [path for path in tree if "append/.dataprep/commits/" in path]
        return any(path.endswith(".json") for path in made) and "manifest.json" in tree

    out = killed(grown, tmp_path / "half", is_half)
    assert any((out / ".dataprep/append/.dataprep/commits").glob("[!.]*.json"))
    return out


def test_what_was_made_already_is_kept(cli: Cli, grown: Made, half_written: Path) -> None:
    said = cli("status", half_written).out
    assert "sealed, but not finished is what `dataprep compact` was making" in said
    assert "run the same command again" in said
    assert "train: " in said
    assert "already there" in cli(*words(half_written)).out
    assert hashes(half_written) == grown.files


def test_a_set_that_grows_meanwhile_is_compacted_with_that(
    cli: Cli, grown: Made, half_written: Path, tmp_path: Path
) -> None:
    raw = grown.raw.copy(tmp_path / "raw")
    add_images(raw.path, 3)
    whole = grown.copy(tmp_path / "whole")
    for out in (half_written, whole):
        assert cli(*raw.command(out, "--append")).code == 0
        assert cli(*words(out)).code == 0
    assert hashes(half_written) == hashes(whole) != grown.files


def test_the_command_that_adds_finishes_it_first(cli: Cli, grown: Made, tmp_path: Path) -> None:
    journal = ".dataprep/grow.json"
    out = killed(
        grown, tmp_path / "half", lambda tree: journal in tree and "manifest.json" not in tree
    )
    assert "what `dataprep compact` made is not all in its place" in cli("status", out).out
    result = cli(*grown.command(out, "--append"))
    assert "finished what --append or compact had begun" in result.out
    assert "nothing to add" in result.out
    assert hashes(out) == grown.files


def test_without_room_for_both_it_is_refused_before_a_shard_is_written(
    cli: Cli, small_disk: Callable[[str], Path], tmp_path: Path
) -> None:
    disk, raw = small_disk("64m"), Raw(tmp_path / "raw", ("--workers", "1"))
    synthesize_imagenet(raw.path, classes=4, images_per_class=8, validation_images=8)
    made = make(raw, disk / "out", "--num_shards", "train=5,validation=2")
    shutil.rmtree(raw.path)
    synthesize_imagenet(raw.path, classes=4, images_per_class=11, validation_images=8)
    assert cli(*raw.command(made.out, "--append")).code == 0
    files = hashes(made.out)
    filler = disk / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(disk).free - (1 << 20)))
    error = cli("compact", made.out).error
    assert " needed, " in error
    assert "the old shards stay until all new ones are there" in error
    assert hashes(made.out) == files
    filler.unlink()
    assert cli("compact", made.out).code == 0
    assert manifest_of(made.out)["num_shards"] == {"train": 7, "validation": 2}
