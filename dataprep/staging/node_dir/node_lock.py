"""One copier a node: an flock in the scratch directory, and what the others wait for."""

from __future__ import annotations

import fcntl
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import msgspec

from dataprep.errors import StagingError
from dataprep.staging.node_dir.directory import StageDirectory
from dataprep.staging.node_dir.paths import PRIVATE, target_error
from dataprep.system.messages import printable
from dataprep_schemas.state import CopierNote

LOCK = "lock"  # its name in the private directory

_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_NOTE_BYTES = 2048  # always as many: overwritten in place, it needs no space on a full disk
_MOST_PROGRESS = 100  # characters, which a note has room for
_NOTE_SECONDS = 1.0
_FIRST_POLL, _LAST_POLL = 0.05, 0.5  # seconds
_FIRST_TELL_SECONDS = 3.0  # before it is said for the first time; then
_TELL_SECONDS = 30.0


class NodeLock:
    """Held by the one process that works on a target directory; freed by the kernel if it dies.

    Args:
        descriptor: of the lock file, locked.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._busy = threading.Lock()
        self._write("")

    def note(self, progress: str) -> None:
        """Tell those who wait how far this is, e.g. ``3.1 of 42.0 GB``; cheap, once a second.

        Safe from any thread.
        """
        with self._busy:
            quiet = time.monotonic() - self._written >= _NOTE_SECONDS
            if quiet or not self._progress:
                self._write(progress)

    def _write(self, progress: str) -> None:
        self._written, self._progress = time.monotonic(), progress
        shown = printable(progress)[:_MOST_PROGRESS]
        note = msgspec.json.encode(CopierNote(os.getpid(), socket.gethostname(), shown))
        # A disk that is full or broken is told by the copying, which fares no better.
        with suppress(OSError):
            os.pwrite(self._descriptor, note.ljust(_NOTE_BYTES), 0)


@contextmanager
def node_lock(
    directory: StageDirectory,
    *,
    done: Callable[[], bool] = lambda: False,
    on_wait: Callable[[str], None] = lambda _: None,
    name: str = LOCK,
) -> Iterator[NodeLock | None]:
    """Hold the lock of a target directory, or wait until its holder has done the work.

    Args:
        done: whether what is waited for is there, so that the lock is not needed: asked while
            waiting and once the lock is held.
        on_wait: told now and then who is waited for, and how far they are.
        name: of the lock; another one than the target's own says who works for one launch.

    Yields:
        The lock; None if ``done`` said so.

    Raises:
        StagingError: the file system cannot lock; the directory was removed meanwhile.
    """
    pause, tell_at = _FIRST_POLL, time.monotonic() + _FIRST_TELL_SECONDS
    while True:
        with try_lock(directory, name) as lock:
            if lock is not None and not done():
                yield lock
                return
        if done():
            yield None
            return
        if time.monotonic() >= tell_at:
            tell_at = time.monotonic() + _TELL_SECONDS
            on_wait(f"waiting for {_who(directory, name)}, which works on {directory.path}")
        time.sleep(pause)
        pause = min(pause * 1.5, _LAST_POLL)


@contextmanager
def try_lock(directory: StageDirectory, name: str = LOCK) -> Iterator[NodeLock | None]:
    """Hold the lock of a target directory if it is free; yields None if it is not.

    Raises:
        StagingError: the file system cannot lock; the directory was removed meanwhile.
    """
    try:
        descriptor = os.open(name, _OPEN, 0o600, dir_fd=directory.private)
    except OSError as error:
        directory.check_current()
        place = directory.path / PRIVATE / name
        raise target_error(error, place, "opening the lock", copied=False) from None
    try:
        held = _try(directory, descriptor)
        directory.check_current()
        # The lock of a file that was removed meanwhile says nothing.
        held = held and _has_name(directory, name, descriptor)
        yield NodeLock(descriptor) if held else None
    finally:
        # Said explicitly: a child process that inherited the descriptor would keep the lock.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def describe_holder(directory: StageDirectory) -> str | None:
    """Who works on a target directory, and how far they are; None if nobody does.

    Raises:
        StagingError: the file system cannot lock.
    """
    try:
        descriptor = os.open(LOCK, _LOOK, dir_fd=directory.private)
    except OSError:  # nobody ever did
        return None
    try:
        if _try(directory, descriptor, fcntl.LOCK_SH):
            return None
    finally:
        os.close(descriptor)
    return f"{_who(directory, LOCK)} is working on it"


def _try(directory: StageDirectory, descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise StagingError(
            f"{directory.path}: the file system cannot lock files ({error.strerror}); choose a "
            "directory on the node's own storage (--to)"
        ) from None
    return True


def _has_name(directory: StageDirectory, name: str, descriptor: int) -> bool:
    try:
        named = os.stat(name, dir_fd=directory.private, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(named, os.fstat(descriptor))


def _who(directory: StageDirectory, name: str) -> str:
    """Who holds a lock, and how far they are, as far as the lock file tells."""
    try:
        descriptor = os.open(name, _LOOK, dir_fd=directory.private)
        with os.fdopen(descriptor, "rb") as file:
            note = msgspec.json.decode(file.read(_NOTE_BYTES), type=CopierNote)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return "another process"
    who = f"process {note.pid} on {printable(note.host)}"
    return f"{who} ({printable(note.progress)})" if note.progress else who
