"""Copying: nothing under a final name but what was proven, and the first failure stops all."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.errors import StagingError
from dataprep.staging import copying
from dataprep.staging.copying import copy_files, in_order, rehash_files
from dataprep.staging.directory import partial_name, remove_files
from dataprep.staging.request import Verify
from dataprep.staging.source import SourceFile
from dataprep.staging.writing import Progress, TargetWriter, Transfer
from dataprep.system import state_files
from dataprep.system.durable_files import PARTIAL, reports_lost_writes, sync_file_system
from dataprep_schemas.state import CopiedFile
from tests.staging.staged_sets import Counting

_DATA = random.Random(0).randbytes(10_000)  # the same in every worker: it is in names of tests
_SHA256 = hashlib.sha256(_DATA).hexdigest()
_SOURCE = Path("/lustre/set")


def write(
    target: int,
    path: str,
    *,
    data: bytes = _DATA,
    sha256: str | None = _SHA256,
    verify: Verify = "copy",
) -> CopiedFile:
    file = SourceFile(path, len(_DATA), sha256)
    with TargetWriter(Transfer(_SOURCE, target, verify), file) as writer:
        for offset in range(0, len(data), 3000):
            writer.write(data[offset : offset + 3000], offset)
        return writer.finish()


def tree(place: Path) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in place.rglob("*"))


@pytest.mark.parametrize("verify", ["copy", "reread"])
def test_a_flipped_byte_in_the_source_is_found(place: Path, target: int, verify: Verify) -> None:
    damaged = bytearray(_DATA)
    damaged[5000] ^= 1
    (place / "shard").write_bytes(b"an earlier one")
    with pytest.raises(StagingError) as raised:
        write(target, "shard", data=bytes(damaged), verify=verify)
    assert str(raised.value) == (
        f"/lustre/set/shard has SHA-256 {hashlib.sha256(damaged).hexdigest()}, expected {_SHA256}: "
        "it was damaged or changed; run dataprep verify /lustre/set"
    )
    assert (place / "shard").read_bytes() == b"an earlier one"
    assert tree(place) == ["shard"]


def test_storage_that_gives_back_something_else_is_found_by_reading_it_back(
    place: Path, target: int
) -> None:
    file = SourceFile("shard", len(_DATA), _SHA256)
    with TargetWriter(Transfer(_SOURCE, target, "reread"), file) as writer:
        writer.write(_DATA, 0)
        (partial,) = place.iterdir()
        with partial.open("r+b") as other:
            other.seek(7)
            other.write(bytes([_DATA[7] ^ 1]))
        with pytest.raises(StagingError, match="this node's storage gives back other bytes"):
            writer.finish()
    assert tree(place) == []


def test_a_name_that_fills_its_file_system_s_limit_lands_too(place: Path, target: int) -> None:
    name = "ä" * 127 + "x"
    write(target, name)
    assert tree(place) == [name]


# --- what is in the way ---


def test_a_planted_link_is_not_followed(place: Path, target: int, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (place / "train").symlink_to(outside)
    (place / "shard").symlink_to(outside / "victim")
    with pytest.raises(StagingError, match=r"writing train/shard: .* another place"):
        write(target, "train/shard")
    write(target, "shard")  # the link itself is replaced
    assert list(outside.iterdir()) == []
    assert not (place / "shard").is_symlink()


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch], ids=["directory", "file"])
def test_what_is_in_the_way_is_kept_and_named(
    place: Path, target: int, make: Callable[[Path], object]
) -> None:
    make(place / "a")
    path = "a" if (place / "a").is_dir() else "a/b"
    with pytest.raises(StagingError, match=f"{place}: .* writing {path}: .* another place"):
        write(target, path)
    assert tree(place) == ["a"]


@pytest.mark.parametrize("path", ["../a", "a/../../b", "/a", "", "a//b", "./a"])
def test_a_path_that_leads_out_is_refused(place: Path, target: int, path: str) -> None:
    with pytest.raises(StagingError, match="no path below a directory"):
        write(target, path)
    assert tree(place) == []
    assert tree(place.parent) == ["target"]


@pytest.mark.parametrize(
    ("call", "number", "says"),
    [
        ("pwrite", errno.ENOSPC, "no space left; free some"),
        ("fsync", errno.EDQUOT, "the quota, of bytes or of files, is used up (Disk quota"),
        ("fsync", errno.EIO, "Input/output error; mend that"),
        ("replace", errno.EACCES, "Permission denied; mend that, or choose another"),
    ],
    ids=["full", "quota", "failing", "denied"],
)
def test_what_the_target_refuses_is_one_line_and_leaves_nothing(
    place: Path, target: int, monkeypatch: pytest.MonkeyPatch, call: str, number: int, says: str
) -> None:
    def failing(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, failing)
    with pytest.raises(StagingError) as raised:
        write(target, "shard")
    assert says in str(raised.value)
    assert str(place) in str(raised.value)
    assert "\n" not in str(raised.value)
    assert tree(place) == []


# --- what is there already ---


def test_a_file_that_is_there_is_believed_only_with_the_right_hash(
    place: Path, target: int, tmp_path: Path
) -> None:
    good = [write(target, f"train/shard-{number}") for number in range(3)]
    (tmp_path / "same").write_bytes(_DATA)
    (place / "link").symlink_to(tmp_path / "same")
    os.mkfifo(place / "pipe")
    (place / "damaged").write_bytes(_DATA[:-1] + bytes([_DATA[-1] ^ 1]))
    names = [*(file.path for file in good), "link", "pipe", "damaged", "absent", "train"]
    files = [SourceFile(name, len(_DATA), _SHA256) for name in names]
    progress = Counting()
    found = rehash_files(target, files, streams=3, progress=progress)
    assert sorted(file.path for file in found) == [file.path for file in good]
    assert progress.done == 4 * len(_DATA)
    progress.stop(StagingError("another node failed"))
    with pytest.raises(StagingError, match="another node failed"):
        rehash_files(target, files, streams=2, progress=progress)


def test_what_killed_copiers_left_is_removed_and_nothing_else(
    place: Path, target: int, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (place / "train").mkdir()
    (place / "link").symlink_to(outside)
    names = (partial_name("a"), partial_name("c"), "a.partial", ".a.partial", "a")
    for directory in (place, place / "train", outside):
        for name in names:
            (directory / name).touch()
    remove_files(target, ["train/a", "a", "b", "absent/c", "link/a"], finished=False)
    kept = names[1:]  # c is nobody's, or another program's
    assert tree(place) == sorted([*kept, "link", "train", *(f"train/{name}" for name in kept)])
    assert len(list(outside.iterdir())) == len(names)


# --- reading it back ---


def test_a_stop_ends_reading_it_back(
    place: Path, target: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_files, "_READ", 4096)
    looks: list[int] = []

    def check() -> None:
        looks.append(1)
        if len(looks) == 2:
            raise StagingError("another node failed")

    file = SourceFile("shard", len(_DATA), _SHA256)
    progress = Progress()
    monkeypatch.setattr(progress, "check", check)
    with TargetWriter(Transfer(_SOURCE, target, "reread", progress), file) as writer:
        writer.write(_DATA, 0)
        assert looks == []
        with pytest.raises(StagingError, match="another node failed"):
            writer.finish()
    assert len(looks) == 2  # of three pieces
    assert tree(place) == []


_PIECE = 1 << 22
_SIZES = {
    "train/small": 10,
    "train/empty": 0,
    "train/piece": _PIECE,
    "val/deep/down": _PIECE + 1,
    "huge": 5 * _PIECE + 12_345,  # more than the other streams' share: reading and storing overlap
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    for name, size in _SIZES.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(os.urandom(size))
    return path


def sealed(source: Path) -> list[SourceFile]:
    """As a manifest lists them."""
    return [
        SourceFile(
            str(path.relative_to(source)),
            path.stat().st_size,
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in sorted(source.rglob("*"))
        if path.is_file()
    ]


def copy(source: Path, files: list[SourceFile], target: int, **options: Any) -> list[CopiedFile]:
    landed: list[CopiedFile] = []
    how = {"streams": options.pop("streams", 2), "node": options.pop("node", 0)}
    defaults = {"verify": "copy", "progress": Counting(), "on_copied": landed.append}
    copy_files(Transfer(source, target, **{**defaults, **options}), files, **how)
    return sorted(landed, key=lambda one: one.path)


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source with so many small files that they are flushed together, and one large file."""
    monkeypatch.setattr(copying, "_FEW", 3)
    monkeypatch.setattr(copying, "_TOGETHER", 5)
    monkeypatch.setattr(copying, "_FOLDERS", 2)
    for number in range(40):
        path = tmp_path / "many" / f"d{number % 7}" / f"{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes([number]) * number)
    (tmp_path / "many" / "large").write_bytes(bytes(2 << 20))
    return tmp_path / "many"


