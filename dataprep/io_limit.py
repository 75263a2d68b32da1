"""A bound on what all processes of a run on this machine read and write together, a second.

On a login node others use the same file servers. What moves the bytes of images calls `pay` for
them and is held up there; without a bound that is one comparison. The processes share a few bytes
of memory, an open file of the launcher's without a name: it ends with the launcher, however that
ends, and its children find it through their environment.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import struct
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from dataprep.bandwidth import Bandwidth
from dataprep.errors import PipelineError

_VARIABLE = "DATAPREP_SHARED_IO_LIMIT"
_ORDER = re.compile(r"(\d+) bytes a second, (/proc/\d+/fd/\d+) (\w+)", re.ASCII)
_MEMORY = "/dev/shm"  # noqa: S108  # not for a file that anybody could find there
_MOMENT = struct.Struct("=d")

# What the processes share: the nonce by which they know it, and behind it these.
_NONCE_BYTES = 16
_MOMENT_AT = _NONCE_BYTES
_LIFTED_AT = _MOMENT_AT + _MOMENT.size
_LIFTED = b"lifted"


class Meter(Protocol):
    """Where bytes are paid for."""

    def pay(self, count: int) -> None:
        """Wait until so many bytes may be moved."""


def pay(count: int) -> None:
    """Wait until ``count`` bytes, which were read or written just now, fit the bound, if any."""
    if _meter is not None:
        _meter.pay(count)


def is_limited() -> bool:
    """Whether there is a bound, so that it is worth while to count."""
    return _meter is not None


@contextmanager
def io_limited(bytes_per_second: int | None) -> Iterator[None]:
    """Bound what this process and its children move meanwhile; None for no bound.

    To be entered before worker processes are started, in one thread of the process.

    Raises:
        PipelineError: there is no memory to share.
    """
    global _meter
    if bytes_per_second is None:
        yield
        return
    before, variable = _meter, os.environ.get(_VARIABLE)
    nonce = secrets.token_bytes(_NONCE_BYTES)
    account = _SharedAccount(_new_memory(nonce))
    place = f"/proc/{os.getpid()}/fd/{account.descriptor}"
    _meter = _SharedMeter(bytes_per_second, place, account)
    os.environ[_VARIABLE] = f"{bytes_per_second} bytes a second, {place} {nonce.hex()}"
    try:
        yield
    finally:
        lift()
        _meter = before
        if variable is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = variable


def lift() -> None:
    """Hold nobody up any more, in any process of the run: it is being stopped.

    A signal's handler may call it.
    """
    if isinstance(_meter, _SharedMeter):
        _meter.lift()


class _SharedAccount:
    """When all bytes have been paid for, in an open file that processes share.

    Args:
        descriptor: the file, which is closed with the last reference: threads of a run that was
            cut short may still use it.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._lock = threading.Lock()

    def __del__(self) -> None:
        os.close(self.descriptor)

    def add(self, earliest: float, seconds: float) -> float:
        """As `Account.add`."""
        with self._locked():
            free_at: float = _MOMENT.unpack(self._read(_MOMENT.size, _MOMENT_AT))[0]
            free_at = max(free_at, earliest) + seconds
            os.pwrite(self.descriptor, _MOMENT.pack(free_at), _MOMENT_AT)
            return free_at

    def lift(self) -> None:
        """For all who share it; without the lock, which a signal's handler could not get."""
        os.pwrite(self.descriptor, _LIFTED, _LIFTED_AT)

    def is_lifted(self) -> bool:
        """Whether somebody has."""
        return self._read(len(_LIFTED), _LIFTED_AT) == _LIFTED

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock:  # flock does not tell threads apart
            fcntl.flock(self.descriptor, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self.descriptor, fcntl.LOCK_UN)

    def _read(self, size: int, offset: int) -> bytes:
        return os.pread(self.descriptor, size, offset)


class _SharedMeter:
    """This process's part in a bound.

    Args:
        bytes_per_second: of all processes together.
        place: where the launcher has the account's file open, as long as there is a launcher.
        account: shared with the others.
    """

    def __init__(self, bytes_per_second: int, place: str, account: _SharedAccount) -> None:
        self._place = place
        self._account = account
        self._bandwidth = Bandwidth(bytes_per_second, account=account)

    def pay(self, count: int) -> None:
        with suppress(_OverError):
            self._bandwidth.take(count, self._check)

    def lift(self) -> None:
        self._account.lift()

    def _check(self) -> None:
        # Of a launcher that is gone there may be a zombie, which has no open files.
        if self._account.is_lifted() or not os.access(self._place, os.F_OK):
            raise _OverError


class _OverError(Exception):
    """There is nothing more to wait for."""


def _new_memory(nonce: bytes) -> int:
    """A nameless file, in memory if possible, because flock works there.

    It holds the nonce and the moment of now.
    """
    try:
        place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
        with tempfile.TemporaryFile(dir=place, buffering=0) as file:
            file.write(nonce + _MOMENT.pack(time.monotonic()))
            return os.dup(file.fileno())
    except OSError as error:
        raise PipelineError(
            f"--io_limit: {error.filename or _MEMORY}: {error.strerror}; expected room for a few "
            "bytes in memory or in $TMPDIR"
        ) from error


def _inherited() -> Meter | None:
    """The bound of the process that has started this one."""
    if (order := _ORDER.fullmatch(os.environ.get(_VARIABLE, ""))) is None:
        return None
    try:
        memory = os.open(order[2], os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None  # the launcher is gone, and this process is about to notice
    account = _SharedAccount(memory)
    # By now that number may be another process's, and this any file: it will be written to.
    if os.pread(memory, _NONCE_BYTES, 0).hex() != order[3]:
        return None
    return _SharedMeter(int(order[1]), order[2], account)


_meter: Meter | None = _inherited()
