"""What a Slurm that binds nothing says of a job's cores, on nodes of 8."""

from __future__ import annotations

import shlex
import sys
from collections import Counter

import pytest

from tests.slurm.cluster import Cluster

pytestmark = pytest.mark.slurm

_SHOW = (
    "import os, sys; from dataprep.system.job_limits import scheduler_cores; "
    "print(sys.argv[1], scheduler_cores(os.environ))"
)


@pytest.mark.parametrize(
    ("options", "script", "task", "tasks"),
    [
        ("--ntasks=1 --cpus-per-task=4", 4, 4, 1),
        ("--nodes=1 --ntasks=4 --cpus-per-task=2", 8, 2, 4),
        ("--nodes=2 --ntasks-per-node=2 --cpus-per-task=3", 6, 3, 4),
        ("--nodes=1 --ntasks=5", 5, 1, 5),
    ],
)
def test_a_batch_script_may_use_all_and_a_task_its_share(
    cluster: Cluster, options: str, script: int, task: int, tasks: int
) -> None:
    show = shlex.join([sys.executable, "-c", _SHOW])
    job = cluster.submit(f"#!/bin/sh\n{show} script\nsrun {show} task\n", *options.split())
    assert cluster.wait(job).code == 0
    said = Counter(cluster.output(job).splitlines())
    assert said == {f"script {script}": 1, f"task {task}": tasks}
