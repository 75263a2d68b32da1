"""What is noted in a target: believed if it makes sense, and while the files are as they were."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from dataprep.errors import StagingError
from dataprep.staging.cleaning import clean
from dataprep.staging.directory import PRIVATE, StageDirectory, private_name
from dataprep.staging.sentinel import (
    PLANNED,
    SENTINEL,
    add_lease,
    changed_files,
    other_jobs,
    read_sentinel,
    remove_lease,
)
from dataprep_schemas.state import CopiedFile, Sentinel


def copied(directory: StageDirectory, path: str, data: bytes = b"data") -> CopiedFile:
    place = directory.path / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    return CopiedFile(path, len(data), "ab" * 32, place.stat().st_mtime_ns)


def sentinel(*files: CopiedFile) -> Sentinel:
    return Sentinel("/data/imagenet", "d" * 64, "a" * 64, "slurm-1", False, files)


def test_a_sentinel_comes_back_as_it_was(directory: StageDirectory) -> None:
    written = sentinel(copied(directory, "train/a"))
    assert read_sentinel(directory) is None
    directory.write_private(SENTINEL, written)
    assert as_written(directory) == written
    directory.remove_private(SENTINEL)
    directory.remove_private(SENTINEL)
    assert read_sentinel(directory) is None


def as_written(directory: StageDirectory) -> Sentinel | None:
    """What is read, without the hash that it has got."""
    found = read_sentinel(directory)
    return found and replace(found, sha256="")


def test_what_leads_elsewhere_is_not_followed(directory: StageDirectory, tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    for name in (SENTINEL, PLANNED):
        directory.write_private(name, sentinel(CopiedFile("../precious", 0, None, 1)))
        with pytest.raises(StagingError, match="is no path below a directory"):
            clean(directory.path, "slurm-1")
        assert (tmp_path / "precious").exists()


@pytest.mark.parametrize("damaged", [b"", b"{", b'{"format": "dataprep-lease-2"}'])
def test_a_damaged_lease_is_somebody_s(directory: StageDirectory, damaged: bytes) -> None:
    add_lease(directory, "slurm-1")
    add_lease(directory, "slurm-2")
    name = private_name("lease", "slurm-2")
    (directory.path / PRIVATE / name).write_bytes(damaged)
    assert other_jobs(directory, "slurm-1") == [name]
    assert other_jobs(directory, "slurm-2") == ["slurm-1"]  # whose it is, its name says
    add_lease(directory, "slurm-2")
    assert other_jobs(directory, "slurm-1") == ["slurm-2"]


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
