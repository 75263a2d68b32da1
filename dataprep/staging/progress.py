"""How far a node's copier is, told to all who wait for it; and what stops it."""

from __future__ import annotations

import threading

from dataprep.errors import DataprepError
from dataprep.staging.node_dir.node_lock import NodeLock
from dataprep.staging.request import StageReporter
from dataprep.system.messages import sized


class Progress:
    """Counts what is done, and stops every stream of this node at its next piece.

    Safe between threads.

    Args:
        reporter: told of every byte; None on all nodes but the first.
    """

    def __init__(self, reporter: StageReporter | None = None) -> None:
        self._reporter = reporter
        self._locks: list[NodeLock] = []
        self._turn = threading.Lock()
        self._done = 0
        self._error: DataprepError | None = None

    def tell(self, lock: NodeLock) -> None:
        """From now on, those who wait for this lock are told too."""
        self._locks.append(lock)

    def advance(self, count: int) -> None:
        """So many more bytes are done; raises if all must stop."""
        with self._turn:
            self._done += count
            self._note(f"{sized(self._done)} done")
            if self._reporter is not None:
                self._reporter.advance(count)
        self.check()

    def waiting(self, text: str) -> None:
        """What this node waits for, and how far that is."""
        with self._turn:
            self._note(text)
            if self._reporter is not None:
                self._reporter.line(text)

    def stop(self, error: DataprepError) -> None:
        """Let every stream raise ``error`` when it next counts; the first error stands."""
        with self._turn:
            self._error = self._error or error

    def check(self) -> None:
        """Raise what stopped the copying, if anything did."""
        if self._error is not None:
            raise self._error

    def _note(self, text: str) -> None:
        for lock in self._locks:
            lock.note(text)
