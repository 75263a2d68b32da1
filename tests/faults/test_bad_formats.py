"""Every format on a full disk, and given what it cannot hold: one clear line, nothing half made."""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image

from tests.conftest import Cli, Made, Shelf, hashes, leftovers, shelf_of
from tests.faults.conftest import commits
from tests.faults.test_full_disk import free_bytes

COUNTS = ("--num_shards", "train=4,validation=1")
FULL = ["tfrecord", "lmdb", "lmdb-raw", "hdf5"]


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
        "dataprep.build.build_directory.shutil.disk_usage",
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
    assert kept or name == "lmdb-raw"
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


@pytest.mark.parametrize("name", ["lmdb", "hdf5"])
def test_a_full_target_is_named_although_there_is_room_to_build(
    cli: Cli,
    photo_shelf: Shelf,
    small_disk: Callable[[str], Path],
    optimist: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
) -> None:
    made = photo_shelf(name, *COUNTS)
    out, scratch = small_disk("1m"), tmp_path / "scratch"
    scratch.mkdir()
    result = cli(*made.command(out, "--build_dir", scratch, "--workers", 1))
    check_refused(result, out, out, made)
    assert list(scratch.iterdir()) == []
    small_disk("32m")
    assert cli(*made.command(out, "--build_dir", scratch)).code == 0
    assert hashes(out) == made.files


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


@pytest.mark.parametrize("name", ["lmdb", "hdf5", "recordio"])
def test_a_directory_that_may_not_be_written_is_one_line(
    cli: Cli,
    shelf: Shelf,
    public_path: Path,
    ordinary_user: Callable[[], AbstractContextManager[None]],
    name: str,
) -> None:
    made = shelf(name, "--num_shards", 2)
    out, raw = public_path / "out", public_path / "raw"
    shutil.copytree(made.raw.path, raw)
    words = made.command(out, "--workers", 1, "--index_dir", public_path / "index")
    words[words.index(str(made.raw.path))] = str(raw)
    with ordinary_user():
        assert cli(*words).code == 0
        victim = next(out / name for name in made.files if name.startswith("train"))
        victim.unlink()
        victim.parent.chmod(0o555)
        result = cli(*words)
        victim.parent.chmod(0o755)
        assert result.code == 1
        assert "cannot be written" in result.error
        assert "Permission denied" in result.error
        assert leftovers(out) == []
        assert cli(*words).code == 0
    assert hashes(out) == made.files


# --- what a format cannot hold ---


def test_a_name_too_long_for_lmdb_is_named(cli: Cli, tmp_path: Path) -> None:
    """No file system would hold it, but a tar archive does."""
    picture = io.BytesIO()
    Image.new("RGB", (16, 16)).save(picture, "JPEG")
    (tmp_path / "raw" / "train").mkdir(parents=True)
    name = f"n01440764_{'x' * 600}.JPEG"
    with tarfile.open(tmp_path / "raw" / "train" / "n01440764.tar", "w") as archive:
        for each in ("n01440764_1.JPEG", name):
            member = tarfile.TarInfo(each)
            member.size = len(picture.getvalue())
            archive.addfile(member, io.BytesIO(picture.getvalue()))
    words = ["imagenet", "--raw_data_dir", tmp_path / "raw", "--splits", "train"]
    for sink in ("lmdb", "tfrecord"):
        out = tmp_path / sink
        result = cli(*words, "--local_scratch_dir", out, "--sink", sink)
        if sink == "tfrecord":
            assert result.code == 0, result
            break
        assert result.code == 1
        assert "xxx.JPEG" in result.error
        assert "LMDB holds at most 511" in result.error
        assert hashes(out) == {}
        assert leftovers(out) == []
    # A finished data set is no better.
    result = cli("convert", tmp_path / "tfrecord", "--to", tmp_path / "new", "--sink", "lmdb")
    assert result.code == 1
    assert "LMDB holds at most 511" in result.error
    assert hashes(tmp_path / "new") == {}
    assert leftovers(tmp_path) == []


def test_an_image_too_large_for_recordio_is_named(
    cli: Cli, photos: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2^29 bytes; here 64 KiB."""
    monkeypatch.setattr("dataprep.sinks.recordio.LENGTH_LIMIT", 1 << 16)
    out = tmp_path / "out"
    result = cli(*photos.command(out, "--sink", "recordio", "--workers", 1))
    assert result.code == 1
    assert "RecordIO holds less than 65536 in a record" in result.error
    assert ".JPEG" in result.error
    assert "unexpected" not in result.error
    assert leftovers(out) == []
    assert len(commits(out)) == sum(name.endswith(".rec") for name in hashes(out))
