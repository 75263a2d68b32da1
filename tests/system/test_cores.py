"""How many cores this process may use."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dataprep.system import cores
from dataprep.system.cores import usable_cores

_SHOW = (
    sys.executable,
    "-c",
    "from dataprep.system.cores import usable_cores; print(usable_cores())",
)


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch) -> dict[str, int | None]:
    found: dict[str, int | None] = {"affinity": 64, "quota": None, "allotted": None}
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(found["affinity"] or 0))
    monkeypatch.setattr(cores, "quota", lambda: found["quota"])
    monkeypatch.setattr(cores, "allotted_cores", lambda _: found["allotted"])
    return found


@pytest.mark.parametrize("name", ["affinity", "quota", "allotted"])
def test_the_least_bound_counts(bounds: dict[str, int | None], name: str) -> None:
    assert usable_cores() == 64
    bounds.update(affinity=48, quota=32, allotted=40)
    bounds[name] = 4
    assert usable_cores() == 4


def test_a_process_that_is_bound_to_a_core_uses_one() -> None:
    core = min(os.sched_getaffinity(0))
    done = subprocess.run(
        _SHOW,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "1\n"


def test_a_slurm_that_binds_nothing_is_believed() -> None:
    job = {"SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "1", "SLURM_CPUS_ON_NODE": "1"}
    done = subprocess.run(
        _SHOW, env=os.environ | job, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "1\n"
