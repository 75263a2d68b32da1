"""Sentinels: believed only if they are exactly what was written, and while the files are."""

from __future__ import annotations

import hashlib
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.staging.landed import Landed
from dataprep.staging.private import PRIVATE
from dataprep.staging.target.directory import StageDirectory
from dataprep.staging.target.sentinel import (
    RETIRED,
    SENTINEL,
    Sentinel,
    changed_files,
    is_inside,
    read_sentinel,
    remove_sentinel,
    retire_sentinel,
    write_sentinel,
)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[StageDirectory]:
    with StageDirectory.make(tmp_path / "copy") as opened:
        yield opened


def land(directory: StageDirectory, path: str, data: bytes = b"data") -> Landed:
    place = directory.path / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    return Landed(path, len(data), "ab" * 32, place.stat().st_mtime_ns)


def sentinel(*files: Landed) -> Sentinel:
    return Sentinel("/data/imagenet", "d" * 64, "s" * 64, "slurm-1", False, files)


def test_a_sentinel_comes_back_as_it_was(directory: StageDirectory) -> None:
    odd = Landed(os.fsdecode(b"train/\xff \n\xc3\xa9"), 0, None, 1)
    written = sentinel(land(directory, "train/a"), odd)
    assert read_sentinel(directory) is None
    write_sentinel(directory, written)
    assert read_sentinel(directory) == written
    remove_sentinel(directory)
    remove_sentinel(directory)
    assert read_sentinel(directory) is None


def test_a_sentinel_torn_anywhere_is_not_believed(directory: StageDirectory) -> None:
    write_sentinel(directory, sentinel(land(directory, "a")))
    path = directory.path / PRIVATE / SENTINEL
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert read_sentinel(directory) is None


def test_a_sentinel_with_any_byte_flipped_says_the_same_or_nothing(
    directory: StageDirectory,
) -> None:
    written = sentinel(land(directory, "a"))
    write_sentinel(directory, written)
    path = directory.path / PRIVATE / SENTINEL
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert read_sentinel(directory) in (None, written)


def rewritten(directory: StageDirectory, lines: list[bytes], *, prove: bool) -> Sentinel | None:
    """What is read once other lines, and maybe the right hash of them, are there."""
    if prove:
        lines = [*lines[:-1], hashlib.sha256(b"".join(lines[:-1])).hexdigest().encode() + b"\n"]
    (directory.path / PRIVATE / SENTINEL).write_bytes(b"".join(lines))
    return read_sentinel(directory)


def sentinel_lines(directory: StageDirectory) -> list[bytes]:
    write_sentinel(directory, sentinel(land(directory, "a"), land(directory, "b")))
    return (directory.path / PRIVATE / SENTINEL).read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize(
    ("line", "before", "after"),
    [
        (0, b'"digest":"d', b'"digest":"e'),
        (0, b'"shared":false', b'"shared":true'),
        (1, b'"a"', b'"c"'),
        (2, b"4", b"5"),
    ],
    ids=["digest", "shared", "path", "size"],
)
def test_an_edited_sentinel_is_not_believed(
    directory: StageDirectory, line: int, before: bytes, after: bytes
) -> None:
    lines = sentinel_lines(directory)
    assert before in lines[line]
    lines[line] = lines[line].replace(before, after, 1)
    assert rewritten(directory, lines, prove=False) is None
    assert rewritten(directory, lines, prove=True) is not None


