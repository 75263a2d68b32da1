"""What a person sees of a call; and Ctrl-C and SIGTERM: stop cleanly, and say how to go on."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from types import FrameType
from typing import TYPE_CHECKING

from dataprep.api.progress import Display
from dataprep.errors import StoppedError
from dataprep.system.throttle import lift

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_RESUMING = "finished shards are kept; run the same command again to resume"


class _Stop(BaseException):
    """A signal came. No `Exception`: libraries that are being imported swallow those."""

    def __init__(self, error: StoppedError, number: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.exit_code = error.exit_code
        self.number = number


@contextmanager
def watched(how: str = _RESUMING, *, quiet_stdout: bool = False) -> Iterator[Display]:
    """What a call tells, shown; a signal stops it, and ``how`` says how to go on."""
    display = Display(quiet_stdout=quiet_stdout)
    try:
        with resumable(how):
            yield display
    finally:
        display.close()


@contextmanager
def resumable(how: str) -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP into an error that says how to resume.

    Args:
        how: what to tell the user, e.g. ``run the same command again to resume``.
    """
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    raised, over = Event(), False

    def stop(number: int, frame: FrameType | None) -> None:
        lift()  # or everybody would have to pay for their bytes first
        while frame is not None and frame.f_code is not again.__code__:
            frame = frame.f_back
        if over or frame is not None:
            return  # what is raised within the hook is lost without a word
        raised.set()
        name = signal.Signals(number).name
        raise _Stop(StoppedError(f"stopped by {name}; {how}", number), number)

    def again(lost: UnraisableHookArgs) -> None:
        if not isinstance(lost.exc_value, _Stop):
            unraisable(lost)
            return
        raised.clear()
        senders.append(Thread(target=_send, args=(lost.exc_value.number, raised), daemon=True))
        senders[-1].start()

    senders: list[Thread] = []
    # What is ignored already stays ignored: that is what nohup is for.
    caught = [number for number in signals if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in caught}
    # Python drops what is raised while an object is being deleted: the signal is sent once more.
    unraisable, sys.unraisablehook = sys.unraisablehook, again
    try:
        yield
    except _Stop as stopped:
        raise stopped.error from None
    finally:
        over = True
        raised.set()
        for sender in senders:
            sender.join()
        sys.unraisablehook = unraisable
        for number, handler in before.items():
            signal.signal(number, handler)


def _send(number: int, raised: Event) -> None:
    """Send a signal until its handler has raised.

    It may come within the hook again, or right before a call that blocks, which it does not wake.
    """
    pause = 0.01  # seconds
    while not raised.wait(pause):
        os.kill(os.getpid(), number)
        pause = min(2 * pause, 1.0)