@pytest.mark.skipif(not reports_lost_writes(), reason="this kernel does not tell of lost writes")
@pytest.mark.parametrize("streams", [1, 3])
def test_small_files_get_their_names_after_one_flush_of_all(
    many: Path, place: Path, target: int, monkeypatch: pytest.MonkeyPatch, streams: int
) -> None:
    flushes: list[int] = []

    def flush(descriptor: int) -> None:
        names = [path.name for path in place.rglob("*") if path.is_file()]
        flushes.append(sum(name.endswith(PARTIAL) for name in names))
        sync_file_system(descriptor)

    monkeypatch.setattr(copying, "sync_file_system", flush)
    copied = copy(many, sealed(many), target, streams=streams)
    assert len(copied) == 41
    assert {one.path: one.sha256 for one in copied} == {
        one.path: one.sha256 for one in sealed(many)
    }
    assert everything(place) == sorted(one.path for one in copied)
    assert len(flushes) >= 41 // (5 * streams)
    assert min(flushes) > 0


@pytest.mark.skipif(not reports_lost_writes(), reason="this kernel does not tell of lost writes")
def test_what_cannot_be_flushed_gets_no_name(
    many: Path, place: Path, target: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(copying, "sync_file_system", lost)
    with pytest.raises(StagingError, match="Input/output error"):
        copy(many, sealed(many), target, streams=1)
    assert everything(place) in ([], ["large"])


def everything(place: Path) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())


