"""Letting other people's processes on this machine go first."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def be_nice(level: int) -> None:
    """Run with this niceness, or with a higher one that the process has already.

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
