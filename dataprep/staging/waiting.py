"""Nobody is waited for in silence."""

from __future__ import annotations

import sys
import time

from dataprep.system.messages import one_line

FIRST_SECONDS = 10.0  # of waiting, before it is said who for
NEXT_SECONDS = 60.0  # until it is said again


class Waiting:
    """Says on stderr who is waited for, after ten seconds and every minute.

    Args:
        seconds: after which the caller gives up; None if it does not.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds, self._clock = seconds, time.strftime("%H:%M:%S")
        self._begun = time.monotonic()
        self._next = self._begun + FIRST_SECONDS

    @property
    def left(self) -> float:
        """Seconds until it is to be said; 0 if it is now."""
        return max(0.0, self._next - time.monotonic())

    def tell(self, who: str) -> None:
        """Say it."""
        self._next = time.monotonic() + NEXT_SECONDS
        waited = time.monotonic() - self._begun
        end = "" if self._seconds is None else f"; giving up in {self._seconds - waited:.0f} s"
        text = f"dataprep: waiting for {who} since {self._clock} ({waited:.0f} s){end}"
        print(one_line(text), file=sys.stderr, flush=True)  # noqa: T201  # whatever stdout is for