@pytest.mark.parametrize("line", [0, 1, 2, 3])
def test_a_sentinel_that_lacks_a_line_is_not_believed(directory: StageDirectory, line: int) -> None:
    lines = sentinel_lines(directory)
    assert rewritten(directory, lines[:line] + lines[line + 1 :], prove=False) is None


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (0, b'{"version":3,"source":"/","digest":"","selection":"","job":null,"shared":false}'),
        (0, b'{"version":2}'),
        (0, b"[]"),
        (0, b"[" * 100_000),
        (1, b'["a",1,null]'),
        (1, b'["a",1,null,1,1]'),
        (1, b"[1,1,null,1]"),
        (1, b"1"),
        (1, b"{"),
        (1, b""),
        (1, b'"\xff"'),
    ],
    ids=[
        "a version to come",
        "too little",
        "no header",
        "deep",
        "short row",
        "long row",
        "no path",
        "no row",
        "torn",
        "empty",
        "no text",
    ],
)
def test_lines_that_make_no_sense_are_not_believed_though_the_hash_is_right(
    directory: StageDirectory, line: int, text: bytes
) -> None:
    lines = sentinel_lines(directory)
    assert rewritten(directory, lines, prove=True) is not None
    lines[line] = text + b"\n"
    assert rewritten(directory, lines, prove=True) is None


def test_a_sentinel_of_many_files_takes_a_line_each(directory: StageDirectory) -> None:
    files = tuple(Landed(f"train/{number:06}", number, "ab" * 32, 7) for number in range(20_000))
    tracemalloc.start()
    try:
        write_sentinel(directory, sentinel(*files))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    path = directory.path / PRIVATE / SENTINEL
    assert path.read_bytes().count(b"\n") == len(files) + 2
    assert most < path.stat().st_size / 4  # it is never as a whole in memory
    assert read_sentinel(directory) == sentinel(*files)


@pytest.mark.parametrize("path", ["../out", "/etc/passwd", "a//b", "a/./b", "", f"{PRIVATE}/x"])
def test_a_sentinel_that_names_files_elsewhere_is_not_believed(
    directory: StageDirectory, path: str
) -> None:
    assert not is_inside(path)
    write_sentinel(directory, sentinel(Landed(path, 1, None, 1)))
    assert read_sentinel(directory) is None


def test_a_link_in_the_sentinels_place_is_not_followed(directory: StageDirectory) -> None:
    write_sentinel(directory, sentinel())
    path = directory.path / PRIVATE / SENTINEL
    path.rename(directory.path / "elsewhere")
    path.symlink_to(directory.path / "elsewhere")
    assert read_sentinel(directory) is None


def test_a_retired_sentinel_does_not_count_but_can_be_read(directory: StageDirectory) -> None:
    retire_sentinel(directory)
    write_sentinel(directory, sentinel())
    retire_sentinel(directory)
    assert read_sentinel(directory) is None
    assert read_sentinel(directory, RETIRED) == sentinel()
    retire_sentinel(directory, back=True)
    assert read_sentinel(directory) == sentinel()


def test_untouched_files_are_not_reported(directory: StageDirectory) -> None:
    files = [land(directory, path) for path in ("a", "train/b", "train/c", "val/deep/d")]
    assert changed_files(directory, files) == []
    assert changed_files(directory, files[::-1]) == []


def test_every_kind_of_change_is_seen(directory: StageDirectory) -> None:
    names = ("grown", "touched", "gone", "a link", "in/moved", "a folder", "good")
    files = {name: land(directory, name) for name in names}
    root = directory.path
    with (root / "grown").open("ab") as file:
        file.write(b"x")
    os.utime(root / "grown", ns=(1, files["grown"].modified))
    os.utime(root / "touched", ns=(1, files["touched"].modified + 1))
    (root / "gone").unlink()
    (root / "a link").rename(root / "real")
    (root / "a link").symlink_to("real")
    (root / "in").rename(root / "elsewhere")
    (root / "in").symlink_to("elsewhere")
    (root / "a folder").unlink()
    (root / "a folder").mkdir()
    assert set(changed_files(directory, list(files.values()))) == set(names) - {"good"}


@given(st.lists(st.sampled_from(["a", "b", "..", ".", "", PRIVATE]), min_size=1, max_size=5))
def test_a_path_is_inside_if_it_is_plain(parts: list[str]) -> None:
    plain = not {"", ".", ".."} & set(parts) and parts[0] != PRIVATE
    assert is_inside("/".join(parts)) == plain
