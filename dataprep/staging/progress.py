"""Signs of life for the processes of this node that wait, and the first node's bar."""

from __future__ import annotations

import threading

from dataprep.staging.request import StageReporter
from dataprep.staging.target.node_lock import NodeLock
from dataprep.system.messages import sized


class Progress:
    """What a node's copier tells while it works. Safe between threads.

    Args:
        reporter: told of every byte; None on all nodes but the first.
    """

    def __init__(self, reporter: StageReporter | None) -> None:
        self._reporter = reporter
        self._locks: list[NodeLock] = []
        self._turn = threading.Lock()
        self._done = 0
        self._steps = 0

    def tell(self, lock: NodeLock) -> None:
        """From now on, those who wait for this lock are told too."""
        self._locks.append(lock)

    def __call__(self, count: int) -> None:
        """So many more bytes are done; of 0, something else has gone on."""
        with self._turn:
            self._done += count
            self._steps += 1
            # With the count, since a terabyte's text changes only every 100 GB.
            self._note(f"{sized(self._done)} done, piece {self._steps:,}")
            if self._reporter is not None:
                self._reporter.advance(count)

    def waiting(self, text: str) -> None:
        """What this node waits for, and how far that is."""
        with self._turn:
            self._note(text)
            if self._reporter is not None:
                self._reporter.line(text)

    def _note(self, text: str) -> None:
        for lock in self._locks:
            lock.note(text)
