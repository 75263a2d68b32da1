"""One copier a node: an flock in the scratch directory, and what the others wait for."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from dataprep.errors import StagingError
from dataprep.staging.target.directory import StageDirectory
from dataprep.staging.target.paths import PRIVATE, target_error
from dataprep.system.messages import printable

LOCK = "lock"  # its name in the private directory

_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_NOTE_BYTES = 2048  # always as many: overwritten in place, it needs no space on a full disk
_MOST_PROGRESS = 100  # characters, so that a note holds them however they are escaped
_NOTE_SECONDS = 1.0
_FIRST_POLL, _LAST_POLL = 0.05, 0.5  # seconds
_FIRST_TELL_SECONDS = 3.0  # before it is said for the first time; then
_TELL_SECONDS = 30.0
# A poll that took longer than this was not silence of the holder: the whole job was suspended.
_LONGEST_SILENCE = 2.0
_ENOTSUPP = 524  # what kernels before an errno of their own return, e.g. Cray's DVS


class NodeLock:
    """Held by the one process that works on a target directory; freed by the kernel if it dies.

    Args:
        descriptor: of the lock file, locked.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._busy = threading.Lock()
        self._count = 0
        self._written = 0.0
        self._progress = ""
        self._write("")

    def note(self, progress: str) -> None:
        """Leave a sign of life for those who wait, e.g. ``3.1 of 42.0 GB``; cheap, once a second.

        Only a ``progress`` that has changed is one, so that a stuck copier does not look alive.
        Safe from any thread.
        """
        if not self._busy.acquire(blocking=False):
            return
        try:
            quiet = time.monotonic() - self._written >= _NOTE_SECONDS
            if progress != self._progress and (quiet or not self._count):
                self._write(progress)
        finally:
            self._busy.release()

    def _write(self, progress: str) -> None:
        self._written, self._progress = time.monotonic(), progress
        self._count += bool(progress)
        note = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "progress": progress[:_MOST_PROGRESS],
            "count": self._count,
        }
        # A disk that is full or broken is told by the copying, which fares no better.
        with suppress(OSError):
            os.pwrite(self._descriptor, json.dumps(note).encode().ljust(_NOTE_BYTES), 0)


@contextmanager
def node_lock(
    directory: StageDirectory,
    *,
    patience: float,
    done: Callable[[], bool] = lambda: False,
    on_wait: Callable[[str], None] = lambda _: None,
    name: str = LOCK,
) -> Iterator[NodeLock | None]:
    """Hold the lock of a target directory, or wait until its holder has done the work.

    Args:
        directory: the target.
        patience: seconds without a sign of life from the holder before it is given up.
        done: whether what is waited for is there, so that the lock is not needed: asked while
            waiting and once the lock is held.
        on_wait: told now and then who is waited for, and how far they are.
        name: of the lock; another one than the target's own says who works for one launch.

    Yields:
        The lock; None if ``done`` said so.

    Raises:
        StagingError: the holder shows no sign of life; the file system cannot lock; the directory
            was removed meanwhile.
    """
    wait = _Wait(directory, name, patience, on_wait)
    while True:
        with try_lock(directory, name) as lock:
            if lock is not None and not done():
                yield lock
                return
        if done():
            yield None
            return
        wait.look()


