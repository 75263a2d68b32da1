"""How many cores of this host a batch scheduler has given to this process, by its variables.

A scheduler that binds jobs to their cores says so through the affinity mask or a control group.
Without a task plugin, cgroup hook or the like it binds nothing, and a job that asked for 4 of 128
cores sees all of them; then only its variables tell.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping

_STEPS_BUT_OF_SRUN = 0xFFFFFFF0  # Slurm's numbers from here on: batch scripts, shells and the like
_TASKS = re.compile(r"(\d+)(?:\(x(\d+)\))?")  # `2(x3)`: 2 on each of 3 nodes


def allotted_cores(environ: Mapping[str, str], host: str | None = None) -> int | None:
    """The cores that Slurm, PBS or LSF has given to this process on this host.

    Args:
        environ: the environment.
        host: this host; by default what it calls itself.

    Returns:
        1 or more; None outside of their jobs, and where they do not say.
    """
    if environ.get("SLURM_JOB_ID"):
        return _slurm(environ)
    if environ.get("PBS_JOBID"):
        # Of PBS Professional and OpenPBS: the chunk's ncpus, or its ompthreads.
        return _number(environ, "NCPUS")
    if environ.get("LSB_JOBID"):
        return _lsf(environ, host or socket.gethostname())
    return None


def _slurm(environ: Mapping[str, str]) -> int | None:
    """Under ``srun`` a task's share; in a batch script or shell, all that the job has here.

    Slurm sets SLURM_CPUS_PER_TASK only if --cpus-per-task was given, and SLURM_CPUS_ON_NODE only on
    the nodes of the job: the shell of ``salloc`` may be on a login node, which is no part of it.
    Source: the environment variables of sbatch(1), srun(1) and salloc(1).
    """
    step = environ.get("SLURM_STEP_ID", "")
    by_srun = step.isdecimal() and int(step) < _STEPS_BUT_OF_SRUN
    each, here = _number(environ, "SLURM_CPUS_PER_TASK"), _number(environ, "SLURM_CPUS_ON_NODE")
    if here is None:
        return each
    tasks = _tasks(environ, "SLURM_STEP_TASKS_PER_NODE" if by_srun else "SLURM_TASKS_PER_NODE")
    if by_srun:
        return min(here, each or max(1, here // tasks))
    return min(here, each * tasks) if each else here


def _tasks(environ: Mapping[str, str], name: str) -> int:
    """How many tasks are on this node, by a list such as ``2(x3),1``; 1 if it does not say."""
    node = _number(environ, "SLURM_NODEID", least=0) or 0
    for count, nodes in _TASKS.findall(environ.get(name, "")):
        node -= int(nodes or 1)
        if node < 0:
            return max(1, int(count))
    return 1


def _lsf(environ: Mapping[str, str], host: str) -> int | None:
    """The slots on this host, in LSB_MCPU_HOSTS: ``host1 4 host2 8``."""
    if environ.get("LSB_BIND_CPU_LIST"):
        return None  # asked for with affinity[]: a slot may be several cores, and LSF binds them
    words = environ.get("LSB_MCPU_HOSTS", "").split()
    for name, slots in zip(words[::2], words[1::2], strict=False):
        if name.partition(".")[0] == host.partition(".")[0] and slots.isdecimal():
            return max(1, int(slots))
    return None


def _number(environ: Mapping[str, str], name: str, least: int = 1) -> int | None:
    text = environ.get(name, "")
    return int(text) if text.isdecimal() and int(text) >= least else None
