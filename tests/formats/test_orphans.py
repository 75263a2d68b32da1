"""A process that reads for another ends with it, also where that one is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_ASKING = """
from pathlib import Path
from dataprep.formats.subprocess_reader import in_child
from tests.formats.test_orphans import endless
for process in in_child(Path(), endless):
    print(process, flush=True)
"""


def endless() -> Iterator[int]:
    yield os.getpid()
    time.sleep(60)


def test_the_process_ends_with_whoever_was_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", _ASKING], stdout=subprocess.PIPE) as asking:
        assert asking.stdout is not None
        child = Path("/proc", asking.stdout.readline().decode().strip())
        assert child.exists()
        asking.kill()
    for _ in range(100):
        if not child.exists() or ") Z " in (child / "stat").read_text():
            return
        time.sleep(0.05)
    raise AssertionError("it goes on")
