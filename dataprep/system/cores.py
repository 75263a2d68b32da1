"""How many cores this process may use, which is seldom how many the machine has."""

from __future__ import annotations

import os
from collections.abc import MutableMapping

_THREADS = "OMP_NUM_THREADS"


def usable_cores() -> int:
    """The least of the affinity mask, the quota of control groups and what the scheduler gave."""
    from dataprep.system.job_limits import group_cores, scheduler_cores  # not for `--help`

    bounds = (len(os.sched_getaffinity(0)), group_cores(), scheduler_cores(os.environ))
    return min(bound for bound in bounds if bound is not None)


def one_thread_each(environ: MutableMapping[str, str]) -> None:
    """Let numeric libraries of this process's children, and its own later imports, use one thread.

    Processes and threads of our own use the cores. OpenBLAS, for one, starts a thread for every
    core of the machine as soon as numpy is imported: 128 in every one of 32 processes, for nothing.

    All of these libraries take OMP_NUM_THREADS where their own variable is not set. What the user
    set stays; but PBS sets it in every job, to the same as NCPUS, and nobody asked for that.

    Args:
        environ: the environment, which is changed.
    """
    of_pbs = environ.get("PBS_JOBID") and environ.get("NCPUS") == environ.get(_THREADS)
    if of_pbs or not environ.get(_THREADS):
        environ[_THREADS] = "1"
