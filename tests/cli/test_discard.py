"""``dataprep verify`` says how to have bad files again, and ``--discard`` deletes them."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

import dataprep
from dataprep.errors import DatasetError
from dataprep.sealed import verify
from dataprep.system.state_files import file_sha256
from tests.conftest import Cli, Made, hashes
from tests.finished_sets import flip
from tests.forging import forge

SHARD = "train/train-00002-of-00006"
INDEX = "index/train/train-00004-of-00006"


@pytest.fixture
def out(tiny: Made, tmp_path: Path) -> Path:
    """A data set of its own."""
    return tiny.copy(tmp_path / "out")


def test_what_is_bad_goes_and_the_command_that_made_it_makes_it_again(
    cli: Cli, tiny: Made, out: Path
) -> None:
    for name in (SHARD, INDEX):
        flip(out / name)
    (out / "train" / "train-00000-of-00001").write_text("somebody's")
    (out / "notes.txt").write_text("mine")
    others = {name: hash_ for name, hash_ in hashes(out).items() if name not in (SHARD, INDEX)}
    said = cli("verify", out)
    assert (
        "3 of 17 files bad; delete the damaged ones (--discard) and run the command that made it"
        in said.error
    )
    assert said.error.endswith("; move away what is not the data set's")
    result = cli("verify", out, "--discard")
    assert result.code == 1
    deleted = [line for line in result.out.splitlines() if line.startswith("deleted: ")]
    assert sorted(deleted) == [f"deleted: {name}" for name in (INDEX, SHARD)]
    assert hashes(out) == others
    (out / "train" / "train-00000-of-00001").unlink()
    (out / "notes.txt").unlink()
    made = {path: path.stat().st_ino for path in out.rglob("*-of-*") if path.is_file()}
    assert cli(*tiny.command(out)).code == 0
    assert hashes(out) == tiny.files
    new = (path for path, inode in made.items() if path.stat().st_ino != inode)
    again = {path.relative_to(out).as_posix() for path in new}
    assert {name for name in again if not name.startswith(".dataprep")} <= {
        *(SHARD, f"index/{SHARD}", INDEX, INDEX.removeprefix("index/")),
    }
    assert cli("verify", out).code == 0


def test_a_table_that_is_bad_is_made_again(cli: Cli, tiny: Made, out: Path) -> None:
    flip(out / "records.parquet")
    result = cli("verify", out, "--discard")
    assert "deleted: records.parquet" in result.out
    assert cli(*tiny.command(out)).code == 0
    assert hashes(out) == tiny.files


def test_of_a_set_without_a_job_nothing_is_deleted(cli: Cli, out: Path) -> None:
    shutil.rmtree(out / ".dataprep")
    flip(out / SHARD)
    before = hashes(out)
    error = cli("verify", out).error
    assert "`dataprep stage COPY --to NEW` or `dataprep convert COPY --to NEW`" in error
    assert "so none is deleted" in cli("verify", out, "--discard").error
    assert hashes(out) == before


def test_of_a_copy_the_same_stage_brings_what_was_deleted(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    to = tmp_path / "to"
    assert cli("stage", tiny.out, "--to", to).code == 0
    flip(to / SHARD)
    error = cli("verify", to, "--discard").error
    assert "run the same dataprep stage again" in error
    assert not (to / SHARD).exists()
    assert cli("stage", tiny.out, "--to", to).code == 0
    assert cli("verify", to).code == 0


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.EMFILE, errno.ESTALE])
@pytest.mark.parametrize("name", [SHARD, "records.parquet"])
def test_what_the_system_refuses_to_read_is_not_deleted(
    cli: Cli, out: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    def refuse(path: Path, _told: object) -> str:
        if path == out / name:
            raise OSError(number, os.strerror(number), str(path))
        return file_sha256(path)

    flip(out / INDEX)
    with monkeypatch.context() as patch:
        patch.setattr(verify, "file_sha256", refuse)
        result = cli("verify", out, "--discard")
    assert f"bad: {name}: cannot be read: {os.strerror(number)}\n" in result.out
    assert f"deleted: {INDEX}\n" in result.out
    assert "; mend what cannot be read (permissions, storage) and verify again" in result.error
    assert (out / name).exists()
    result = cli("verify", out)  # of which only what was deleted is bad now
    assert "1 of 17 files bad; run the command that made it again; " in result.error


def test_a_file_behind_a_link_is_not_deleted(cli: Cli, out: Path, tmp_path: Path) -> None:
    (out / "train").rename(tmp_path / "elsewhere")
    (out / "train").symlink_to(tmp_path / "elsewhere")
    flip(out / SHARD)
    assert "is a symbolic link" in cli("verify", out, "--discard").error
    assert (out / SHARD).exists()


def test_from_python_it_is_told_what_was_deleted(out: Path) -> None:
    flip(out / SHARD)
    found = dataprep.verify(out, discard=True)
    assert found.discarded == (SHARD,)
    assert "run the command that made it again" in found.remedy
    assert [problem.foreign for problem in found.problems] == [False]
    assert dataprep.verify(out).problems[0].what == "is missing"


def test_nothing_is_deleted_of_a_set_that_grew(cli: Cli, out: Path) -> None:
    job = out / ".dataprep" / "job.json"
    forge(job, lambda it: it.update(generations=2))
    flip(out / SHARD)
    with pytest.raises(DatasetError, match="so none is deleted"):
        dataprep.verify(out, discard=True)
    assert "it grew by --append" in cli("verify", out).error
