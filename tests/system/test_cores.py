"""How many cores this process may use, and with how many threads."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dataprep.system.cores import one_thread_each

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
