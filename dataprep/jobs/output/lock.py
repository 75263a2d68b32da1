"""One run at a time in an output directory; a dead one is taken over, wherever it ran.

The lock is a file, the marker, not a POSIX lock, because Lustre and NFS are often mounted without
those. It says which process of which host holds the directory; its text never changes, and its
holder touches it every few seconds. Who finds another's marker looks the process up if it is on
the same machine; else it watches, by its own clock only: a touch means that the holder lives, half
a minute without one that it is dead. A run that was only suspended finds its marker gone when it
wakes; it and its workers stop.

To take the marker's place, a process writes its own under a temporary name, removes every other
such file, looks at the marker once more, and renames its own. (NFS and Lustre refuse to exchange
two names in one step.) So nobody else's marker gets there between that look and the renaming: had
it been written before the others were removed, it would have been among them; and had it been
written after, its process would have removed ours. Two at the same moment may both fail; they try
again after a pause of some random length.
"""

from __future__ import annotations

import errno
import math
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

from dataprep.errors import LockedError
from dataprep.jobs.output.workspace import Workspace
from dataprep.system.durable_files import PARTIAL, partial_path
from dataprep.system.regular_files import open_regular
from dataprep_schemas.state import Marker

BEAT_SECONDS = 5.0  # between two touches
LEASE_SECONDS = 30.0  # without a touch, after which a run counts as dead

_LOOKS = 30  # in that time
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_STATE, _START_TIME = 0, 19  # fields of /proc/PID/stat after the name, which may hold anything
_ENDED = {b"Z", b"X"}  # a killed process that nobody waits for, as in a container without an init
_MOST_BYTES = 4096


def marker_of_this_process(since: float) -> Marker:
    """A new claim."""
    process, token = os.getpid(), secrets.token_hex(16)
    return Marker(process, socket.gethostname(), _machine(), _look_up(process)[1], token, since)


def marker_text(marker: Marker) -> str:
    """What is in its file."""
    return msgspec.json.format(msgspec.json.encode(marker), indent=1).decode() + "\n"


