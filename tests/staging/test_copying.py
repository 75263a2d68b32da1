"""Copying in streams: everything arrives, the first failure stops all, nothing half-done stays."""

from __future__ import annotations

import errno
import hashlib
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.errors import StagingError
from dataprep.staging.copying import copy_files, in_order
from dataprep.staging.source import SourceFile
from dataprep_schemas.state import CopiedFile
from tests.staging.staged_sets import Counting

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
    defaults = {
        "verify": "copy",
        "streams": 2,
        "progress": Counting(),
        "on_copied": landed.append,
    }
    copy_files(source, files, target, **{**defaults, **options})
    return sorted(landed, key=lambda one: one.path)


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
