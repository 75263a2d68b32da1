"""docker/jobs/train.sbatch: training that is signalled, requeued, and gone on with exactly."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

import dataprep
from tests.conftest import Made
from tests.slurm.cluster import Cluster
from tests.training.test_train_script import SCRIPT, consumed, sequence

JOB = Path(__file__).parents[2] / "docker" / "jobs" / "train.sbatch"


@pytest.mark.slurm
@pytest.mark.thorough
@pytest.mark.skipif(not find_spec("torch"), reason="needs torch")
def test_a_job_that_is_signalled_is_requeued_and_goes_on(
    cluster: Cluster, photos: Made, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    job = cluster.submit(
        JOB.read_text(),
        *("--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=1", "--time=60"),
        arguments=[
            *("--log_keys", str(keys), "--batch_size", "1", "--size", "64", "--depth", "26"),
            *("--epochs", "2"),
        ],
        OUT=str(photos.out),
        CHECKPOINT=str(tmp_path / "last.pt"),
        PROGRAM=str(SCRIPT),
        OMP_NUM_THREADS="1",
    )
    cluster.until(lambda: keys.exists() and bool(keys.read_text()), seconds=120)
    cluster.run("scancel", "--signal=USR1", job)  # as --signal=USR1@600 does
    cluster.until(lambda: (tmp_path / "last.pt").exists(), seconds=60)
    assert consumed(tmp_path) == (10, 20)
    ended = cluster.wait(job, seconds=180)
    assert ended.code == 0, ended.out
    assert "Restarts=1" in cluster.run("scontrol", "show", "job", job, "--oneliner").out
    found = sequence(keys)
    records = dataprep.open(photos.out)
    sampler = records.sampler(1, rank=0, world_size=1)
    numbers = [number for _ in range(2) for batch in sampler for number in batch]
    assert found == [records[number].key for number in numbers]
