"""A worker or a launcher that was given up for dead must not disturb the run in its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from dataprep.api.progress import Reporter
from dataprep.errors import LockedError, PipelineError
from dataprep.formats import ShardName
from dataprep.images import Recipe
from dataprep.jobs.output.commit import finished_shards
from dataprep.jobs.output.lock import locked
from dataprep.jobs.output.workspace import Workspace, read_job
from dataprep.jobs.preparing.prepare import prepare
from dataprep.jobs.request import MaxBad, Request
from dataprep.jobs.running.clearing import remove_partial_files
from dataprep.jobs.running.identity import claim
from dataprep.jobs.running.job import Job
from dataprep.jobs.running.seal import seal
from dataprep_pipelines.failures import FailureLog
from dataprep_pipelines.run import Launcher
from dataprep_pipelines.runners import Engine, Parallelism, Round
from dataprep_pipelines.runners.local import LocalEngine
from dataprep_pipelines.tasks import task_file
from dataprep_pipelines.write import WriteShard
from dataprep_schemas.state import CommitRecord
from tests.conftest import Made, everyday, hashes, leftovers
from tests.jobs.markers import claim_of

SHARD = ShardName("train", 2, 6)
ORPHAN = "failure-orphan.json"
TAKEN_OVER = "another run took this directory over"


class Keeping(Reporter):
    """Keeps the job, which is what a worker is given."""

    job: Job

    def writing(self, job: Job, committed: Sequence[CommitRecord]) -> None:
        self.job = job


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

    def lost(self, *, now: bool = False) -> bool:
        if self.swept is not None and not now:
            remove_partial_files(self.swept, ["train", "validation"])
        return self.silent or (now and self.swept is not None)

    def over(self) -> bool:
        return self.taken_over or self.swept is not None


@pytest.fixture
def job(tiny: Made, tmp_path: Path) -> Job:
    """The finished job of the tiny set."""
    reporter = Keeping(lambda _: None)
    request = Request(
        dataset="imagenet",
        raw=tiny.raw.path,
        out=tmp_path,
        recipe=Recipe(),
        max_bad=MaxBad(),
        num_shards={"train": 6, "validation": 2},
    )
    prepare(request, Launcher(Engine(workers=1)), reporter)
    return reporter.job


# --- workers ---


def work_as_orphan(job: Job, lease: object) -> None:
    orphan = replace(job, lease=lease)  # type: ignore[arg-type]
    failures = FailureLog(orphan.lease)
    with task_file(orphan, orphan.lease, None, "write") as spec:
        work = WriteShard(spec, Parallelism(), failures)
        engine = LocalEngine(Engine(workers=1))
        engine.run(Round([SHARD], work, Parallelism(), lambda: None, failures))


@pytest.mark.parametrize("swept", everyday([True], [False]))
def test_an_orphan_does_not_fail_the_new_run_and_publishes_the_same_bytes(
    tiny: Made, job: Job, swept: bool
) -> None:
    with locked(job.workspace):  # the new run
        lease = Between(job.workspace.private / ORPHAN, swept=job.workspace if swept else None)
        work_as_orphan(job, lease)
        assert job.workspace.run_files() == []
    assert leftovers(job.workspace.out) == []
    assert hashes(job.workspace.out) == tiny.files


def test_an_orphan_that_looks_stops(job: Job, tmp_path: Path) -> None:
    """Yet what it left undone does not look done while its launcher may live."""
    record = job.workspace.record(SHARD)
    record.unlink()
    work_as_orphan(job, job.lease)  # nobody holds the directory any more
    with pytest.raises(PipelineError, match=f"no sign of life of the launcher; {SHARD}"):
        work_as_orphan(job, Between(tmp_path / ORPHAN, silent=True))
    work_as_orphan(job, Between(tmp_path / ORPHAN, silent=True, taken_over=True))
    assert not record.exists()
    assert leftovers(job.workspace.out) == []


# --- launchers ---


@pytest.mark.parametrize("taken", [True, False])
def test_a_launcher_that_was_taken_over_seals_nothing(tiny: Made, job: Job, taken: bool) -> None:
    """But the failure of a late worker does not keep a run from sealing."""
    workspace = job.workspace
    workspace.manifest.unlink()

    def meanwhile() -> Iterator[pa.Table]:
        if taken:
            workspace.lock.write_text(claim_of("n1"))
        yield from ()

    said: list[str] = []

    def seal_again() -> None:
        with locked(workspace) as lease:
            lease.failure.write_text("{}")
            identity, records = read_job(workspace).identity, finished_shards(workspace)
            seal(replace(job, lease=lease), identity, records, said.append, others=meanwhile())

    if taken:
        with pytest.raises(LockedError, match=TAKEN_OVER):
            seal_again()
        assert not workspace.manifest.exists()
    else:
        seal_again()
        assert hashes(workspace.out) == tiny.files


def test_it_overwrites_nothing(tiny: Made, job: Job) -> None:
    identity = read_job(job.workspace).identity
    with pytest.raises(LockedError, match=TAKEN_OVER):
        claim(job, identity, {}, overwrite=True)
    assert hashes(job.workspace.out) == tiny.files
