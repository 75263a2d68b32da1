"""``dataprep compact`` killed at any moment: the same command ends with the same bytes."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dataprep.synthesize.imagenet import synthesize_imagenet
from tests.cli.test_append import manifest_of
from tests.conftest import Cli, Made, Raw, hashes, leftovers, make
from tests.faults.conftest import Forks
from tests.faults.test_append import CHANGED, MERGED, add_images


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


@pytest.mark.parametrize("every", [20, pytest.param(2, marks=pytest.mark.thorough)])
def test_a_kill_before_any_change_is_healed_by_the_same_command(
    cli: Cli, grown: Made, forks: Forks, tmp_path: Path, every: int
) -> None:
    """Also one of the run that finishes what the first one began."""
    out, before = tmp_path / "out", hashes(grown.out)
    merging = 0
    for step in range(1, 400, every):
        grown.copy(out)
        if forks.run(words(out), step=step, out=[out / name for name in CHANGED]) == 0:
            break
        if (out / ".dataprep" / "grow.json").exists():
            merging += 1
            said = cli("status", out).out
            assert "what `dataprep compact` made is not all in its place" in said
            again = forks.run(words(out), step=merging, out=[out / name for name in MERGED])
            assert again in (-signal.SIGKILL, 0)
        else:
            assert hashes(out) in (before, grown.files), step
        result = cli(*words(out))
        assert result.code == 0, (step, result)
        assert hashes(out) == grown.files, step
        assert leftovers(out) == [], step
        private = {path.name for path in (out / ".dataprep").iterdir()}
        assert not private & {"append", "grow.json"}, step
        shutil.rmtree(out)
    assert 100 < step < 390
    assert merging > 30 // every


@pytest.fixture
def half_written(grown: Made, forks: Forks, tmp_path: Path) -> Path:
    """A data set whose compaction was killed when some of the new shards were there."""
    out = grown.copy(tmp_path / "half")
    place = out / ".dataprep" / "append" / ".dataprep" / "commits"
    assert forks.run(words(out), step=16, out=place) == -signal.SIGKILL
    assert any(place.glob("[!.]*.json"))
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


def test_the_command_that_adds_finishes_it_first(
    cli: Cli, grown: Made, forks: Forks, tmp_path: Path
) -> None:
    out = grown.copy(tmp_path / "half")
    code = forks.run(words(out), step=10, out=[out / name for name in MERGED])
    assert code == -signal.SIGKILL
    assert not (out / "manifest.json").exists()
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
