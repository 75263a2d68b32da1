"""A process that fails again and again takes shards ever more slowly.

Where shards are handed out as workers get free, one that fails at once would otherwise take shard
after shard from those that work.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

_LONGEST = 16.0
_NAP = 0.5  # between two looks at whether to stop


class Failing:
    """How this process has fared lately, all its threads together.

    Args:
        clock: seconds that only go forward.
        sleep: waits for so many seconds.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._run: Path | None = None
        self._pause = 0.0
        self._until = 0.0

    def succeeded(self) -> None:
        """A shard was made."""
        with self._lock:
            self._pause = 0.0

    def failed(self, run: Path, pause: float, stop: Callable[[], bool]) -> None:
        """Wait: after each failure twice as long; those of threads that fail together are one.

        Args:
            run: a name of the run. A process may work for one after another.
            pause: seconds after the first failure; 0 for never.
            stop: asked meanwhile; True ends the wait.
        """
        until = self._next(run, pause)
        while (left := until - self._clock()) > 0 and not stop():
            self._sleep(min(left, _NAP))

    def _next(self, run: Path, pause: float) -> float:
        with self._lock:
            if run != self._run:
                self._run, self._pause, self._until = run, 0.0, 0.0
            now = self._clock()
            if now >= self._until:
                self._pause = min(max(2 * self._pause, pause), _LONGEST) if pause else 0.0
                self._until = now + self._pause
            return self._until


FAILING = Failing()
"""Of this process."""
