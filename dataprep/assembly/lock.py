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

from dataprep.assembly.heartbeat import beating
from dataprep.assembly.lease import BEAT_SECONDS, LEASE_SECONDS, Lease
from dataprep.assembly.marker import Marker, Sighting, sight
from dataprep.assembly.marker_change import MarkerChange, is_left_behind
from dataprep.assembly.silence import Silence
from dataprep.assembly.workspace import Workspace
from dataprep.errors import LockedError

__all__ = [
    "LEASE_SECONDS",
    "Lease",
    "check_held",
    "holder",
    "is_running",
    "locked",
    "silent_seconds",
    "started",
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
            _remove_failure_files(workspace, of="")
            yield lease
    finally:
        # What is left lying is of a dead process; how the run ended is what matters.
        with suppress(OSError):
            _release(change, text, pause)
        # Only its own: if this run was taken over, the others are the new run's.
        with suppress(OSError):
            _remove_failure_files(workspace, of=lease.failure.stem)


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
        if found is None or is_left_behind(found, silent, patience):
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

    Raises:
        LockedError: this run was given up for dead, and another has taken its place.
    """
    if lease.lost_now():
        raise LockedError(
            f"{workspace.out}: another run took this directory over, because this one showed no "
            "sign of life for too long; this one has stopped, see `dataprep status`"
        )


def _remove_failure_files(workspace: Workspace, *, of: str) -> None:
    for path in workspace.failure_files():
        if of in path.name:
            path.unlink(missing_ok=True)


def _marker(workspace: Workspace) -> Marker | None:
    try:
        found = sight(workspace.lock)
    except OSError:
        return None
    return None if found is None else found.marker


def holder(workspace: Workspace) -> tuple[str, int] | None:
    """The (host, process id) in the lock, or None if there is none or it cannot be read."""
    marker = _marker(workspace)
    return None if marker is None else (marker.host, marker.process)


def is_running(workspace: Workspace) -> bool | None:
    """Whether the lock's holder is alive: None if that cannot be told from this host."""
    marker = _marker(workspace)
    return False if marker is None else marker.is_alive()


def started(workspace: Workspace) -> float | None:
    """When the run that holds the lock took it: seconds since 1970, the file system's clock."""
    marker = _marker(workspace)
    return None if marker is None else marker.since


def silent_seconds(workspace: Workspace) -> float | None:
    """How long ago the holder showed a sign of life; None if there is no lock.

    Compares a time of the file system with this host's, so it is wrong by as much as they differ.
    """
    try:
        found = sight(workspace.lock)
    except OSError:
        return None
    return None if found is None else max(time.time() - found.modified, 0.0)
