"""A disk that is too small is refused at once; one that fills up loses nothing that is finished."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from dataprep.synthesize.imagenet import synthesize_imagenet
from tests.conftest import Cli, Made, Raw, Result, Shelf, hashes, leftovers, make, shelf_of
from tests.faults.conftest import commits
from tests.finished_sets import manifest_of

# Runs the command line with a limit on the size of every file, as `ulimit -f` sets it.
_LIMITED = """
import resource, sys
from dataprep.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.exit(main(sys.argv[2:]))
"""
COUNTS = ("--num_shards", "train=4,validation=1")
FULL = ["tfrecord", "lmdb", "hdf5", "parquet"]

Disk = Callable[[str], Path]


@pytest.fixture(scope="module")
def photo_shelf(photos: Made, tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    shelf = shelf_of(photos, tmp_path_factory.mktemp("photo-shelf"))
    for name in FULL:
        shelf(name, *COUNTS)
    return shelf


@contextmanager
def optimism() -> Iterator[None]:
    """The estimate believes that there is room, as it would if others filled the disk later."""
    with pytest.MonkeyPatch.context() as patch:
        usage = "dataprep.jobs.running.build_directory.shutil.disk_usage"
        patch.setattr(usage, lambda path: SimpleNamespace(free=1 << 40))
        yield


@contextmanager
def almost_full(disk: Path, room: int) -> Iterator[None]:
    """So many bytes are free."""
    filler = disk / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(disk).free - room))
    with optimism():
        yield
    filler.unlink()


def check_refused(result: Result, place: Path, out: Path, made: Made) -> None:
    assert result.code == 1
    assert f"error: {place}: no space left while" in result.error
    assert "run the same command again" in result.error
    assert leftovers(out) == []
    assert not (out / "manifest.json").exists()
    # Whatever is there under its final name is whole.
    for name, digest in hashes(out).items():
        assert made.files[name] == digest


def test_a_disk_that_is_too_small_is_refused_before_anything_is_written(
    cli: Cli, photos: Made, small_disk: Disk
) -> None:
    out = small_disk("2m")
    result = cli(*photos.command(out))
    assert result.code == 1
    assert " needed, " in result.error
    assert " free; " in result.error
    assert hashes(out) == {}
    small_disk("32m")
    assert cli(*photos.command(out)).code == 0
    assert hashes(out) == photos.files


@pytest.mark.thorough
def test_a_disk_that_is_full_at_any_time_is_one_clear_line_and_is_healed(
    cli: Cli, photos: Made, small_disk: Disk
) -> None:
    disk = small_disk("64m")
    unclear = {}
    # From a disk that takes not even the lock to one that takes all shards but no manifest.
    for free in (0, 4, 12, 24, 44, 64, 80, 4200, 4400):
        out = disk / "out"
        out.mkdir()
        with almost_full(disk, free * 1024):
            result = cli(*photos.command(out, "--workers", 1))
        if result.code:
            error = result.error
            if "no space left" not in error.lower() or "unexpected" in error or "defect" in error:
                unclear[free] = error
            assert cli(*photos.command(out, "--workers", 1)).code == 0
        assert hashes(out) == photos.files, free
        assert leftovers(out) == [], free
        shutil.rmtree(out)
    assert unclear == {}


@pytest.mark.thorough
def test_a_limit_on_the_size_of_files_is_named(cli: Cli, photos: Made, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = photos.command(out, "--workers", 2)
    result = cli.done(cli.start(*words, program=(sys.executable, "-c", _LIMITED, "300000")))
    assert result.code == 1
    assert "cannot be written while writing" in result.error
    assert "File too large, files may have 300.0 KB here (ulimit -f)" in result.error
    assert leftovers(out) == []
    assert cli(*photos.command(out)).code == 0
    assert hashes(out) == photos.files


# --- every kind of format ---


@pytest.mark.thorough
@pytest.mark.parametrize("name", FULL)
def test_a_disk_that_fills_up_keeps_finished_shards_and_the_run_resumes(
    cli: Cli, photo_shelf: Shelf, small_disk: Disk, name: str
) -> None:
    made = photo_shelf(name, *COUNTS)
    disk = small_disk("64m")
    out = disk / "out"
    largest = max(path.stat().st_size for path in made.out.rglob("*") if path.is_file())
    for room in (largest // 2, largest + largest // 2):
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        with almost_full(disk, room + 65536):
            result = cli(*made.command(out, "--workers", 1))
            check_refused(result, out, out, made)
        kept = {path: path.stat().st_mtime_ns for path in commits(out)}
    assert kept
    assert cli(*made.command(out, "--workers", 2)).code == 0
    assert hashes(out) == made.files
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["lmdb", "hdf5"])
def test_a_full_build_directory_is_the_place_that_is_named(
    cli: Cli, photo_shelf: Shelf, small_disk: Disk, tmp_path: Path, name: str
) -> None:
    made = photo_shelf(name, *COUNTS)
    scratch, out = small_disk("256k"), tmp_path / "out"
    words = made.command(out, "--build_dir", scratch, "--workers", 1)
    result = cli(*words)
    assert result.code == 1
    assert f"error: {scratch}: about " in result.error  # before anything is written
    assert "choose another --build_dir" in result.error
    with optimism():
        check_refused(cli(*words), scratch, out, made)
    assert list(scratch.iterdir()) == []
    small_disk("32m")
    assert cli(*words).code == 0
    assert hashes(out) == made.files
    assert list(scratch.iterdir()) == []


@pytest.mark.thorough
def test_without_room_for_old_and_new_shards_nothing_is_compacted(
    cli: Cli, small_disk: Disk, tmp_path: Path
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


def test_what_is_written_about_a_set_says_that_the_disk_is_full(
    cli: Cli, tiny: Made, small_disk: Disk
) -> None:
    out = tiny.copy(small_disk("8m") / "out")
    with almost_full(out.parent, 4096):
        for words, way_out in {
            ("report", "--no_near"): "choose a file elsewhere (--to)",
            ("card",): "mend that and run the same command again",
        }.items():
            result = cli(words[0], out, *words[1:])
            assert result.code == 2
            assert f"cannot be written: No space left on device; {way_out}" in result.error
    assert leftovers(out) == []
