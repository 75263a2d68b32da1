"""What a copier tells the other processes of its launch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataprep.errors import DataprepError, NoRoomError, StagingError, StoppedError, UsageError
from dataprep.staging.local_ranks import Outcome, failed, read_outcome, write_outcome
from dataprep.staging.target.directory import StageDirectory, private_name
from dataprep.staging.target.paths import PRIVATE


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[StageDirectory]:
    with StageDirectory.make(tmp_path / "copy") as opened:
        yield opened


def test_an_outcome_is_told_to_its_own_step_only(directory: StageDirectory) -> None:
    write_outcome(directory, "slurm-1.0/2", Outcome(ok=True))
    assert read_outcome(directory, "slurm-1.0/2") == Outcome(ok=True)
    assert read_outcome(directory, "slurm-1.0_2") is None


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (StagingError("the disk is broken"), StagingError, 1),
        (NoRoomError("n3 lacks 2 GB"), NoRoomError, 4),
        (UsageError("no such split"), UsageError, 2),
        (StoppedError("stopped", 15), StagingError, 1),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_the_other_ranks_fail_as_the_copier_did(
    directory: StageDirectory, error: DataprepError, kind: type[DataprepError], code: int
) -> None:
    write_outcome(directory, "step", failed(error))
    outcome = read_outcome(directory, "step")
    assert outcome is not None
    assert not outcome.ok
    assert outcome.exit_code == error.exit_code
    theirs = outcome.error()
    assert (type(theirs), str(theirs), theirs.exit_code) == (kind, str(error), code)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"ok":1,"none":""}'])
def test_an_outcome_that_makes_no_sense_is_none(directory: StageDirectory, data: bytes) -> None:
    directory.write_private(private_name("outcome", "step"), data)
    assert read_outcome(directory, "step") is None


def test_old_outcomes_are_forgotten_and_the_latest_are_kept(directory: StageDirectory) -> None:
    for number in range(20):
        name = f"step-{number}"
        write_outcome(directory, name, Outcome(ok=True))
        path = directory.path / PRIVATE / private_name("outcome", name)
        os.utime(path, ns=(number, number))  # clocks of file systems are coarse
    assert len(directory.private_names("outcome")) == 9
    assert read_outcome(directory, "step-19") is not None
    assert read_outcome(directory, "step-0") is None
