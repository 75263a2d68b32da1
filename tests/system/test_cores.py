"""How many cores this process may use, how nicely, and with how many threads."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dataprep.system.job_limits import one_thread_each

_NICE = """
import os, subprocess, sys, threading
from dataprep.system.job_limits import be_nice

def niceness(number):
    return os.getpriority(os.PRIO_PROCESS, number)

go_on, seen = threading.Event(), []
earlier = threading.Thread(target=lambda: (go_on.wait(), seen.append(niceness(0))))
earlier.start()
be_nice(int(sys.argv[1]))
go_on.set()
earlier.join()
later = threading.Thread(target=lambda: seen.append(niceness(0)))
later.start()
later.join()
child = subprocess.run(
    [sys.executable, "-c", "import os; print(os.getpriority(os.PRIO_PROCESS, 0))"],
    capture_output=True, text=True, check=True,
)
print(niceness(0), *seen, int(child.stdout))
"""


@pytest.mark.parametrize(("before", "asked", "after"), [(0, 5, 5), (7, 5, 7), (7, 19, 19)])
def test_threads_and_children_are_as_nice_and_never_less_than_before(
    before: int, asked: int, after: int
) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    done = subprocess.run(
        [sys.executable, "-c", _NICE, str(asked)],
        preexec_fn=lambda: os.nice(max(0, before - own)),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == [str(max(own, after))] * 4


_THREADS = """
import numpy
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("Threads:")][0])
"""
_BY_COMMAND_LINE = """
import sys
from dataprep.cli import entry_point
sys.argv[1:] = ["--version"]
assert entry_point() == 0
"""


def threads(code: str) -> int:
    """Of a process that runs this and then imports numpy."""
    environ = {
        name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")
    }
    done = subprocess.run(
        [sys.executable, "-c", code + _THREADS],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return int(done.stdout.splitlines()[-1])


def test_numpy_starts_no_threads_behind_the_command_line() -> None:
    if threads("") == 1:
        pytest.skip("numpy starts no threads here anyway: one core, or another BLAS")
    assert threads(_BY_COMMAND_LINE) == 1


@pytest.mark.parametrize(
    ("environ", "threads"),
    [
        ({}, "1"),
        ({"OMP_NUM_THREADS": "3"}, "3"),
        # What PBS sets in every job is nobody's wish.
        ({"PBS_JOBID": "7.server", "NCPUS": "128", "OMP_NUM_THREADS": "128"}, "1"),
        ({"PBS_JOBID": "7.server", "NCPUS": "128", "OMP_NUM_THREADS": "2"}, "2"),
    ],
)
def test_libraries_get_one_thread_unless_the_user_said_more(
    environ: dict[str, str], threads: str
) -> None:
    one_thread_each(environ)
    assert environ["OMP_NUM_THREADS"] == threads