@pytest.mark.parametrize(("verify", "streams"), [("none", 1), ("copy", 2), ("reread", 64)])
def test_every_byte_arrives(
    source: Path, place: Path, target: int, verify: str, streams: int
) -> None:
    files = sealed(source)
    progress = Counting()
    landed = copy(source, files, target, verify=verify, streams=streams, progress=progress)
    assert everything(place) == sorted(_SIZES)
    for file, one in zip(files, landed, strict=True):
        assert (place / file.path).read_bytes() == (source / file.path).read_bytes()
        assert (one.path, one.bytes) == (file.path, file.bytes)
        assert one.sha256 == (None if verify == "none" else file.sha256)
        assert one.modified == (place / file.path).stat().st_mtime_ns
    assert progress.done == sum(_SIZES.values())


# --- failures ---


@pytest.mark.parametrize(("name", "streams"), [("train/small", 1), ("huge", 4)])
def test_a_damaged_source_ends_everything_and_keeps_what_landed(
    source: Path, place: Path, target: int, streams: int, name: str
) -> None:
    files = sealed(source)
    data = bytearray((source / name).read_bytes())
    data[-1] ^= 1
    (source / name).write_bytes(data)
    landed: list[CopiedFile] = []
    progress = Counting()
    says = f"{name} has SHA-256 .*run dataprep verify {source}"
    with pytest.raises(StagingError, match=says):
        copy(source, files, target, streams=streams, progress=progress, on_copied=landed.append)
    with pytest.raises(StagingError, match=says):
        progress.check()  # which is what stops the other streams
    assert everything(place) == sorted(one.path for one in landed)
    assert name not in everything(place)


@pytest.mark.parametrize(("number", "piece"), [(errno.ENOSPC, 0), (errno.EIO, 5)])
def test_a_piece_that_is_not_stored_is_never_overlooked(
    source: Path,
    place: Path,
    target: int,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    piece: int,
) -> None:
    real = os.pwrite

    def failing(descriptor: int, data: memoryview, offset: int) -> int:
        if offset == piece * _PIECE:
            raise OSError(number, os.strerror(number))
        return real(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", failing)
    files = [file for file in sealed(source) if file.path == "huge"]
    with pytest.raises(StagingError, match="huge"):
        copy(source, files, target)
    assert everything(place) == []


def test_no_descriptor_and_no_thread_is_left(source: Path, place: Path, target: int) -> None:
    before = len(list(Path("/proc/self/fd").iterdir())), threading.active_count()
    files = sealed(source)
    copy(source, files, target)
    with pytest.raises(StagingError):
        copy(source, [replace(file, sha256="0" * 64) for file in files], target)
    (place / "train/small").unlink()
    (place / "train/small").mkdir()
    with pytest.raises(StagingError, match="Is a directory"):
        copy(source, files, target, streams=1)
    assert (len(list(Path("/proc/self/fd").iterdir())), threading.active_count()) == before


# --- the order, and how many ---

_NAMES = st.lists(st.tuples(st.integers(0, 1 << 40), st.text(min_size=1)), max_size=20)


@given(listed=_NAMES, node=st.integers(0, 2000))
def test_large_files_come_first(listed: list[tuple[int, str]], node: int) -> None:
    files = [SourceFile(path, size) for size, path in listed]
    ordered = in_order(files, node)
    assert sorted(ordered, key=repr) == sorted(files, key=repr)
    classes = [file.bytes.bit_length() for file in ordered]
    assert classes == sorted(classes, reverse=True)
