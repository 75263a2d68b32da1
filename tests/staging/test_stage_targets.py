"""Where ``dataprep stage`` goes and where it does not, whose copy it is, and how it is cleaned."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Cli, Result
from tests.staging.conftest import TOLD_AT_ONCE, Forks, Midway, eventually
from tests.staging.staged_sets import PRIVATE, arrived, named, refused, shards

pytestmark = pytest.mark.usefixtures("outside", "unflushed")

Job = Callable[..., Result]


@pytest.fixture
def job(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Job:
    """``job(number, *words)``: ``dataprep stage`` in the batch script of a Slurm job."""

    def call(number: int, *words: object) -> Result:
        monkeypatch.setenv("SLURM_JOB_ID", str(number))
        return cli("stage", *words)

    return call


# --- places that are not ours ---


def test_target_and_source_are_apart(cli: Cli, mine: Path) -> None:
    for to in (mine, mine / "in", mine.parent):
        refused(cli("stage", mine, "--to", to), to, "--to")
    assert not list(mine.parent.rglob(PRIVATE))


def test_a_file_of_somebody_else_is_never_overwritten(
    cli: Cli, source: Path, tmp_path: Path
) -> None:
    to = tmp_path / "to"
    precious = to / shards(source)[0].relative_to(source)
    precious.parent.mkdir(parents=True)
    to.chmod(0o700)
    precious.write_text("precious")
    refused(cli("stage", source, "--to", to), precious, "move it away")
    assert precious.read_text() == "precious"
    assert arrived(to) == {
        str(precious.relative_to(to)): arrived(to)[str(precious.relative_to(to))]
    }
    precious.unlink()
    assert cli("stage", source, "--to", to).code == 0


def test_a_stranger_that_readers_would_take_for_a_shard_is_refused(
    cli: Cli, source: Path, tmp_path: Path
) -> None:
    to = tmp_path / "to"
    assert cli("stage", source, "--to", to).code == 0
    stranger = to / "train" / "train-00007-of-00008"
    stranger.touch()
    refused(cli("stage", source, "--to", to), stranger, "move it away")
    stranger.rename(to / "notes.txt")
    assert cli("stage", source, "--to", to).code == 0
    assert (to / "notes.txt").exists()


def test_the_source_of_another_copy_is_not_replaced(cli: Cli, source: Path, tmp_path: Path) -> None:
    to, other = tmp_path / "to", tmp_path / "other"
    other.mkdir()
    (other / "file").write_text("other")
    assert cli("stage", source, "--to", to).code == 0
    refused(cli("stage", other, "--to", to), to, source, "--clean")
    assert arrived(to) == named(source)


# --- jobs ---


def test_a_job_does_not_touch_another_jobs_copy(job: Job, source: Path, tmp_path: Path) -> None:
    to = tmp_path / "to"
    assert job(1, source, "--to", to).code == 0
    for more in ((), ("--shared",), ("--split", "train")):
        refused(job(2, source, "--to", to, *more), to, "slurm-1", "slurm-2", "--shared")
    refused(job(2, "--to", to, "--clean"), to, "slurm-1", "slurm-2", "delete the directory by hand")
    assert arrived(to) == named(source)
    assert "slurm-1" in job(2, "--to", to, "--status").out
    assert job(1, source, "--to", to).code == 0
    assert job(1, "--to", to, "--clean").code == 0
    assert not to.exists()


def test_jobs_that_both_say_so_share_a_copy_until_the_last_one_cleans(
    job: Job, source: Path, tmp_path: Path
) -> None:
    to = tmp_path / "to"
    assert job(1, source, "--to", to, "--shared").code == 0
    assert "nothing to copy" in job(2, source, "--to", to, "--shared").out
    status = job(1, "--to", to, "--status").out
    assert "shared" in status
    assert "used by: slurm-1 and slurm-2" in status or "used by: slurm-1, slurm-2" in status
    refused(job(2, source, "--to", to, "--shared", "--split", "train"), to, "slurm-1")
    first = job(1, "--to", to, "--clean")
    assert first.code == 0, first
    assert "used by slurm-2" in first.out
    assert arrived(to) == named(source)
    assert "removed" in job(2, "--to", to, "--clean").out
    assert not to.exists()


def test_a_job_s_clean_alone_removes_all_of_its_copies_and_no_other(
    job: Job, source: Path, mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATAPREP_SCRATCH", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    for number in (1, 2):
        for more in ((source,), (mine, "--shared"), (mine,)):
            assert job(number, *more).code == 0
    assert job(2, source, "--shared").code == 0

    def left() -> list[str]:
        found = (tmp_path / "scratch").glob("*/*/*/manifest.json")
        return sorted(f"{path.parents[1].name} {path.parent.name}" for path in found)

    theirs = sorted(f"{of} {path.name}" for of in ("slurm-2", "shared") for path in (source, mine))
    for _ in range(2):  # an epilog comes after the job's own
        cleaned = job(1, "--clean")
        assert cleaned.code == 0, cleaned
        assert left() == theirs
    assert "slurm-1 has nothing in this node's scratch" not in cleaned.out
    assert "used by slurm-2" in cleaned.out
    assert job(2, "--clean").out.count("removed") == 4
    assert left() == []
    assert "slurm-2 has nothing in this node's scratch" in job(2, "--clean").out


@pytest.mark.parametrize(
    "shared",
    [pytest.param(False, id="apart", marks=pytest.mark.thorough), pytest.param(True, id="shared")],
)
def test_a_job_waits_while_another_one_copies_into_the_same_place(
    forks: Forks, source: Path, tmp_path: Path, shared: bool
) -> None:
    to, more = tmp_path / "to", ("--shared",) * shared
    first = Midway(forks, "stage", source, *more, to=to, environment={"SLURM_JOB_ID": "1"})
    words = ("stage", source, "--to", to, *more)
    second = forks.start(*words, environment={"SLURM_JOB_ID": "2"}, patch=TOLD_AT_ONCE)
    eventually(lambda: f"waiting for process {first.call.pid}" in second.said())
    assert first.go_on().code == 0
    result = second.done()
    if shared:
        assert result.code == 0, result
        assert "nothing to copy" in result.out
    else:
        refused(result, to, "slurm-1", "slurm-2", "--shared")
    assert arrived(to) == named(source)


# --- what is there, and cleaning ---


def test_status_tells_each_state(cli: Cli, forks: Forks, source: Path, tmp_path: Path) -> None:
    to = tmp_path / "to"

    def status(code: int = 1) -> list[str]:
        result = cli("stage", "--to", to, "--status")
        assert result.code == code, result
        return result.out.splitlines()

    assert status() == [f"{to}: nothing was staged here"]
    assert not to.exists()
    midway = Midway(forks, "stage", source, to=to)
    (line,) = status()
    assert f"process {midway.call.pid} on " in line
    assert " is working on it" in line
    midway.call.send(signal.SIGKILL)
    midway.call.done()
    (line,) = status()
    assert f"not whole, of {len(named(source))} files, and nobody is copying" in line
    assert "run the same dataprep stage again" in line
    assert cli("stage", source, "--to", to).code == 0
    (line,) = status(0)
    assert line.startswith(f"{to}: whole copy of {source}, {len(named(source))} files, ")
    os.utime(shards(to)[0])
    _, line = status()
    assert line.startswith(f"changed since: train/{shards(to)[0].name}")
    part = tmp_path / "part"
    assert cli("stage", source, "--to", part, "--split", "train").code == 0
    assert f"whole copy of {source} (only train)" in cli("stage", "--to", part, "--status").out


def test_what_another_job_has_left_half_done_is_taken_over(
    job: Job, forks: Forks, source: Path, tmp_path: Path
) -> None:
    to = tmp_path / "to"
    midway = Midway(forks, "stage", source, to=to, environment={"SLURM_JOB_ID": "1"})
    midway.call.send(signal.SIGKILL)
    midway.call.done()
    assert "there already" in job(2, source, "--to", to).out
    assert arrived(to) == named(source)
