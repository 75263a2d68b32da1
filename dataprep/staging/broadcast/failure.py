"""What goes wrong on a node while it takes part in a broadcast, which it must not leave."""

from __future__ import annotations

import threading


class Failure:
    """The first thing that has gone wrong on this node. Safe between threads.

    A thread that fails notes it here and goes on without doing any more, for the other nodes count
    on this one's part, until all know.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal's handler may come while it is held
        self.error: BaseException | None = None

    def note(self, error: BaseException) -> None:
        """This has gone wrong."""
        with self._lock:
            self.error = self.error or error

    def is_set(self) -> bool:
        """Whether it is no use to do any more."""
        return self.error is not None
