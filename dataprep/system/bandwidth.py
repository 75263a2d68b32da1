"""A bound on the bytes a second that several threads or processes move together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

_BURST_SECONDS = 0.1  # what may be moved at once after a pause
_NAP_SECONDS = 0.1  # between two looks at whether to stop


class Account(Protocol):
    """When everything that was taken has been paid for, known to all who take."""

    def add(self, earliest: float, seconds: float) -> float:
        """Move that moment on, from where it is or from ``earliest``; returns where to.

        Nobody else may come between.
        """


class Bandwidth:
    """A token bucket that streams share. Safe between threads.

    Whoever takes more than is there goes into debt and sleeps it off, so pieces may be larger than
    the bucket, and streams come to their turn in the order in which they asked.

    Args:
        bytes_per_second: the bound; None for none.
        account: what is shared with other processes; by default, nothing is.
        clock: seconds that only go forward, the same for all who share the account.
        sleep: waits for so many seconds.
    """

    def __init__(
        self,
        bytes_per_second: float | None,
        *,
        account: Account | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._account = account or _OwnAccount(clock())

    def take(self, count: int, check: Callable[[], None] = lambda: None) -> None:
        """Wait until ``count`` bytes may be moved.

        Args:
            count: bytes.
            check: called now and then while waiting; raises to stop.
        """
        if self._rate is None:
            return
        due = self._account.add(self._clock() - _BURST_SECONDS, count / self._rate)
        while (wait := due - self._clock()) > 0:
            check()
            self._sleep(min(wait, _NAP_SECONDS))


class _OwnAccount:
    """Of one process."""

    def __init__(self, now: float) -> None:
        self._lock = threading.Lock()
        self._free_at = now

    def add(self, earliest: float, seconds: float) -> float:
        with self._lock:
            self._free_at = max(self._free_at, earliest) + seconds
            return self._free_at
