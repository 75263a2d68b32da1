"""Markers of runs that there are not."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import replace

from dataprep.build.lock import Marker


def claim_of(host: str = "", **changes: str | int) -> str:
    """A marker like this process's, but for what is said."""
    ours = Marker.of_this_process(since=1.0)
    return replace(ours, host=host or ours.host, **changes).text()  # type: ignore[arg-type]


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
