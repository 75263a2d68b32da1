"""One run at a time in an output directory, and workers that stop when their run is gone."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from filelock import SoftFileLock, Timeout

from dataprep.assembly.workspace import Workspace
from dataprep.errors import LockedError

_ACQUIRE_SECONDS = 0.5
_CHECK_SECONDS = 2.0
_TORN_SECONDS = 10.0


def holder(workspace: Workspace) -> tuple[str, int] | None:
    """The (host, process id) in the lock, or None if there is none or it cannot be read."""
    try:
        lines = workspace.lock.read_text().splitlines()
        return lines[1], int(lines[0])
    except (OSError, ValueError, IndexError):
        return None


def is_running(workspace: Workspace) -> bool | None:
    """Whether the lock's holder is alive: None if that cannot be told from this host."""
    found = holder(workspace)
    if found is None:
        return False
    host, process = found
    return _process_exists(process) if host == socket.gethostname() else None


@contextmanager
def locked(workspace: Workspace) -> Iterator[Lease]:
    """Hold the directory; a marker left by a dead process of this host is taken over.

    The marker is a file made with O_EXCL, not a POSIX lock, because Lustre is often mounted
    without those.

    Raises:
        LockedError: somebody else holds it; the message names host and process.
    """
    # Long enough to try again after a dead holder's marker was removed.
    lock = SoftFileLock(workspace.lock, timeout=_ACQUIRE_SECONDS)
    _remove_torn_marker(workspace)
    try:
        lock.acquire()
    except Timeout:
        host, process = holder(workspace) or ("an unknown host", 0)
        raise LockedError(
            f"{workspace.out}: another run is working here: process {process} on {host}; "
            f"wait for it, or if it is certainly dead delete {workspace.lock}"
        ) from None
    try:
        _remove_failure_files(workspace)
        yield Lease(workspace.lock, workspace.lock.read_text(), workspace.new_failure_file())
    finally:
        _remove_failure_files(workspace)
        lock.release()


def _remove_torn_marker(workspace: Workspace) -> None:
    """A marker without a holder is one of a run killed between making and writing it."""
    try:
        age = time.time() - workspace.lock.stat().st_mtime
    except FileNotFoundError:
        return
    if holder(workspace) is None and age > _TORN_SECONDS:
        workspace.lock.unlink(missing_ok=True)


def _remove_failure_files(workspace: Workspace) -> None:
    for path in workspace.failure_files():
        path.unlink(missing_ok=True)


@dataclass(slots=True)
class Lease:
    """A worker's right to go on: its run still holds the lock, and nobody has failed.

    Pickled into workers, which may outlive a launcher that was killed, on any host.
    """

    path: Path
    marker: str
    failure: Path
    _checked: float = field(default=0.0, compare=False)
    _lost: bool = field(default=False, compare=False)

    def lost(self) -> bool:
        """Whether the run that this worker belongs to is gone; looks every two seconds."""
        if time.monotonic() - self._checked >= _CHECK_SECONDS:
            return self.lost_now()
        return self._lost

    def lost_now(self) -> bool:
        """The same, looking at once: before anything that another run could see."""
        self._checked = time.monotonic()
        self._lost = self._lost or self._look()
        return self._lost

    def _look(self) -> bool:
        try:
            if self.path.read_text() != self.marker or self.failure.exists():
                return True
        except FileNotFoundError:
            return True
        except OSError:
            return False  # a file system that hiccups is no reason to give up
        process, host = self.marker.splitlines()[:2]
        return host == socket.gethostname() and not _process_exists(int(process))


def _process_exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
