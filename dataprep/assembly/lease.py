"""A worker's right to go on, which ends with its run."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from pathlib import Path

from dataprep.assembly.marker import Marker, sight
from dataprep.assembly.silence import Silence

BEAT_SECONDS = 5.0  # between two signs of life of a run
LEASE_SECONDS = 30.0  # of silence, after which a run counts as dead


@dataclass(slots=True)
class _Knowledge:
    """What this process knows of one run; many pickled leases of it come and go."""

    silence: Silence = field(default_factory=Silence)
    looked: float = -math.inf
    lost: bool = False


_KNOWN: dict[tuple[Path, str], _Knowledge] = {}


@dataclass(frozen=True, slots=True)
class Lease:
    """Whether a run still holds its directory, and nobody has failed.

    Pickled into workers, which may outlive a launcher that was killed, on any host.

    Attributes:
        path: of the run's marker.
        marker: what is in it, as long as the run holds the directory.
        failure: the file that says that some worker has failed.
        look_seconds: how often a worker looks. Every look is a few requests to the file system; of
            thousands of workers, each should look less often.
        lease_seconds: for how long the run may be silent. Workers allow some looks more.
    """

    path: Path
    marker: str
    failure: Path
    look_seconds: float = 2.0
    lease_seconds: float = LEASE_SECONDS

    def lost(self) -> bool:
        """Whether the run that this worker belongs to is gone; looks every ``look_seconds``."""
        known = self._known()
        if time.monotonic() - known.looked >= self.look_seconds:
            return self.lost_now()
        return known.lost

    def lost_now(self) -> bool:
        """The same, looking at once: before anything that another run could see."""
        known = self._known()
        known.looked = time.monotonic()
        known.lost = known.lost or self._look(known.silence)
        return known.lost

    def lose(self) -> None:
        """The run was given up for dead: every lease of it in this process is lost, for ever."""
        self._known().lost = True

    def _known(self) -> _Knowledge:
        # Otherwise the lease that comes with every task would begin to listen anew.
        return _KNOWN.setdefault((self.path, self.marker), _Knowledge())

    def _look(self, silence: Silence) -> bool:
        try:
            found = sight(self.path)
            if found is None or found.text != self.marker or self.failure.exists():
                return True
        except OSError:
            return False  # a file system that hiccups is no reason to give up
        marker = Marker.parse(self.marker)
        alive = None if marker is None else marker.is_alive()
        if alive is not None:
            return not alive
        # At least three looks must find nothing new, however rare they are.
        longest_gap = max(2 * self.look_seconds, self.lease_seconds / 3)
        silent = silence.watch(found, longest_gap=longest_gap)
        return silent >= self.lease_seconds + 2 * self.look_seconds
