"""Markers of runs that there are not."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

import msgspec

from dataprep.jobs.output.lock import marker_of_this_process, marker_text


def claim_of(host: str = "", **changes: str | int) -> str:
    """A marker like this process's, but for what is said."""
    ours = marker_of_this_process(since=1.0)
    return marker_text(msgspec.structs.replace(ours, host=host or ours.host, **changes))


def dead_process() -> int:
    with subprocess.Popen(["true"]) as child:
        child.wait()
    return child.pid


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread or process does."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