@contextmanager
def try_lock(directory: StageDirectory, name: str = LOCK) -> Iterator[NodeLock | None]:
    """Hold the lock of a target directory if it is free; yields None if it is not.

    Raises:
        StagingError: the file system cannot lock; the directory was removed meanwhile.
    """
    place = directory.path / PRIVATE / name
    try:
        descriptor = os.open(name, _OPEN, 0o600, dir_fd=directory.private)
    except OSError as error:
        _check_current(directory)
        raise target_error(error, place, "opening the lock", copied=False) from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise StagingError(f"{place} is not a plain file of this user; remove it")
        held = _try(directory, descriptor)
        _check_current(directory)
        # The lock of a file that was removed meanwhile says nothing.
        held = held and _has_name(directory, name, descriptor)
        yield NodeLock(descriptor) if held else None
    finally:
        # Said explicitly: a child process that inherited the descriptor would keep the lock.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def describe_holder(directory: StageDirectory, name: str = LOCK) -> str | None:
    """Who works on a target directory, and how far they are; None if nobody does.

    Raises:
        StagingError: the file system cannot lock.
    """
    try:
        descriptor = os.open(name, _LOOK, dir_fd=directory.private)
    except OSError:  # nobody ever did
        return None
    try:
        if _try(directory, descriptor, fcntl.LOCK_SH):
            return None
        holder = _read_holder(descriptor)
        return f"{holder.who} is working on it{holder.progress and f' ({holder.progress})'}"
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class _Holder:
    """What the lock file says; ``note`` is all of it, to see whether it changes."""

    note: bytes
    who: str = "another process"
    progress: str = ""


class _Wait:
    """Looking on while somebody else holds the lock."""

    def __init__(
        self,
        directory: StageDirectory,
        name: str,
        patience: float,
        on_wait: Callable[[str], None],
    ) -> None:
        self._directory = directory
        self._name = name
        self._patience = patience
        self._on_wait = on_wait
        self._pause = _FIRST_POLL
        self._note: bytes | None = None
        self._silent = 0.0
        self._looked = time.monotonic()
        self._tell_at = self._looked + _FIRST_TELL_SECONDS

    def look(self) -> None:
        """See how the holder fares, say so now and then, and sleep a little."""
        holder = self._holder()
        now = time.monotonic()
        if holder.note != self._note:
            self._note, self._silent = holder.note, 0.0
        else:
            self._silent += min(now - self._looked, _LONGEST_SILENCE)
        self._looked = now
        path, said = self._directory.path, holder.progress and f" ({holder.progress})"
        if self._silent >= self._patience:
            raise StagingError(
                f"{path}: {holder.who} holds the lock but has made no progress for "
                f"{self._patience:.0f} s{said}; check whether its storage hangs, end it, and run "
                "the same command again"
            )
        if now >= self._tell_at:
            self._tell_at = now + _TELL_SECONDS
            self._on_wait(f"waiting for {holder.who}, which works on {path}{said}")
        time.sleep(self._pause)
        self._pause = min(self._pause * 1.5, _LAST_POLL)

    def _holder(self) -> _Holder:
        try:
            descriptor = os.open(self._name, _LOOK, dir_fd=self._directory.private)
        except OSError:
            return _Holder(b"")
        try:
            return _read_holder(descriptor)
        finally:
            os.close(descriptor)


def _try(directory: StageDirectory, descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        reason = os.strerror(error.errno or 0) if error.errno != _ENOTSUPP else "error 524"
        raise StagingError(
            f"{directory.path}: the file system cannot lock files ({reason}); choose a directory "
            "on the node's own storage (--to)"
        ) from None
    return True


def _check_current(directory: StageDirectory) -> None:
    if not directory.is_current():
        raise StagingError(
            f"{directory.path} was removed or replaced by somebody meanwhile; see that no epilog "
            "cleans up too early, and run the same command again"
        )


def _has_name(directory: StageDirectory, name: str, descriptor: int) -> bool:
    try:
        named = os.stat(name, dir_fd=directory.private, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(named, os.fstat(descriptor))


def _read_holder(descriptor: int) -> _Holder:
    try:
        note = os.pread(descriptor, _NOTE_BYTES, 0)
    except OSError:
        return _Holder(b"")
    try:
        said = json.loads(note)
        who = f"process {int(said['pid'])} on {printable(str(said['host']))}"
        return _Holder(note, who, printable(str(said["progress"])))
    except (ValueError, TypeError, KeyError):
        return _Holder(note)
