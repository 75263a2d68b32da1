"""A process that fails again and again takes shards ever more slowly.

Where shards are handed out as workers get free, one that fails at once would otherwise take shard
after shard from those that work.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_LONGEST = 60.0
_NAP = 0.5  # between two looks at whether to stop


class Failing:
    """How often in a row this process has failed, all its threads together.

    Args:
        sleep: waits for so many seconds.
    """

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep
        self._lock = threading.Lock()
        self._in_a_row = 0

    def succeeded(self) -> None:
        """A shard was made."""
        with self._lock:
            self._in_a_row = 0

    def failed(self, pause: float, stop: Callable[[], bool]) -> None:
        """Wait: twice as long after every failure, and a minute at most.

        Args:
            pause: seconds after the first failure; 0 for never.
            stop: asked meanwhile; True ends the wait.
        """
        with self._lock:
            left = min(pause * 2**self._in_a_row, _LONGEST)
            self._in_a_row = min(self._in_a_row + 1, 16)
        while left > 0 and not stop():
            self._sleep(min(left, _NAP))
            left -= _NAP


FAILING = Failing()
"""Of this process."""
