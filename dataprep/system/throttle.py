"""A bound on the bytes a second that a run moves, divided among its processes on this machine.

On a login node others use the same file servers. What moves the bytes of images calls `pay` for
them and is held up there; without a bound that is one comparison. Each process keeps to its own
part, which it finds in its environment; what one does not use is lost to the others.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_BURST_SECONDS = 0.1  # what may be moved at once after a pause
_NAP_SECONDS = 0.1  # between two looks at whether to stop
_VARIABLE = "DATAPREP_IO_LIMIT"


class Bandwidth:
    """A token bucket that the threads of a process share.

    Whoever takes more than is there goes into debt and sleeps it off, so pieces may be larger than
    the bucket, and threads come to their turn in the order in which they asked.

    Args:
        bytes_per_second: the bound; None for none.
    """

    def __init__(self, bytes_per_second: float | None) -> None:
        self._rate = bytes_per_second
        self._lock = threading.Lock()
        self._free_at = time.monotonic()  # when everything that was taken has been paid for

    def take(self, count: int, check: Callable[[], None] = lambda: None) -> None:
        """Wait until ``count`` bytes may be moved.

        Args:
            count: bytes.
            check: called now and then while waiting; raises to stop.
        """
        if self._rate is None:
            return
        with self._lock:
            earliest = time.monotonic() - _BURST_SECONDS
            due = self._free_at = max(self._free_at, earliest) + count / self._rate
        while (wait := due - time.monotonic()) > 0:
            check()
            time.sleep(min(wait, _NAP_SECONDS))


class _Part:
    """What this process may move.

    Args:
        rate: bytes a second, of this process and those that it starts.
        launcher: where the launcher has a file open, ``/proc/PID/fd/N``, until it ends or lifts
            the bound, so that no process sleeps on after that.
        name: of that file, since the number may be another file's by then.
    """

    def __init__(self, rate: float, launcher: str, name: str) -> None:
        self._rate = rate
        self._launcher = launcher
        self._name = name
        self.divide(1)

    def divide(self, processes: int) -> None:
        own = self._rate / processes
        self._bandwidth = Bandwidth(own)
        os.environ[_VARIABLE] = f"{own} {self._launcher} {self._name}"

    def pay(self, count: int) -> None:
        with suppress(OSError):
            self._bandwidth.take(count, self.check)

    def check(self) -> None:
        """Raise an OSError if the bound is lifted, or the launcher is gone."""
        if self._name not in str(Path(self._launcher).readlink()):
            raise ProcessLookupError(self._launcher)


def _inherited() -> _Part | None:
    """This process's part in the bound of the one that started it."""
    try:
        rate, launcher, name = os.environ[_VARIABLE].split()
        part = _Part(float(rate), launcher, name)
        part.check()
    except (KeyError, ValueError, OSError):
        return None
    return part


_part: _Part | None = _inherited()
_open_file: int | None = None  # of the launcher


def pay(count: int) -> None:
    """Wait until ``count`` bytes, which were read or written just now, fit the bound, if any."""
    if _part is not None:
        _part.pay(count)


def is_limited() -> bool:
    """Whether there is a bound, so that it is worth while to count."""
    return _part is not None


def divide(processes: int) -> None:
    """Let this process, and each that it starts from now on, move so many-th a part."""
    if _part is not None:
        _part.divide(processes)


@contextmanager
def io_limited(bytes_per_second: int | None) -> Iterator[None]:
    """Bound what this process moves meanwhile, and those that it starts; None for no bound."""
    global _part, _open_file
    if bytes_per_second is None:
        yield
        return
    name = f"dataprep-{secrets.token_hex(8)}"
    _open_file = os.memfd_create(name)
    _part = _Part(bytes_per_second, f"/proc/{os.getpid()}/fd/{_open_file}", name)
    try:
        yield
    finally:
        lift()
        _part = None
        del os.environ[_VARIABLE]


def lift() -> None:
    """Hold nobody up any more, in any process of the run: it is being stopped.

    A signal's handler may call it.
    """
    global _open_file
    if _open_file is not None:
        opened, _open_file = _open_file, None
        os.close(opened)
