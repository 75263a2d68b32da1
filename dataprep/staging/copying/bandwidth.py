"""A bound on the bytes a second that all streams of a node read together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_BURST_SECONDS = 0.1  # what may be read at once after a pause
_NAP_SECONDS = 0.1  # between two looks at whether to stop


class Bandwidth:
    """A token bucket that streams share. Safe between threads.

    Whoever takes more than is there goes into debt and sleeps it off, so pieces may be larger than
    the bucket, and streams come to their turn in the order in which they asked.

    Args:
        bytes_per_second: the bound; None for none.
        clock: seconds that only go forward.
        sleep: waits for so many seconds.
    """

    def __init__(
        self,
        bytes_per_second: float | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._free_at = clock()  # when everything that was taken has been paid for

    def take(self, count: int, check: Callable[[], None] = lambda: None) -> None:
        """Wait until ``count`` bytes may be read.

        Args:
            count: bytes.
            check: called now and then while waiting; raises to stop.
        """
        if self._rate is None:
            return
        with self._lock:
            now = self._clock()
            self._free_at = max(self._free_at, now - _BURST_SECONDS) + count / self._rate
            due = self._free_at
        while (wait := due - self._clock()) > 0:
            check()
            self._sleep(min(wait, _NAP_SECONDS))
