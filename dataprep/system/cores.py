"""How many cores this process may use, which is seldom how many the machine has, and how nicely."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path

_THREADS = "OMP_NUM_THREADS"


def usable_cores() -> int:
    """The least of the affinity mask, the quota of control groups and what the scheduler gave."""
    from dataprep.system.job_limits import group_cores, scheduler_cores  # not for `--help`

    bounds = (len(os.sched_getaffinity(0)), group_cores(), scheduler_cores(os.environ))
    return min(bound for bound in bounds if bound is not None)


def be_nice(level: int) -> None:
    """Let other people's processes go first: run with this niceness, or with a higher one.

    Threads and processes that are started from now on inherit it.

    Args:
        level: 0, as usual, to 19, the nicest.
    """
    # On Linux each thread has its own; libraries may have started some.
    for thread in Path("/proc/self/task").iterdir():
        number = int(thread.name)
        with suppress(ProcessLookupError):  # ended meanwhile
            if os.getpriority(os.PRIO_PROCESS, number) < level:
                os.setpriority(os.PRIO_PROCESS, number, level)


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