def is_alive(marker: Marker) -> bool | None:
    """Whether its process runs; None if that cannot be told from here."""
    if (marker.host, marker.machine) != (socket.gethostname(), _machine()):
        return None
    try:
        os.kill(marker.process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        pass
    state, start = _look_up(marker.process)
    if state in _ENDED:
        return False
    return start == marker.start if start and marker.start else None


@dataclass(frozen=True, slots=True)
class Sighting:
    """A marker file at one moment. Two are equal if nothing happened in between.

    Attributes:
        text: what is in it.
        modified: nanoseconds since 1970, by the clock of the file system or of the holder's host.
        changed: likewise; of its name or mode, too.
    """

    text: str
    modified: int
    changed: int

    @property
    def marker(self) -> Marker | None:
        """What it says; None if a power cut tore it, or it is just being written."""
        try:
            return msgspec.json.decode(self.text, type=Marker)
        except (ValueError, RecursionError):
            return None

    def __str__(self) -> str:
        """Whose it is, for messages."""
        marker = self.marker
        return f"process {marker.process} on {marker.host}" if marker else "an unknown process"

    def is_alive(self) -> bool | None:
        """Whether its process runs; None if that cannot be told from here."""
        marker = self.marker
        return None if marker is None else is_alive(marker)


def sight(path: Path, *, touch_if: str | None = None, again: bool = True) -> Sighting | None:
    """Look at a marker file; None if there is none.

    Opens it, because only then NFS asks its server how the file is now.

    Args:
        touch_if: touch it if this is its text, to show that its holder lives. Never touches
            another's: text and time are those of one descriptor.
        again: look once more where NFS has lost the file between two requests.

    Raises:
        OSError: the file system has some trouble.
    """
    try:
        with open_regular(path, buffering=0) as file:
            status = os.fstat(file.fileno())
            text = (file.read(_MOST_BYTES) or b"").decode(errors="replace")
            if text == touch_if:
                os.utime(file.fileno())
    except FileNotFoundError:
        if not again or not _is_listed(path):
            return None
        return sight(path, touch_if=touch_if, again=False)
    except OSError as error:
        if error.errno != errno.ESTALE or not again:
            raise
        return sight(path, touch_if=touch_if, again=False)  # on NFS, another has taken its place
    return Sighting(text, status.st_mtime_ns, status.st_ctime_ns)


def _is_listed(path: Path) -> bool:
    """A client of NFS may remember for a minute that there was no such file, but lists anew."""
    try:
        return path in path.parent.iterdir()
    except FileNotFoundError:
        return False


class Silence:
    """For how long one file has been watched while nothing happened to it.

    Only this host's monotonic clock counts: those of two hosts may differ by minutes.

    Args:
        longest_gap: as much of the time between two looks counts at most. Who was suspended, or
            waited for a file system that hung, has not watched; and the holder may have waited.
    """

    def __init__(self, longest_gap: float) -> None:
        self._longest_gap = longest_gap
        # Exchanged as one, so that threads which look at the same time cannot count a time twice.
        self._seen: tuple[Sighting | None, float, float] = (None, 0.0, 0.0)

    def of(self, sighting: Sighting) -> float:
        """Take in another look; returns the seconds of silence up to it."""
        last, looked, seconds = self._seen
        now = time.monotonic()
        seconds = seconds + min(now - looked, self._longest_gap) if sighting == last else 0.0
        self._seen = sighting, now, seconds
        return seconds


@dataclass(slots=True)
class _Knowledge:
    """What this process knows of one run; many pickled leases of it come and go."""

    silence: Silence
    looked: float = -math.inf
    silent: bool = False  # dead, suspended or cut off; a later look may find it working
    over: bool = False  # dead, or a worker has failed
    taken_over: bool = False  # once and for ever


_KNOWN: dict[tuple[Path, str], _Knowledge] = {}


@dataclass(frozen=True, slots=True)
class Lease:
    """A worker's right to go on: its run still holds its directory, and nobody has failed.

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

    def lost(self, *, now: bool = False) -> bool:
        """Whether this worker is to stop; looks every ``look_seconds``.

        Either its run is over, or it has been silent for so long that another may take its place. A
        run that was only suspended, and shows a sign of life before that, is not lost any more.

        Args:
            now: look at once: before anything that another run could see.
        """
        known = self._known(0 if now else self.look_seconds)
        return known.silent or known.over or known.taken_over

    def over(self) -> bool:
        """Whether the run is certainly over, and not only silent; as the last look found it."""
        known = self._known(math.inf)
        return known.taken_over or known.over

    def taken_over(self, *, now: bool = False) -> bool:
        """Whether the directory is another run's, or nobody's; looks as `lost` does.

        Raises:
            OSError: nobody can tell, because the file system has some trouble.
        """
        return self._known(0 if now else self.look_seconds, certain=True).taken_over

    def _known(self, seconds: float, *, certain: bool = False) -> _Knowledge:
        """What is known of the run; looks if the last look was so long ago."""
        # Kept apart, or the lease that comes with every task would begin to listen anew.
        key = self.path, self.marker
        if key not in _KNOWN:
            # At least three looks must find nothing new, however rare they are.
            gap = max(2 * self.look_seconds, self.lease_seconds / 3)
            _KNOWN.setdefault(key, _Knowledge(Silence(gap)))
        known, now = _KNOWN[key], time.monotonic()
        if now - known.looked < seconds or seconds == math.inf:
            return known
        known.looked = now
        try:
            self._look(known)
        except OSError:
            if certain:
                raise
            # A file system that hiccups is no reason to give up, nor to go on.
        return known

    def _look(self, known: _Knowledge) -> None:
        failed = self.failure.exists()
        found = sight(self.path)  # last: what is done next follows on this look
        if found is None or found.text != self.marker:
            known.taken_over = True
            return
        alive = found.is_alive()
        known.over = alive is False or failed
        longest = self.lease_seconds + 2 * self.look_seconds
        known.silent = known.silence.of(found) >= longest and alive is None


def check_held(lease: Lease, *, now: bool = True) -> None:
    """To be called before the launcher changes what another run could see.

    A worker's failure is no reason to stop here: when every shard is recorded, it is that of one
    which was given up for dead, and whose shard another has made.

    Args:
        now: False: before each of many changes. A look of the last seconds will do; who was
            suspended for longer looks again.

    Raises:
        LockedError: this run was given up for dead, and another has taken its place.
        OSError: nobody can tell.
    """
    if lease.taken_over(now=now):
        raise LockedError(
            f"{lease.path.parents[1]}: another run took this directory over, because this one "
            "showed no sign of life for too long; this one has stopped, see `dataprep status`"
        )


@contextmanager
def locked(
    workspace: Workspace,
    *,
    report: Callable[[str], None] = lambda _: None,
    beat_seconds: float = BEAT_SECONDS,
    lease_seconds: float = LEASE_SECONDS,
) -> Iterator[Lease]:
    """Hold the directory; it is taken over from a dead run.

    Args:
        report: told once, if it takes a while to see whether the holder lives.
        beat_seconds: between two signs of life.
        lease_seconds: of silence after which a holder on another host counts as dead.

    Raises:
        LockedError: somebody else holds it; the message names host and process.
        OSError: the file system refuses.
    """
    text = _take(workspace, report, lease_seconds)
    lease = Lease(workspace.lock, text, workspace.new_failure_file(), lease_seconds=lease_seconds)
    try:
        with _beating(lease, beat_seconds):
            for path in workspace.run_files():
                path.unlink(missing_ok=True)
            yield lease
    finally:
        # What is left lying is of a dead process; how the run ended is what matters.
        with suppress(OSError):
            # Only its own: if this run was taken over, the others are the new run's. And first:
            # whoever finds a lock looks for what is left besides.
            for path in workspace.run_files():
                if lease.failure.stem in path.name:
                    path.unlink(missing_ok=True)
        with suppress(OSError):
            found = sight(workspace.lock)
            if found is not None and found.text == text:
                workspace.lock.unlink(missing_ok=True)


def _take(workspace: Workspace, report: Callable[[str], None], lease_seconds: float) -> str:
    """Wait for the marker to be ours; returns its text."""
    pause = lease_seconds / _LOOKS
    silence = Silence(3 * pause)
    first: Sighting | None = None
    while True:
        found = sight(workspace.lock)
        alive = None if found is None else found.is_alive()
        if (
            found is None
            or alive is False
            or (alive is None and silence.of(found) >= lease_seconds)
        ):
            text = claim_marker(workspace.lock, found)
            if text is not None:
                return text
        elif alive or (first is not None and found != first):
            raise LockedError(
                f"{workspace.out}: another run is working here: {found}; "
                "wait for it, or stop it and run the same command again"
            )
        elif first is None:
            first = found
            report(
                f"{workspace.out}: held by {found}; waiting up to {lease_seconds:.0f} s to see "
                "whether it is alive"
            )
        time.sleep(pause * (0.5 + secrets.randbelow(1000) / 1000))


def claim_marker(path: Path, before: Sighting | None) -> str | None:
    """Put a marker of this process in the place of what was seen, which must not have changed.

    Args:
        before: how the marker was; None if there was none.

    Returns:
        Its text; None if somebody else was quicker, or is at it: look again.

    Raises:
        OSError: the file system refuses.
    """
    temporary = partial_path(path)
    try:
        with temporary.open("x") as file:
            text = marker_text(marker_of_this_process(os.fstat(file.fileno()).st_mtime))
            file.write(text)
        for other in path.parent.glob(f".{path.name}.*{PARTIAL}"):
            if other != temporary:
                other.unlink(missing_ok=True)
        if sight(path) != before:
            return None
        try:
            temporary.replace(path)
        except FileNotFoundError:  # somebody else is at it, or was while this one was suspended
            return None
        return text
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _beating(lease: Lease, seconds: float) -> Iterator[None]:
    """Touch the marker now and then, and look whether it has become another's or is gone."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(seconds):
            with suppress(OSError):  # a file system that hiccups is no reason to give up
                sight(lease.path, touch_if=lease.marker)
                if lease.taken_over(now=True):
                    return

    thread = threading.Thread(target=beat, name="dataprep-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        # Not for ever: it may hang in a file system that does.
        thread.join(timeout=seconds)


@cache
def _machine() -> str:
    # Containers may share a host's name and boot, but not its processes; a namesake, only its name.
    try:
        return f"{_BOOT_ID.read_text().strip()}.{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _look_up(process: int) -> tuple[bytes, str]:
    """Its state, and when it started; empty if that cannot be told.

    As its first thread has them: of /proc/PID/stat, QEMU's user mode tells each thread its own.
    """
    try:
        status = Path(f"/proc/{process}/task/{process}/stat").read_bytes()
    except OSError:
        return b"", ""
    fields = status.rpartition(b")")[2].split()
    return fields[_STATE], fields[_START_TIME].decode()
