"""A whole data set in a directory or an archive, for a colleague: whole, or none, and checked."""

from __future__ import annotations

import signal
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

import dataprep
from dataprep.errors import DatasetError, SinkError, UsageError
from dataprep.sealed.set import SealedSet
from tests.conftest import Cli, Made, hashes
from tests.datasets.packing import ones, write_folders


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def shard_of(out: Path) -> Path:
    return out / SealedSet.read(out).manifest.files()[-1].path


def test_a_directory_gets_the_files_and_nothing_else(tiny: Made, tmp_path: Path) -> None:
    to = tmp_path / "disk" / "set"
    planned = dataprep.push(tiny.out, to, dry_run=True)
    assert not to.exists()
    done = dataprep.push(tiny.out, to)
    assert (planned.uploaded, done.uploaded) == (done.files, done.files)
    assert hashes(to) == hashes(tiny.out)
    assert dataprep.verify(to, level="decode").problems == ()
    assert dataprep.push(tiny.out, to).uploaded == 0
    damage(shard_of(to))
    (to / "manifest.json").unlink()
    shard_of(tiny.out)  # is whole here
    assert dataprep.push(tiny.out, to).uploaded == 2
    assert hashes(to) == hashes(tiny.out)


def test_a_damaged_shard_leaves_no_set_there(tiny: Made, tmp_path: Path) -> None:
    out, to = tiny.copy(tmp_path / "out"), tmp_path / "to"
    damage(shard_of(out))
    for place in (to, tmp_path / "to.tar"):
        with pytest.raises(DatasetError, match="is not what the manifest says; `dataprep verify`"):
            dataprep.push(out, place)
    assert not (to / "manifest.json").exists()
    assert not (to / shard_of(out).relative_to(out)).exists()
    assert not list(to.rglob("*.part"))
    assert [path.name for path in tmp_path.glob("*.tar*")] == []


def test_a_set_that_grew_takes_its_place_and_another_does_not(tmp_path: Path) -> None:
    raw, out, to = tmp_path / "raw", tmp_path / "out", tmp_path / "to"
    write_folders(raw, ones())
    dataprep.folder(raw, out, num_shards=2)
    dataprep.push(out, to)
    (to / "note.txt").write_text("mine")
    write_folders(raw, [one._replace(key=f"{one.key}.png") for one in ones(9)])
    dataprep.folder(raw, out, append=True)
    dataprep.push(out, to)
    assert hashes(out).items() <= hashes(to).items()
    assert dataprep.verify(to).problems == ()
    other = tmp_path / "other"
    dataprep.folder(raw, other, seed=1, limit=5)
    with pytest.raises(DatasetError, match=r"has another data set .* does not descend from"):
        dataprep.push(other, to)
    found = dataprep.push(other, to, overwrite=True, delete_others=True)
    assert found.deleted >= 1
    assert hashes(to) == hashes(other)


@pytest.mark.thorough
def test_killed_at_any_moment_it_is_none_and_then_whole(tiny: Made, tmp_path: Path) -> None:
    to, archive = tmp_path / "to", tmp_path / "to.tar"
    for seconds in (0.2, 0.4, 0.6, 0.8):
        for place in (to, archive):
            push = Cli.start("push", tiny.out, place)
            time.sleep(seconds)
            push.send_signal(signal.SIGKILL)
            Cli.done(push)
        assert not (to / "manifest.json").exists() or dataprep.verify(to).problems == ()
        assert not archive.exists() or dataprep.verify(archive).problems == ()
    dataprep.push(tiny.out, to)
    dataprep.push(tiny.out, archive)
    assert hashes(to) == hashes(tiny.out)
    assert dataprep.verify(archive).problems == ()


def test_an_archive_is_in_order_and_read_by_others(tiny: Made, tmp_path: Path, cli: Cli) -> None:
    archive = tmp_path / "roses.tar"
    done = cli("push", tiny.out, archive)
    assert done.code == 0, done
    with tarfile.open(archive) as tar:
        names = [info.name for info in tar]
        assert {(info.mtime, info.uid, info.uname, info.mode) for info in tar} == {
            (0, 0, "", 0o644)
        }
        tar.extractall(tmp_path / "python", filter="data")
    named = [file.path for file in SealedSet.read(tiny.out).manifest.files()]
    expected = ["SHA256SUMS", *named, "records.parquet", "manifest.json"]
    assert names == [f"roses/{name}" for name in expected]
    (tmp_path / "gnu").mkdir()
    subprocess.run(["tar", "-xf", archive, "-C", tmp_path / "gnu"], check=True)
    subprocess.run(
        ["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path / "gnu/roses", check=True
    )
    for place in ("python", "gnu"):
        unpacked = tmp_path / place / "roses"
        (unpacked / "SHA256SUMS").unlink()
        assert hashes(unpacked) == hashes(tiny.out)
    before = archive.read_bytes()
    assert dataprep.push(tiny.out, archive).uploaded == 0
    archive.unlink()
    dataprep.push(tiny.out, archive)
    assert archive.read_bytes() == before


def test_an_archive_is_verified_as_it_is(tiny: Made, tmp_path: Path, cli: Cli) -> None:
    archive = tmp_path / "set.tar"
    dataprep.push(tiny.out, archive)
    for level in ("size", "hash"):
        result = cli("verify", archive, "--level", level)
        assert (result.code, f"all good ({level})" in result.out) == (0, True), result
    result = cli("verify", archive, "--level", "decode")
    assert (result.code, f"unpack it for --level decode: tar -xf {archive}" in result.err) == (
        2,
        True,
    )
    whole = archive.read_bytes()
    shard = shard_of(tiny.out)
    at = whole.index(shard.read_bytes())
    archive.write_bytes(whole[: at + 9] + bytes([whole[at + 9] ^ 1]) + whole[at + 10 :])
    result = cli("verify", archive)
    path = shard.relative_to(tiny.out).as_posix()
    assert result.code == 1
    assert f"bad: {path}: its SHA-256 is not the manifest's" in result.out
    archive.write_bytes(whole[: len(whole) // 2])
    result = cli("verify", archive)
    assert (result.code != 0, "is truncated" in result.err) == (True, True), result
    with pytest.raises(DatasetError, match="is there already and is not this data set"):
        dataprep.push(tiny.out, archive)
    dataprep.push(tiny.out, archive, overwrite=True)
    assert archive.read_bytes() == whole


def test_places_that_cannot_be_are_refused(tiny: Made, tmp_path: Path) -> None:
    out = tiny.copy(tmp_path / "out")
    for place in (out, out / "copy", tmp_path):
        with pytest.raises(UsageError, match="are in one another"):
            dataprep.push(out, place)
    with pytest.raises(UsageError, match=r"is in .* itself"):
        dataprep.push(out, out / "set.tar")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file; expected a directory"):
        dataprep.push(out, tmp_path / "file")
    with pytest.raises(UsageError, match="has no meaning for an archive"):
        dataprep.push(out, tmp_path / "set.tar", delete_others=True)
    dataprep.push(out, tmp_path / "set.tar")
    with pytest.raises(UsageError, match="nothing is deleted in a bucket or an archive"):
        dataprep.verify(tmp_path / "set.tar", discard=True)


def test_a_full_disk_is_one_line(
    tiny: Made, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    for place in (tmp_path / "to", tmp_path / "to.tar"):
        with pytest.raises(SinkError, match=r"while writing .*; .* and run the same command again"):
            dataprep.push(tiny.out, place)
    assert not (tmp_path / "to.tar").exists()
    assert not (tmp_path / "to" / "manifest.json").exists()
