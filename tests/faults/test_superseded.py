"""A launcher that was given up for dead, and wakes up, leaves the new run's work alone."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import pytest

from dataprep.errors import LockedError
from dataprep.jobs.commit import finished_shards
from dataprep.jobs.identity import claim, read_job
from dataprep.jobs.job import Job
from dataprep.jobs.lock import locked
from dataprep.jobs.request import MaxBad
from dataprep.jobs.seal import seal
from tests.conftest import Made, hashes
from tests.faults.test_orphans import job
from tests.jobs.markers import claim_of

__all__ = ["job"]  # the fixture


@dataclass(frozen=True, slots=True)
class TakenMeanwhile(MaxBad):
    """Another run takes the directory over while this one decides."""

    lock: Path = Path()

    def allows(self, rejected: int, images: int) -> bool:
        self.lock.write_text(claim_of("n1"))
        return True


def seal_again(job: Job, max_bad: MaxBad) -> None:
    identity = read_job(job.workspace).identity
    report = list[str]().append
    records = finished_shards(job.workspace)
    seal(job, identity, records, max_bad=max_bad, report=report)


def test_it_seals_nothing(job: Job) -> None:  # pytest hands in the fixture
    job.workspace.manifest.unlink()
    with locked(job.workspace) as lease:
        ours = dataclasses.replace(job, lease=lease)
        with pytest.raises(LockedError, match="another run took this directory over"):
            seal_again(ours, TakenMeanwhile(lock=job.workspace.lock))
    assert not job.workspace.manifest.exists()


def test_a_late_worker_s_failure_does_not_keep_a_run_from_sealing(tiny: Made, job: Job) -> None:
    job.workspace.manifest.unlink()
    with locked(job.workspace) as lease:
        lease.failure.write_text("{}")
        seal_again(dataclasses.replace(job, lease=lease), MaxBad())
    assert hashes(job.workspace.out) == tiny.files


def test_it_overwrites_nothing(tiny: Made, job: Job) -> None:  # as above
    identity = read_job(job.workspace).identity
    with pytest.raises(LockedError, match="another run took this directory over"):
        claim(job, identity, {}, overwrite=True)
    assert hashes(job.workspace.out) == tiny.files
