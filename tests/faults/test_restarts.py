"""The index, with the restart points of gzip archives, is reused only while it is what it was."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from dataprep.synthesize.chestxray14 import synthesize_chestxray14
from tests.conftest import Cli, Made, Raw, hashes, make
from tests.faults.conftest import Forks


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The images of 40 patients in two gzip archives."""
    path = tmp_path_factory.mktemp("restarts")
    synthesize_chestxray14(path / "raw", patients=40, archives=2, size=8)
    options = ("--num_shards", "1", "--validation_fraction", "0.3", "--workers", "1")
    raw = Raw(path / "raw", options, "chestxray14")
    return make(raw, path / "out", "--index_dir", path / "index")


def killed_before_its_first_shard(forks: Forks, made: Made, out: Path) -> list[Path]:
    """Leave an index and nothing else; returns its restart points."""
    assert forks.run(made.command(out), step=1, out=out / "train") == -signal.SIGKILL
    assert not (out / "manifest.json").exists()
    restarts = sorted((out / ".dataprep" / "index").glob("*.restarts"))
    assert len(restarts) == 2
    return restarts


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [Path.unlink, flip])
def test_restart_points_lost_or_damaged_after_a_kill_are_made_again(
    cli: Cli, few: Made, forks: Forks, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    restarts = killed_before_its_first_shard(forks, few, tmp_path)
    whole = restarts[0].read_bytes()
    damage(restarts[0])
    result = cli(*few.command(tmp_path))
    assert result.code == 0, result
    assert restarts[0].read_bytes() == whole
    assert hashes(tmp_path) == few.files


OTHERWISE = [("--validation_fraction", "0.6"), ("--split_seed", "7")]


@pytest.mark.parametrize("more", OTHERWISE, ids=lambda more: more[0].strip("-"))
def test_an_index_of_another_split_is_not_reused(
    few: Made, forks: Forks, tmp_path: Path, more: tuple[str, str]
) -> None:
    anew = make(few.raw, tmp_path / "anew", *more).files
    assert {name for name in anew if anew[name] != few.files[name]} > {"manifest.json"}
    index = shutil.copytree(few.out.parent / "index", tmp_path / "index")
    assert make(few.raw, tmp_path / "shared", "--index_dir", index, *more).files == anew
    killed_before_its_first_shard(forks, few, tmp_path / "same")
    assert make(few.raw, tmp_path / "same", *more).files == anew
