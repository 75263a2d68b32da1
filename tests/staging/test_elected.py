"""What the processes of one launch on a node learn from the one that does the work."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from dataprep.errors import DataprepError, NoRoomError, StagingError, StoppedError, UsageError
from dataprep.staging import stage as module
from dataprep.staging.directory import StageDirectory
from dataprep.staging.placement import Placement
from dataprep.staging.request import StageRequest
from dataprep.staging.sentinel import SENTINEL, add_lease, find_files, remove_lease
from dataprep_schemas.state import Sentinel

REQUEST = StageRequest(Path("/data/set"))
RANK = Placement("n0", 0, 1, 0, "slurm-1", "slurm-1.0", None, "Slurm")


def works(
    directory: StageDirectory,
    error: BaseException | None = None,
    *,
    request: StageRequest = REQUEST,
    rank: Placement = RANK,
    again: bool = False,
) -> bool:
    """Whether this process is the one that does the work; with what it ends."""
    with module.elected(directory, request, rank, lambda _: None) as turn:
        if turn is None:
            return False
        assert turn.again == again
        if error is not None:
            raise error
        (directory.path / "0.rec").write_bytes(b"whole")
        files = tuple(find_files(directory, ["0.rec"]).values())
        directory.write_private(
            SENTINEL, Sentinel("/data/set", "d" * 64, "e" * 64, None, request.shared, files)
        )
        if request.shared and rank.job is not None:
            add_lease(directory, rank.job)
        turn.tell()
        return True


def test_whoever_comes_later_finds_the_work_done(directory: StageDirectory) -> None:
    assert works(directory)
    assert not works(directory)
    # Of another launch, or of another call of the same, nothing is known.
    assert works(directory, rank=replace(RANK, step="slurm-1.1"))
    assert works(directory, request=replace(REQUEST, splits=("train",)))
    # It counts as long as there is a copy.
    directory.remove_private(SENTINEL)
    assert works(directory)


def test_who_calls_again_looks_again_alone(
    directory: StageDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert works(directory)
    (directory.path / "0.rec").unlink()
    assert works(directory, again=True)
    assert not works(directory)
    monkeypatch.setattr(module, "_STAGGER", -1.0)  # later than all of a launch begin
    assert works(directory, again=True)


def test_a_job_that_gave_its_part_in_a_copy_up_gets_it_again(directory: StageDirectory) -> None:
    shared = replace(REQUEST, shared=True)
    assert works(directory, request=shared)
    assert not works(directory, request=shared)
    remove_lease(directory, str(RANK.job))
    assert works(directory, request=shared, again=True)
    assert not works(directory, request=shared)


def test_without_a_launch_everybody_looks(directory: StageDirectory) -> None:
    alone = replace(RANK, step=None)
    assert works(directory, rank=alone)
    assert works(directory, rank=alone)


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
    with pytest.raises(type(error)):
        works(directory, error)
    with pytest.raises(kind) as caught:
        works(directory)
    assert (str(caught.value), caught.value.exit_code) == (str(error), code)


@pytest.mark.parametrize(
    ("error", "line"),
    [(KeyError(), "KeyError"), (OSError("no\nway to \udcff"), "no way to \\udcff")],
    ids=["without words", "odd words"],
)
def test_what_nobody_expected_is_told_in_one_line(
    directory: StageDirectory, error: Exception, line: str
) -> None:
    with suppress(KeyError, OSError):
        works(directory, error)
    with pytest.raises(StagingError) as caught:
        works(directory)
    assert str(caught.value) == line
