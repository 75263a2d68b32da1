"""The index, with the restart points of gzip archives, is reused only while it is what it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dataprep.synthesize.chestxray14 import synthesize_chestxray14
from tests.conftest import Cli, Made, Raw, hashes, make


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The images of 40 patients in two gzip archives."""
    path = tmp_path_factory.mktemp("restarts")
    synthesize_chestxray14(path / "raw", patients=40, archives=2, size=8)
    options = ("--num_shards", "1", "--validation_fraction", "0.3", "--workers", "1")
    raw = Raw(path / "raw", options, "chestxray14")
    return make(raw, path / "out", "--index_dir", path / "index")


def begun(made: Made, out: Path) -> list[Path]:
    """Leave an index and nothing else, as a kill does; returns its restart points."""
    assert make(made.raw, out).files == made.files
    private = out / ".dataprep"
    for path in (*out.iterdir(), *private.iterdir()):
        if path not in (private, private / "index"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    restarts = sorted((private / "index").glob("*.restarts"))
    assert len(restarts) == 2
    return restarts


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [Path.unlink, flip])
def test_restart_points_lost_or_damaged_after_a_kill_are_made_again(
    cli: Cli, few: Made, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    restarts = begun(few, tmp_path)
    whole = restarts[0].read_bytes()
    damage(restarts[0])
    result = cli(*few.command(tmp_path))
    assert result.code == 0, result
    assert restarts[0].read_bytes() == whole
    assert hashes(tmp_path) == few.files


OTHERWISE = [("--validation_fraction", "0.6"), ("--split_seed", "7")]


@pytest.mark.parametrize("more", OTHERWISE, ids=lambda more: more[0].strip("-"))
def test_an_index_of_another_split_is_not_reused(
    few: Made, tmp_path: Path, more: tuple[str, str]
) -> None:
    anew = make(few.raw, tmp_path / "anew", *more).files
    assert {name for name in anew if anew[name] != few.files[name]} > {"manifest.json"}
    index = shutil.copytree(few.out.parent / "index", tmp_path / "index")
    assert make(few.raw, tmp_path / "shared", "--index_dir", index, *more).files == anew
    begun(few, tmp_path / "same")
    assert make(few.raw, tmp_path / "same", *more).files == anew
