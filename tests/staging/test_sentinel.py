"""What is noted in a target: believed if it makes sense, and while the files are as they were."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dataprep.staging.target.directory import StageDirectory
from dataprep.staging.target.paths import PRIVATE, CopiedFile, is_inside
from dataprep.staging.target.sentinel import (
    SENTINEL,
    Sentinel,
    add_lease,
    changed_files,
    other_jobs,
    read_sentinel,
    remove_lease,
    remove_sentinel,
    write_sentinel,
)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[StageDirectory]:
    with StageDirectory.make(tmp_path / "copy") as opened:
        yield opened


def copied(directory: StageDirectory, path: str, data: bytes = b"data") -> CopiedFile:
    place = directory.path / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    return CopiedFile(path, len(data), "ab" * 32, place.stat().st_mtime_ns)


def sentinel(*files: CopiedFile) -> Sentinel:
    return Sentinel("/data/imagenet", "d" * 64, "s" * 64, "slurm-1", False, files)


def test_a_sentinel_comes_back_as_it_was(directory: StageDirectory) -> None:
    odd = CopiedFile(os.fsdecode(b"train/\xff \n\xc3\xa9"), 0, None, 1)
    written = sentinel(copied(directory, "train/a"), odd)
    assert read_sentinel(directory) is None
    write_sentinel(directory, written)
    assert read_sentinel(directory) == written
    remove_sentinel(directory)
    remove_sentinel(directory)
    assert read_sentinel(directory) is None


def test_a_sentinel_torn_anywhere_is_not_believed(directory: StageDirectory) -> None:
    write_sentinel(directory, sentinel(copied(directory, "a")))
    path = directory.path / PRIVATE / SENTINEL
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert read_sentinel(directory) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda said: said.update(version=5),
        lambda said: said.pop("digest"),
        lambda said: said.update(unknown=1),
        lambda said: said.update(files=[["a", 1, None]]),
        lambda said: said.update(files=[[1, 1, None, 1]]),
        lambda said: said.update(files=1),
    ],
    ids=["a version to come", "too little", "too much", "short row", "no path", "no files"],
)
def test_a_sentinel_that_makes_no_sense_is_not_believed(
    directory: StageDirectory, change: Callable[[dict[str, object]], object]
) -> None:
    write_sentinel(directory, sentinel(copied(directory, "a")))
    path = directory.path / PRIVATE / SENTINEL
    said = json.loads(path.read_bytes())
    change(said)
    path.write_text(json.dumps(said))
    assert read_sentinel(directory) is None


@pytest.mark.parametrize("path", ["../out", f"{PRIVATE}/x"])
def test_a_sentinel_that_names_files_elsewhere_is_not_believed(
    directory: StageDirectory, path: str
) -> None:
    assert not is_inside(path)
    write_sentinel(directory, sentinel(CopiedFile(path, 1, None, 1)))
    assert read_sentinel(directory) is None


def test_every_kind_of_change_is_seen(directory: StageDirectory) -> None:
    names = ("grown", "touched", "gone", "a link", "in/moved", "a folder", "good")
    files = {name: copied(directory, name) for name in names}
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


def test_leases_name_the_other_jobs(directory: StageDirectory) -> None:
    for job in ("slurm-1", "slurm-2", "pbs 3/x"):
        add_lease(directory, job)
    assert sorted(other_jobs(directory, "slurm-1")) == ["pbs 3/x", "slurm-2"]
    assert len(other_jobs(directory, None)) == 3
    remove_lease(directory, "pbs 3/x")
    remove_lease(directory, "pbs 3/x")
    assert other_jobs(directory, "slurm-1") == ["slurm-2"]
