"""Numeric libraries start no threads in the command line's processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dataprep.system.numeric_threads import one_thread_each

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


@pytest.mark.parametrize("name", sorted(NAMES))
def test_what_the_user_set_stays(name: str) -> None:
    environ = {name: "3"}
    one_thread_each(environ)
    assert environ[name] == "3"


def test_who_sets_the_general_variable_sets_all() -> None:
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
