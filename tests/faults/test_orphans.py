"""A worker that outlives its launcher must not disturb the run that took its place."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from dataprep.errors import PipelineError
from dataprep.images import Recipe
from dataprep.jobs.clearing import remove_partial_files
from dataprep.jobs.commit import CommitRecord
from dataprep.jobs.job import Job
from dataprep.jobs.lock import locked
from dataprep.jobs.prepare import prepare
from dataprep.jobs.request import MaxBad, Request
from dataprep.jobs.workspace import Workspace
from dataprep.sinks import ShardName
from dataprep_pipelines.failures import FailureLog
from dataprep_pipelines.run import Launcher
from dataprep_pipelines.runners import Engine, Parallelism
from dataprep_pipelines.runners.local import LocalEngine
from dataprep_pipelines.tasks import task_file
from dataprep_pipelines.write import WriteShard
from tests.conftest import Made, hashes, leftovers

SHARD = ShardName("train", 2, 6)
ORPHAN = "failure-orphan.json"


class Jobs:
    """A reporter that keeps the job, which is what a worker is given."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def line(self, text: str) -> None:
        pass

    def scanning(self, done: int, total: int) -> None:
        pass

    def writing(self, job: Job, committed: Sequence[CommitRecord]) -> None:
        self.jobs.append(job)

    def progress(self, new: Sequence[CommitRecord], under_way: int) -> None:
        pass

    def finished(self) -> None:
        pass


@dataclass
class Between:
    """The lease of an orphan between two looks at it: nothing has happened to its files yet.

    Attributes:
        swept: the output directory of a new run, which removes the files at the first look.
        silent: it is on another host, and has not heard of its launcher for long.
        taken_over: and another run has its place.
    """

    failure: Path
    swept: Workspace | None = None
    silent: bool = False
    taken_over: bool = False
    look_seconds: float = 2.0

    def lost(self) -> bool:
        if self.swept is not None:
            remove_partial_files(self.swept, ["train", "validation"])
        return self.silent

    def lost_now(self) -> bool:
        return self.silent or self.swept is not None

    def over(self) -> bool:
        return self.taken_over or self.swept is not None


@pytest.fixture
def job(tiny: Made, tmp_path: Path) -> Job:
    jobs = Jobs()
    counts = {"train": 6, "validation": 2}
    request = Request(
        dataset="imagenet",
        raw=tiny.raw.path,
        out=tmp_path,
        recipe=Recipe(),
        max_bad=MaxBad(),
        num_shards=counts,
    )
    prepare(request, Launcher(Engine(1)), jobs)
    return jobs.jobs[0]


def work_as_orphan(job: Job, lease: object) -> None:
    orphan = dataclasses.replace(job, lease=lease)  # type: ignore[arg-type]
    failures = FailureLog(orphan.lease)
    with task_file(orphan, orphan.lease, None, "write") as spec:
        work = WriteShard(spec, Parallelism(), failures)
        engine = LocalEngine(Engine(1))
        engine.run([SHARD], work, Parallelism(), watch=lambda: None, failures=failures)


def test_an_orphan_whose_files_were_swept_does_not_fail_the_new_run(tiny: Made, job: Job) -> None:
    with locked(job.workspace):  # the new run
        work_as_orphan(job, Between(job.workspace.private / ORPHAN, swept=job.workspace))
        assert job.workspace.run_files() == []
    assert leftovers(job.workspace.out) == []
    assert hashes(job.workspace.out) == tiny.files


def test_an_orphan_that_publishes_late_publishes_the_same_bytes(
    tiny: Made, job: Job, tmp_path: Path
) -> None:
    with locked(job.workspace):
        work_as_orphan(job, Between(tmp_path / ORPHAN))
    assert leftovers(job.workspace.out) == []
    assert hashes(job.workspace.out) == tiny.files


def test_an_orphan_that_looks_stops(tiny: Made, job: Job) -> None:
    record = job.workspace.commits / f"{SHARD}.json"
    record.unlink()
    work_as_orphan(job, job.lease)  # nobody holds the directory any more
    assert not record.exists()
    assert leftovers(job.workspace.out) == []


def test_what_a_worker_left_undone_does_not_look_done_while_its_launcher_may_live(
    job: Job, tmp_path: Path
) -> None:
    record = job.workspace.commits / f"{SHARD}.json"
    record.unlink()
    with pytest.raises(PipelineError, match=f"no sign of life of the launcher; {SHARD}"):
        work_as_orphan(job, Between(tmp_path / ORPHAN, silent=True))
    work_as_orphan(job, Between(tmp_path / ORPHAN, silent=True, taken_over=True))
    assert not record.exists()
    assert leftovers(job.workspace.out) == []
