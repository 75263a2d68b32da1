"""Signals whose handlers raise, in the midst of what must be finished."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_Handled = tuple[int, Callable[[int, FrameType | None], object]]

_SIGNALS: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Deferred:
    """What a signal's handler has raised meanwhile; the first one if there were several."""

    error: BaseException | None = None


@contextmanager
def signals_deferred(
    on_interrupt: Callable[[BaseException], None] | None = None,
) -> Iterator[Deferred]:
    """Let handlers of SIGINT, SIGTERM and SIGHUP run, but keep what they raise for later.

    In a thread that is not the main one there is nothing to defer.

    Args:
        on_interrupt: told of the first thing that is raised.

    Yields:
        What has been raised; look at it, and raise it, afterwards.
    """
    deferred = Deferred()
    before: list[_Handled] = []

    def defer(number: int, frame: FrameType | None) -> None:
        try:
            handlers[number](number, frame)
        except BaseException as error:  # noqa: BLE001 - whoever asked for it raises it
            if deferred.error is None:
                deferred.error = error
                if on_interrupt is not None:
                    on_interrupt(error)

    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            handler = signal.getsignal(number)
            if callable(handler):  # not SIG_DFL or SIG_IGN
                before.append((number, handler))
    handlers = dict(before)
    try:
        for number in handlers:
            signal.signal(number, defer)
        yield deferred
    finally:
        _restore(before)


def _restore(handlers: list[_Handled]) -> None:
    try:
        while handlers:
            signal.signal(*handlers[-1])
            handlers.pop()
    except BaseException:  # a signal has come to one that is back already
        _restore(handlers)
        raise
