"""A process that is nice, with all its threads and children."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_CODE = """
import os, subprocess, sys, threading
from dataprep.system.niceness import be_nice

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
        [sys.executable, "-c", _CODE, str(asked)],
        preexec_fn=lambda: os.nice(max(0, before - own)),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == [str(max(own, after))] * 4
