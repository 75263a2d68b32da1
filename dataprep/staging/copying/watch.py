"""How far the copying is, and whether it must stop: between the streams and whoever looks on."""

from __future__ import annotations

import threading
from collections.abc import Callable

from dataprep.errors import DataprepError


class Watch:
    """Counts bytes, and stops every stream of this node at its next chunk. Safe between threads.

    Args:
        on_advance: called with the number of bytes that a stream has just finished, from that
            stream's thread; with 0 as a sign of life in between.
    """

    def __init__(self, on_advance: Callable[[int], None] = lambda _: None) -> None:
        self._lock = threading.Lock()
        self._done = 0
        self._error: DataprepError | None = None
        self._on_advance = on_advance

    @property
    def done(self) -> int:
        """Bytes finished so far."""
        return self._done

    def advance(self, count: int) -> None:
        """A stream has finished ``count`` more bytes; raises if all must stop."""
        with self._lock:
            self._done += count
        self._on_advance(count)
        self.check()

    def pulse(self) -> None:
        """A stream is alive, but what it does counts for nothing; raises if all must stop."""
        self._on_advance(0)
        self.check()

    def stop(self, error: DataprepError) -> None:
        """Let every stream raise ``error`` when it next counts; the first error stands."""
        with self._lock:
            self._error = self._error or error

    def check(self) -> None:
        """Raise what stopped the copying, if anything did."""
        if self._error is not None:
            raise self._error
