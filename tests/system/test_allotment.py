"""What schedulers say of this process's cores."""

from __future__ import annotations

import pytest

from dataprep.system.allotment import allotted_cores

BATCH = {"SLURM_JOB_ID": "7", "SLURM_NODEID": "0"}
STEP = {**BATCH, "SLURM_STEP_ID": "0"}

# As Slurm 22.05 set them, with select/cons_tres and task/none, on nodes of 8 cores.
SLURM: dict[str, tuple[dict[str, str], int | None]] = {
    "a batch script of -n1 -c4": (
        {**BATCH, "SLURM_CPUS_ON_NODE": "4", "SLURM_CPUS_PER_TASK": "4"}
        | {"SLURM_TASKS_PER_NODE": "1"},
        4,
    ),
    "a batch script of -n1": (
        {**BATCH, "SLURM_CPUS_ON_NODE": "1", "SLURM_TASKS_PER_NODE": "1"},
        1,
    ),
    "a batch script of -n4 -c2 has them all": (
        {**BATCH, "SLURM_CPUS_ON_NODE": "8", "SLURM_CPUS_PER_TASK": "2"}
        | {"SLURM_TASKS_PER_NODE": "4"},
        8,
    ),
    "a step of -n4 -c2": (
        {**STEP, "SLURM_CPUS_ON_NODE": "8", "SLURM_CPUS_PER_TASK": "2"}
        | {"SLURM_TASKS_PER_NODE": "4", "SLURM_STEP_TASKS_PER_NODE": "4"},
        2,
    ),
    "a step of -N2 -n5, the first node": (
        {**STEP, "SLURM_CPUS_ON_NODE": "4", "SLURM_STEP_TASKS_PER_NODE": "4,1"},
        1,
    ),
    "a step of one task in a job of -n5": (
        {**STEP, "SLURM_CPUS_ON_NODE": "5", "SLURM_STEP_TASKS_PER_NODE": "1"},
        5,
    ),
    "a step of unequal nodes, the last one": (
        {**STEP, "SLURM_NODEID": "3", "SLURM_CPUS_ON_NODE": "8"}
        | {"SLURM_STEP_TASKS_PER_NODE": "4(x3),2"},
        4,
    ),
    "a step with more tasks than cores": (
        {**STEP, "SLURM_CPUS_ON_NODE": "2", "SLURM_STEP_TASKS_PER_NODE": "8"},
        1,
    ),
    "a shared node of which a task is told too much": (
        {**STEP, "SLURM_CPUS_ON_NODE": "4", "SLURM_CPUS_PER_TASK": "16"},
        4,
    ),
    "an interactive step is a shell": (
        {**BATCH, "SLURM_STEP_ID": str(0xFFFFFFFA), "SLURM_CPUS_ON_NODE": "8"}
        | {"SLURM_CPUS_PER_TASK": "2", "SLURM_TASKS_PER_NODE": "4"},
        8,
    ),
    "salloc on a login node, -c4": ({"SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "4"}, 4),
    "salloc on a login node": ({"SLURM_JOB_ID": "7", "SLURM_TASKS_PER_NODE": "4"}, None),
    "no job, but what is left of one": (
        {"SLURM_CPUS_PER_TASK": "4", "SLURM_CPUS_ON_NODE": "4"},
        None,
    ),
    "nonsense": ({**STEP, "SLURM_CPUS_ON_NODE": "many", "SLURM_CPUS_PER_TASK": "0"}, None),
}

OTHERS: dict[str, tuple[dict[str, str], int | None]] = {
    "PBS": ({"PBS_JOBID": "7.server", "NCPUS": "6"}, 6),
    "PBS that does not say": ({"PBS_JOBID": "7.server"}, None),
    "NCPUS outside of PBS": ({"NCPUS": "6"}, None),
    "LSF": ({"LSB_JOBID": "7", "LSB_MCPU_HOSTS": "node1 4"}, 4),
    "LSF with several hosts": (
        {"LSB_JOBID": "7", "LSB_MCPU_HOSTS": "node2.site 8 node1.site 3"},
        3,
    ),
    "LSF on a host that has no slots": ({"LSB_JOBID": "7", "LSB_MCPU_HOSTS": "node2 8"}, None),
    "LSF that binds": (
        {"LSB_JOBID": "7", "LSB_MCPU_HOSTS": "node1 1", "LSB_BIND_CPU_LIST": "0,1,2,3"},
        None,
    ),
    "LSF with half a list": ({"LSB_JOBID": "7", "LSB_MCPU_HOSTS": "node1"}, None),
    "nothing": ({}, None),
}


@pytest.mark.parametrize(("environ", "cores"), SLURM.values(), ids=SLURM)
def test_slurm_gives_a_task_its_share_and_a_script_all(
    environ: dict[str, str], cores: int | None
) -> None:
    assert allotted_cores(environ, "node1") == cores


@pytest.mark.parametrize(("environ", "cores"), OTHERS.values(), ids=OTHERS)
def test_other_schedulers_say_it_in_their_ways(environ: dict[str, str], cores: int | None) -> None:
    assert allotted_cores(environ, "node1.cluster") == cores
