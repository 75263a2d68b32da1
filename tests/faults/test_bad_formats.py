"""Every kind of format on a full disk: one clear line, nothing half made."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import Cli, Made, Shelf, hashes, leftovers, shelf_of
from tests.faults.conftest import commits
from tests.faults.test_full_disk import free_bytes

COUNTS = ("--num_shards", "train=4,validation=1")
FULL = ["tfrecord", "lmdb", "hdf5", "parquet"]


@pytest.fixture(scope="module")
def photo_shelf(photos: Made, tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    shelf = shelf_of(photos, tmp_path_factory.mktemp("photo-shelf"))
    for name in FULL:
        shelf(name, *COUNTS)
    return shelf


@pytest.fixture
def optimist(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The estimate believes that there is room, as it would if others filled the disk later."""
    believe_in_room(monkeypatch)
    return monkeypatch


def believe_in_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "dataprep.jobs.build_directory.shutil.disk_usage",
        lambda path: SimpleNamespace(free=1 << 40),
    )


def check_refused(result: object, place: Path, out: Path, made: Made) -> None:
    error = result.error  # type: ignore[attr-defined]
    assert result.code == 1  # type: ignore[attr-defined]
    assert f"error: {place}: no space left while" in error, error
    assert "run the same command again" in error
    assert leftovers(out) == []
    assert not (out / "manifest.json").exists()
    # Whatever is there under its final name is whole.
    for name, digest in hashes(out).items():
        assert made.files[name] == digest


# --- full disks ---


@pytest.mark.parametrize("name", FULL)
def test_a_disk_that_fills_up_keeps_finished_shards_and_the_run_resumes(
    cli: Cli,
    photo_shelf: Shelf,
    small_disk: Callable[[str], Path],
    optimist: pytest.MonkeyPatch,
    name: str,
) -> None:
    made = photo_shelf(name, *COUNTS)
    disk = small_disk("64m")
    largest = max(path.stat().st_size for path in made.out.rglob("*") if path.is_file())
    for room in (largest // 2, largest + largest // 2):
        out = disk / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        filler = disk / "filler"
        filler.write_bytes(bytes(free_bytes(disk) - room - 65536))
        result = cli(*made.command(out, "--workers", 1))
        check_refused(result, out, out, made)
        kept = {path: path.stat().st_mtime_ns for path in commits(out)}
        filler.unlink()
    assert kept
    optimist.undo()
    assert cli(*made.command(out, "--workers", 2)).code == 0
    assert hashes(out) == made.files
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


@pytest.mark.parametrize("name", ["lmdb", "hdf5"])
def test_a_full_build_directory_is_the_place_that_is_named(
    cli: Cli,
    photo_shelf: Shelf,
    small_disk: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
) -> None:
    made = photo_shelf(name, *COUNTS)
    scratch, out = small_disk("256k"), tmp_path / "out"
    result = cli(*made.command(out, "--build_dir", scratch, "--workers", 1))
    assert result.code == 1
    assert f"error: {scratch}: about " in result.error  # before anything is written
    assert "choose another --build_dir" in result.error
    with monkeypatch.context() as patch:
        believe_in_room(patch)
        result = cli(*made.command(out, "--build_dir", scratch, "--workers", 1))
    check_refused(result, scratch, out, made)
    assert list(scratch.iterdir()) == []
    small_disk("32m")
    assert cli(*made.command(out, "--build_dir", scratch)).code == 0
    assert hashes(out) == made.files
    assert list(scratch.iterdir()) == []


def test_a_target_that_is_full_at_the_very_end_is_one_line(
    cli: Cli,
    tiny: Made,
    small_disk: Callable[[str], Path],
    optimist: pytest.MonkeyPatch,
    shelf: Shelf,
) -> None:
    """When only the files that are made once a split, or the manifest, find no room."""
    made = shelf("hdf5-caffe", "--num_shards", 2)
    disk = small_disk("8m")
    out = disk / "out"
    assert cli(*made.command(out)).code == 0
    refused = 0
    ends = [out / "train.txt", out / "validation.txt", out / "manifest.json"]
    for room in (0, 4, 16, 28):
        for path in ends:
            path.unlink(missing_ok=True)
        (disk / "filler").write_bytes(bytes(free_bytes(disk) - room * 1024))
        result = cli(*made.command(out))
        (disk / "filler").unlink()
        if result.code:
            refused += 1
            assert "no space left" in result.error.lower(), result.error
            assert "unexpected" not in result.error
            assert leftovers(out) == []
    assert refused == 4
    assert cli(*made.command(out)).code == 0
    assert hashes(out) == made.files


# --- places that cannot be written to ---


# --- what a format cannot hold ---
