"""Sentinels: believed only if they are exactly what was written, and while the files are."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.staging.copying.writing import Landed
from dataprep.staging.target.directory import PRIVATE, StageDirectory
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
    for length in range(len(whole) - 1):  # all but the newline
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


@pytest.mark.parametrize("edit", ["digest", "shared", "files", "version", "more"])
def test_an_edited_sentinel_is_not_believed(directory: StageDirectory, edit: str) -> None:
    write_sentinel(directory, sentinel(land(directory, "a")))
    path = directory.path / PRIVATE / SENTINEL
    body = json.loads(path.read_bytes())
    body[edit] = {"digest": "e" * 64, "shared": True, "files": [], "version": 2}.get(edit, "")
    path.write_text(json.dumps(body))
    assert read_sentinel(directory) is None


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
