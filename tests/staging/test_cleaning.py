"""Cleaning: everything that staging made goes, nothing else does, whoever asks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dataprep.errors import StagingError
from dataprep.staging.cleaning import Cleaned, clean
from dataprep.staging.directory import StageDirectory, partial_name
from dataprep.staging.node_lock import node_lock
from dataprep.staging.sentinel import (
    PLANNED,
    SENTINEL,
    add_lease,
    planned_paths,
)
from dataprep_schemas.state import CopiedFile, Sentinel

FILES = ("manifest.json", "train/a", "train/b", "validation/deep/c")
JOB = "slurm-1"
BY_HAND = "when those jobs are gone and it is still there, delete the directory by hand"


def put(target: Path, path: str, data: bytes = b"12345") -> CopiedFile:
    place = target / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    return CopiedFile(path, len(data), None, place.stat().st_mtime_ns)


def planned(paths: Collection[str], job: str | None, *, shared: bool = False) -> Sentinel:
    files = tuple(CopiedFile(path, 0, None, 0) for path in paths)
    return Sentinel("/data", "d" * 64, "e" * 64, job, shared, files)


def stage(
    target: Path,
    *,
    job: str | None = JOB,
    shared: bool = False,
    whole: bool = True,
    paths: Collection[str] = FILES,
) -> None:
    """What staging does, without copying."""
    with StageDirectory.make(target) as directory, node_lock(directory):
        before = planned_paths(directory)
        directory.write_private(PLANNED, planned(before | {*paths}, job, shared=shared))
        files = tuple(put(target, path) for path in paths)
        if whole:
            directory.write_private(
                SENTINEL, Sentinel("/data", "d" * 64, "e" * 64, job, shared, files)
            )


def _partial(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/{partial_name(name)}".lstrip("/")


def tree(path: Path) -> list[str]:
    return sorted(each.relative_to(path).as_posix() for each in path.rglob("*"))


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "killed"])
def test_everything_that_staging_made_goes(tmp_path: Path, whole: bool) -> None:
    scratch = tmp_path / "dataprep-me" / "slurm-1"
    for target in (scratch / "imagenet", tmp_path / "named"):
        stage(target, whole=whole)
        assert clean(target, JOB) == Cleaned(4, 20, None)
    assert tree(tmp_path) == []


def test_nothing_there_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "absent", tmp_path):
        assert clean(path, JOB) == Cleaned(0, 0, None)
    assert tree(tmp_path) == ["empty"]


def test_temporary_files_of_staging_go_and_those_of_others_stay(tmp_path: Path) -> None:
    target = tmp_path / "job"
    stage(target, whole=False)
    for path in ("train/a", "manifest.json", "train/theirs"):
        put(target, _partial(path))
    cleaned = clean(target, JOB)
    assert cleaned.files == 6
    assert cleaned.left is not None
    assert "train" in cleaned.left
    assert len(tree(target)) == 2


def test_a_link_in_a_folders_place_is_not_followed(tmp_path: Path) -> None:
    target, elsewhere = tmp_path / "job", tmp_path / "elsewhere"
    stage(target)
    (target / "train").rename(elsewhere)
    (target / "train").symlink_to(elsewhere)
    cleaned = clean(target, JOB)
    assert cleaned == Cleaned(2, 10, "left what staging did not put there: train")
    assert tree(elsewhere) == ["a", "b"]
    assert (target / "train").is_symlink()


def test_a_job_that_ends_while_another_one_copies_is_waited_for_by_nobody(tmp_path: Path) -> None:
    target = tmp_path / "shared"
    stage(target, shared=True, whole=False)
    with StageDirectory.make(target) as directory:
        for job in ("slurm-1", "slurm-2"):
            add_lease(directory, job)
        with node_lock(directory):
            left = f"the copy stays, used by slurm-1; {BY_HAND}"
            assert clean(target, "slurm-2", timeout=0) == Cleaned(0, 0, left)
    assert clean(target, "slurm-1").files == 4


def test_a_copy_in_the_making_is_not_cleaned(tmp_path: Path) -> None:
    stage(tmp_path / "job", whole=False)
    with StageDirectory.make(tmp_path / "job") as directory, node_lock(directory):
        for timeout in (0, 0.1):
            with pytest.raises(StagingError, match=rf"process {os.getpid()} on "):
                clean(tmp_path / "job", JOB, timeout=timeout)
    assert clean(tmp_path / "job", JOB).files == 4


def waited_for(target: Path) -> subprocess.Popen[str]:
    """Have another process clean, and return once it waits for the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", _WAITING, str(target)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    return process


# It sleeps only where somebody else has the lock.
_WAITING = """
import pathlib, sys, time
from dataprep.staging.cleaning import clean
sleep = time.sleep
def told(seconds):
    print("waiting", flush=True)
    time.sleep = sleep
time.sleep = told
print(clean(pathlib.Path(sys.argv[1]), "slurm-1"))
"""


def test_a_copier_that_is_stopping_is_waited_for(tmp_path: Path) -> None:
    stage(tmp_path / "job", whole=False)
    with StageDirectory.make(tmp_path / "job") as directory, node_lock(directory):
        process = waited_for(tmp_path / "job")
        put(tmp_path / "job", _partial("train/a"))  # its last chunk
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, f"{Cleaned(5, 25, None)}\n")
    assert tree(tmp_path) == []


_NAMES = st.sampled_from(["a", "b", "c"])
_PATHS = st.lists(_NAMES, min_size=1, max_size=3).map("/".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(staged=st.sets(_PATHS, max_size=5), theirs=st.sets(_PATHS, max_size=5))
def test_whatever_is_mixed_with_whatever_only_the_staged_goes(
    tmp_path: Path, staged: set[str], theirs: set[str]
) -> None:
    target = tmp_path / "job"
    shutil.rmtree(target, ignore_errors=True)
    every = staged | theirs
    folders = {path.rsplit("/", n)[0] for path in every for n in range(1, path.count("/") + 1)}
    staged, theirs = staged - folders, theirs - folders - staged
    stage(target, paths=staged)
    for path in theirs:
        put(target, path)
    cleaned = clean(target, JOB)
    assert cleaned.files == len(staged)
    assert {path for path in tree(tmp_path) if (tmp_path / path).is_file()} == {
        f"job/{path}" for path in theirs
    }
    assert (cleaned.left is None) == (not theirs)
    assert all(path.partition("/")[0] in str(cleaned.left) for path in theirs)
    assert target.exists() == bool(theirs)
