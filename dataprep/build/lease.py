"""A worker's right to go on, which ends with its run."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path

from dataprep.build.marker import Marker, sight
from dataprep.build.silence import Silence

BEAT_SECONDS = 5.0  # between two signs of life of a run
LEASE_SECONDS = 30.0  # of silence, after which a run counts as dead


class _Found(Enum):
    """What a look at a run found."""

    WORKING = auto()
    SILENT = auto()  # dead, suspended or cut off; a later look may find it working
    DEAD = auto()
    FAILED = auto()
    TAKEN_OVER = auto()


@dataclass(slots=True)
class _Knowledge:
    """What this process knows of one run; many pickled leases of it come and go."""

    silence: Silence = field(default_factory=Silence)
    looked: float = -math.inf
    found: _Found = _Found.WORKING
    taken_over: bool = False  # once and for ever


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
        """Whether this worker is to stop now; looks every ``look_seconds``.

        Either its run is over, or it has been silent for so long that another may take its place. A
        run that was only suspended, and shows a sign of life before that, is not lost any more.
        """
        known = self._known()
        if time.monotonic() - known.looked >= self.look_seconds:
            return self.lost_now()
        return self._is_lost(known)

    def lost_now(self) -> bool:
        """The same, looking at once: before anything that another run could see."""
        return self._is_lost(self._look_now())

    def over(self) -> bool:
        """Whether the run is certainly over, and not only silent; as the last look found it."""
        known = self._known()
        return self._is_lost(known) and (known.taken_over or known.found is not _Found.SILENT)

    def taken_over_now(self) -> bool:
        """Whether the directory is another run's, or nobody's; looks at once."""
        return self._look_now().taken_over

    def lose(self) -> None:
        """The run was given up for dead: every lease of it in this process is lost, for ever."""
        self._known().taken_over = True

    def _known(self) -> _Knowledge:
        # Otherwise the lease that comes with every task would begin to listen anew.
        return _KNOWN.setdefault((self.path, self.marker), _Knowledge())

    @staticmethod
    def _is_lost(known: _Knowledge) -> bool:
        return known.taken_over or known.found is not _Found.WORKING

    def _look_now(self) -> _Knowledge:
        known = self._known()
        known.looked = time.monotonic()
        # A file system that hiccups is no reason to give up, nor to go on.
        with suppress(OSError):
            known.found = self._look(known.silence)
            known.taken_over = known.taken_over or known.found is _Found.TAKEN_OVER
        return known

    def _look(self, silence: Silence) -> _Found:
        found = sight(self.path)
        if found is None or found.text != self.marker:
            return _Found.TAKEN_OVER
        if self.failure.exists():
            return _Found.FAILED
        marker = Marker.parse(self.marker)
        alive = None if marker is None else marker.is_alive()
        if alive is not None:
            return _Found.WORKING if alive else _Found.DEAD
        # At least three looks must find nothing new, however rare they are.
        longest_gap = max(2 * self.look_seconds, self.lease_seconds / 3)
        silent = silence.watch(found, longest_gap=longest_gap)
        is_silent = silent >= self.lease_seconds + 2 * self.look_seconds
        return _Found.SILENT if is_silent else _Found.WORKING
