"""How many cores this process may use, how nicely, and with how many threads."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dataprep.system import job_limits
from dataprep.system.cores import one_thread_each, usable_cores

_SHOW = (
    sys.executable,
    "-c",
    "from dataprep.system.cores import usable_cores; print(usable_cores())",
)


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch) -> dict[str, int | None]:
    found: dict[str, int | None] = {"affinity": 64, "quota": None, "allotted": None}
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(found["affinity"] or 0))
    monkeypatch.setattr(job_limits, "group_cores", lambda: found["quota"])
    monkeypatch.setattr(job_limits, "scheduler_cores", lambda _: found["allotted"])
    return found


@pytest.mark.parametrize("name", ["affinity", "quota", "allotted"])
def test_the_least_bound_counts(bounds: dict[str, int | None], name: str) -> None:
    assert usable_cores() == 64
    bounds.update(affinity=48, quota=32, allotted=40)
    bounds[name] = 4
    assert usable_cores() == 4


@pytest.mark.parametrize("by_slurm", [False, True])
def test_a_process_that_is_bound_to_a_core_uses_one(by_slurm: bool) -> None:
    core = min(os.sched_getaffinity(0))
    job = {"SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "1", "SLURM_CPUS_ON_NODE": "1"}
    done = subprocess.run(
        _SHOW,
        env=os.environ | job if by_slurm else None,
        preexec_fn=None if by_slurm else lambda: os.sched_setaffinity(0, {core}),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "1\n"


_NICE = """
import os, subprocess, sys, threading
from dataprep.system.cores import be_nice

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


NAMES = {
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
}
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
    environ = {name: value for name, value in os.environ.items() if name not in NAMES}
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


def test_to_import_dataprep_changes_no_environment() -> None:
    code = (
        "import os; before = dict(os.environ); import dataprep, dataprep.cli, dataprep.datasets; "
        "assert dict(os.environ) == before"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_every_library_gets_one_thread() -> None:
    environ = {"HOME": "/home/me"}
    one_thread_each(environ)
    assert environ == {"HOME": "/home/me", **dict.fromkeys(NAMES, "1")}


def test_what_the_user_set_stays_and_the_general_variable_stands_for_all() -> None:
    environ = {"MKL_NUM_THREADS": "3"}
    one_thread_each(environ)
    assert environ == {**dict.fromkeys(NAMES, "1"), "MKL_NUM_THREADS": "3"}
    environ = {"OMP_NUM_THREADS": "3"}
    one_thread_each(environ)
    assert environ == {"OMP_NUM_THREADS": "3"}


def test_what_pbs_sets_in_every_job_is_nobodys_wish() -> None:
    environ = {"PBS_JOBID": "7.server", "NCPUS": "128", "OMP_NUM_THREADS": "128"}
    one_thread_each(environ)
    assert {environ[name] for name in NAMES} == {"1"}
    environ = {"PBS_JOBID": "7.server", "NCPUS": "128", "OMP_NUM_THREADS": "2"}
    one_thread_each(environ)
    assert environ["OMP_NUM_THREADS"] == "2"
