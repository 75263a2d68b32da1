"""For how long a marker has shown no sign of life, without trusting anybody's clock."""

from __future__ import annotations

import time

from dataprep.build.marker import Sighting


class Silence:
    """How long one marker file has been watched while nothing happened to it.

    Only this host's monotonic clock counts: those of two hosts may differ by minutes.
    """

    def __init__(self) -> None:
        # Exchanged as one, so that threads which look at the same time cannot count a time twice.
        self._seen: tuple[Sighting | None, float, float] = (None, 0.0, 0.0)

    def watch(self, sighting: Sighting, *, longest_gap: float) -> float:
        """Take in another look; returns the seconds of silence up to it.

        Args:
            sighting: how the file is now.
            longest_gap: as much of the time since the last look counts at most. Who was suspended,
                or waited for a file system that hung, has not watched; and the holder may have
                waited as well.
        """
        last, looked, seconds = self._seen
        now = time.monotonic()
        seconds = seconds + min(now - looked, longest_gap) if sighting == last else 0.0
        self._seen = sighting, now, seconds
        return seconds
