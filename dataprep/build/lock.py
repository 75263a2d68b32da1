"""One run at a time in an output directory; a dead one is taken over, wherever it ran.

A run touches its marker every few seconds. Whoever finds another's marker and cannot look its
process up, because that is on another host, watches: a touch means that it lives; half a minute
without one, that it is dead. A run that was only suspended finds its marker gone when it wakes; it
and its workers stop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from dataprep.build.heartbeat import beating
from dataprep.build.lease import BEAT_SECONDS, LEASE_SECONDS, Lease
from dataprep.build.marker import Marker, Sighting, sight
from dataprep.build.marker_change import MarkerChange, is_left_behind
from dataprep.build.silence import Silence
from dataprep.build.workspace import Workspace
from dataprep.errors import LockedError

__all__ = [
    "LEASE_SECONDS",
    "Holder",
    "Lease",
    "check_held",
    "holder",
    "locked",
]

_LOOKS = 30  # in a lease's time
_RELEASE_TRIES = 20


def _say_nothing(_: str) -> None:
    pass


@contextmanager
def locked(
    workspace: Workspace,
    *,
    report: Callable[[str], None] = _say_nothing,
    beat_seconds: float = BEAT_SECONDS,
    lease_seconds: float = LEASE_SECONDS,
) -> Iterator[Lease]:
    """Hold the directory; it is taken over from a dead run.

    The marker is a file, not a POSIX lock, because Lustre is often mounted without those.

    Args:
        workspace: the output directory.
        report: told once, if it takes a while to see whether the holder lives.
        beat_seconds: between two signs of life.
        lease_seconds: of silence after which a holder on another host counts as dead.

    Raises:
        LockedError: somebody else holds it; the message names host and process.
        OSError: the file system refuses.
    """
    pause = lease_seconds / _LOOKS
    change = MarkerChange(workspace.lock, patience=lease_seconds, pause=pause)
    text = _take(workspace, change, report, patience=lease_seconds, pause=pause)
    lease = Lease(workspace.lock, text, workspace.new_failure_file(), lease_seconds=lease_seconds)
    try:
        with beating(workspace.lock, text, seconds=beat_seconds, on_loss=lease.lose):
            _remove_run_files(workspace, of="")
            yield lease
    finally:
        # What is left lying is of a dead process; how the run ended is what matters.
        with suppress(OSError):
            _release(change, text, pause)
        # Only its own: if this run was taken over, the others are the new run's.
        with suppress(OSError):
            _remove_run_files(workspace, of=lease.failure.stem)


def _take(
    workspace: Workspace,
    change: MarkerChange,
    report: Callable[[str], None],
    *,
    patience: float,
    pause: float,
) -> str:
    silence = Silence()
    first: Sighting | None = None
    while True:
        found = sight(workspace.lock)
        silent = 0.0 if found is None else silence.watch(found, longest_gap=3 * pause)
        if found is None or is_left_behind(found.marker, silent, patience):
            text = change.claim(found)
            if text is not None:
                return text
        else:
            marker = found.marker
            if found != (first or found) or (marker is not None and marker.is_alive()):
                raise _refused(workspace, marker)
            if first is None:
                first = found
                report(
                    f"{workspace.out}: held by {_describe(marker)}; "
                    f"waiting up to {patience:.0f} s to see whether it is alive"
                )
        time.sleep(pause)


def _release(change: MarkerChange, text: str, pause: float) -> None:
    # If somebody is changing the marker all the time, it is left: its process will be dead.
    for _ in range(_RELEASE_TRIES):
        if change.remove(text):
            return
        time.sleep(pause / 10)


def _refused(workspace: Workspace, marker: Marker | None) -> LockedError:
    return LockedError(
        f"{workspace.out}: another run is working here: {_describe(marker)}; "
        "wait for it, or stop it and run the same command again"
    )


def _describe(marker: Marker | None) -> str:
    if marker is None:
        return "an unknown process"
    return f"process {marker.process} on {marker.host}"


def check_held(workspace: Workspace, lease: Lease) -> None:
    """To be called before the launcher changes what another run could see.

    A worker's failure is no reason to stop here: when every shard is recorded, it is that of one
    which was given up for dead, and whose shard another has made.

    Raises:
        LockedError: this run was given up for dead, and another has taken its place.
    """
    if lease.taken_over_now():
        raise LockedError(
            f"{workspace.out}: another run took this directory over, because this one showed no "
            "sign of life for too long; this one has stopped, see `dataprep status`"
        )


def _remove_run_files(workspace: Workspace, *, of: str) -> None:
    for path in workspace.run_files():
        if of in path.name:
            path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Holder:
    """Who held the lock at one moment.

    Attributes:
        host: where it runs.
        process: its number there.
        is_running: whether it is alive; None if that cannot be told from this host.
        since: when it took the lock, in seconds since 1970 by the file system's clock; None if the
            marker does not say.
        silent_seconds: how long ago it showed a sign of life. Compares a time of the file system
            with this host's, so it is wrong by as much as they differ.
    """

    host: str
    process: int
    is_running: bool | None
    since: float | None
    silent_seconds: float

    @property
    def works(self) -> bool:
        """Whether it seems to work."""
        if self.is_running is None:
            return self.silent_seconds <= LEASE_SECONDS
        return self.is_running


def holder(workspace: Workspace) -> Holder | None:
    """Who is in the lock; None if there is none, or it cannot be read."""
    try:
        found = sight(workspace.lock)
    except OSError:
        return None
    marker = None if found is None else found.marker
    if found is None or marker is None:
        return None
    return Holder(
        host=marker.host,
        process=marker.process,
        is_running=marker.is_alive(),
        since=marker.since,
        silent_seconds=max(time.time() - found.modified, 0.0),
    )
