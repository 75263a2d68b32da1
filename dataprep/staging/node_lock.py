"""One copier a node: an flock in the scratch directory, and what the others wait for."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from dataprep.errors import StagingError
from dataprep.staging.directory import PRIVATE, StageDirectory, target_error
from dataprep.system.messages import printable

LOCK = "lock"  # its name in the private directory

_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_NOTE_BYTES = 256  # of who holds it; always as many, so that nothing of an earlier one stays
_FIRST_POLL, _LAST_POLL = 0.05, 0.5  # seconds
_FIRST_TELL_SECONDS = 3.0  # before it is said for the first time; then
_TELL_SECONDS = 30.0


@contextmanager
def node_lock(
    directory: StageDirectory,
    *,
    done: Callable[[], bool] = lambda: False,
    on_wait: Callable[[str], None] = lambda _: None,
    name: str = LOCK,
) -> Iterator[bool]:
    """Hold the lock of a target directory, or wait until its holder has done the work.

    Args:
        done: whether what is waited for is there, so that the lock is not needed: asked while
            waiting and once the lock is held.
        on_wait: told now and then who is waited for.
        name: of the lock; another one than the target's own says who works for one launch.

    Yields:
        Whether it holds the lock; it does not if ``done`` said so.

    Raises:
        StagingError: the file system cannot lock; the directory was removed meanwhile.
    """
    pause, tell_at = _FIRST_POLL, time.monotonic() + _FIRST_TELL_SECONDS
    while True:
        with try_lock(directory, name) as held:
            if held and not done():
                yield True
                return
        if done():
            yield False
            return
        if time.monotonic() >= tell_at:
            tell_at = time.monotonic() + _TELL_SECONDS
            on_wait(f"waiting for {_who(directory, name)}, which works on {directory.path}")
        time.sleep(pause)
        pause = min(pause * 1.5, _LAST_POLL)


@contextmanager
def try_lock(directory: StageDirectory, name: str = LOCK) -> Iterator[bool]:
    """Hold the lock of a target directory if it is free; yields whether it is.

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
        held = held and is_named(directory, name, descriptor)
        if held:
            note = f"process {os.getpid()} on {socket.gethostname()}\n".encode()
            with suppress(OSError):  # a disk that is full is told by the copying
                os.pwrite(descriptor, note.ljust(_NOTE_BYTES), 0)
        yield held
    finally:
        # Said explicitly: a child process that inherited the descriptor would keep the lock.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def describe_holder(directory: StageDirectory) -> str | None:
    """Who works on a target directory; None if nobody does.

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


def is_named(directory: StageDirectory, name: str, descriptor: int) -> bool:
    """Whether a lock of a target directory can still be found there, by its name."""
    try:
        named = os.stat(name, dir_fd=directory.private, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(named, os.fstat(descriptor)) and directory.is_current()


def _who(directory: StageDirectory, name: str) -> str:
    """Who holds a lock, as far as the lock file tells."""
    try:
        descriptor = os.open(name, _LOOK, dir_fd=directory.private)
        with os.fdopen(descriptor, "rb") as file:
            note = file.read(_NOTE_BYTES).decode(errors="replace").strip()
    except OSError:
        note = ""
    return printable(note) or "another process"
