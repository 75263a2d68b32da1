"""A bound on what all processes of a run on this machine read and write together, a second.

On a login node others use the same file servers. What moves the bytes of images calls `pay` for
them and is held up there; without a bound that is one comparison. The processes share a few bytes,
which the launcher's children find through their environment.
"""

from __future__ import annotations

import os
import re
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from dataprep.system.bandwidth import Bandwidth
from dataprep.system.shared_bytes import Place, SharedBytes

_VARIABLE = "DATAPREP_SHARED_IO_LIMIT"
_ORDER = re.compile(r"(\d+) bytes a second, (/proc/\d+/fd/\d+) (\w+)", re.ASCII)
_MOMENT = struct.Struct("=d")  # when all has been paid for; behind it, whether nobody need pay
_LIFTED_AT = _MOMENT.size
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
    shared = SharedBytes.new(_MOMENT.pack(time.monotonic()))
    _meter = _SharedMeter(bytes_per_second, shared)
    where = f"{shared.place.path} {shared.place.nonce}"
    os.environ[_VARIABLE] = f"{bytes_per_second} bytes a second, {where}"
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
    """When all bytes have been paid for, known to all processes.

    Args:
        shared: the moment, and whether the bound is lifted.
    """

    def __init__(self, shared: SharedBytes) -> None:
        self._shared = shared

    def add(self, earliest: float, seconds: float) -> float:
        """As `Account.add`."""
        with self._shared.locked():
            free_at: float = _MOMENT.unpack(self._shared.read(_MOMENT.size))[0]
            free_at = max(free_at, earliest) + seconds
            self._shared.write(_MOMENT.pack(free_at))
            return free_at

    def lift(self) -> None:
        """For all who share it; without the lock, which a signal's handler could not get."""
        self._shared.write(_LIFTED, _LIFTED_AT)

    def is_lifted(self) -> bool:
        """Whether somebody has."""
        return self._shared.read(len(_LIFTED), _LIFTED_AT) == _LIFTED


class _SharedMeter:
    """This process's part in a bound.

    Args:
        bytes_per_second: of all processes together.
        shared: with the others.
    """

    def __init__(self, bytes_per_second: int, shared: SharedBytes) -> None:
        self._place = shared.place.path
        self._account = _SharedAccount(shared)
        self._bandwidth = Bandwidth(bytes_per_second, account=self._account)

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


def _inherited() -> Meter | None:
    """The bound of the process that has started this one."""
    if (order := _ORDER.fullmatch(os.environ.get(_VARIABLE, ""))) is None:
        return None
    shared = Place(order[2], order[3]).open()
    return None if shared is None else _SharedMeter(int(order[1]), shared)


_meter: Meter | None = _inherited()
