"""A bound on the bytes a second that a run moves, divided among its processes on this machine.

On a login node others use the same file servers. What moves the bytes of images calls `pay` for
them and is held up there. Each process keeps to its own part, which it finds in its environment;
what one does not use is lost to the others.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_BURST_SECONDS = 0.1  # what may be moved at once after a pause
_NAP_SECONDS = 0.1  # between two looks at whether to stop
_VARIABLE = "DATAPREP_IO_LIMIT"  # bytes a second, of a process and those that it starts


class Bandwidth:
    """A token bucket that the threads of a process share.

    Whoever takes more than is there goes into debt and sleeps it off, so pieces may be larger than
    the bucket, and threads come to their turn in the order in which they asked.

    Args:
        bytes_per_second: the bound; None for none.
    """

    def __init__(self, bytes_per_second: float | None) -> None:
        self._lock = threading.Lock()
        self.bound(bytes_per_second)

    def bound(self, bytes_per_second: float | None) -> None:
        """Exchange the bound; without one nobody waits any more. A signal's handler may call it.

        Nobody owes anything from before: in a session one call may follow another that was stopped.
        """
        self._free_at = time.monotonic()  # when everything that was taken has been paid for
        self._whole = self._rate = bytes_per_second

    def divide(self, parts: int) -> float | None:
        """Leave one part of the whole bound to this process; returns that."""
        self._rate = self._whole and self._whole / parts
        return self._rate

    def take(self, count: int, check: Callable[[], None] = lambda: None) -> None:
        """Wait until so many bytes may be moved.

        Args:
            check: called now and then while waiting; raises to stop.
        """
        rate = self._rate
        if rate is None:
            return
        with self._lock:
            earliest = time.monotonic() - _BURST_SECONDS
            due = self._free_at = max(self._free_at, earliest) + count / rate
        while self._rate is not None and (wait := due - time.monotonic()) > 0:
            check()
            time.sleep(min(wait, _NAP_SECONDS))


_OF_PROCESS: Final = Bandwidth(float(os.environ.get(_VARIABLE, 0)) or None)


def pay(count: int) -> None:
    """Wait until ``count`` bytes, which were read or written just now, fit the bound, if any."""
    _OF_PROCESS.take(count)


def divide(processes: int) -> None:
    """Let this process, and each that it starts from now on, move so many-th a part."""
    if (rate := _OF_PROCESS.divide(processes)) is not None:
        os.environ[_VARIABLE] = str(rate)


def lift() -> None:
    """Hold nobody up any more in this process: the run is being stopped."""
    _OF_PROCESS.bound(None)


@contextmanager
def io_limited(bytes_per_second: int | None) -> Iterator[None]:
    """Bound what this process moves meanwhile, and those that it starts; None for no bound."""
    _OF_PROCESS.bound(bytes_per_second)
    divide(1)
    try:
        yield
    finally:
        lift()
        os.environ.pop(_VARIABLE, None)
