"""A signal stops a call wherever it is, and says how to go on."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import suppress

import pytest

from dataprep.cli.signals import resumable
from dataprep.errors import StoppedError


def test_a_library_that_swallows_exceptions_does_not_swallow_a_stop() -> None:
    said = "stopped by SIGTERM; go on"
    with pytest.raises(StoppedError, match=said) as caught, resumable("go on"), suppress(Exception):
        signal.raise_signal(signal.SIGTERM)
    assert caught.value.exit_code == 128 + signal.SIGTERM


def test_a_signal_in_the_midst_of_a_deletion_stops_the_call_a_moment_later() -> None:
    class Held:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    @resumable("go on")
    def call() -> None:
        held = Held()
        del held
        time.sleep(60)

    with pytest.raises(StoppedError, match="stopped by SIGTERM; go on"):
        call()


def test_a_signal_that_is_lost_again_stops_the_call_in_the_end() -> None:
    """As on a busy machine, where it is sent again before Python is done with the first one."""

    class Held:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    start = threading.Thread.start

    def slow(thread: threading.Thread) -> None:
        start(thread)
        end = time.monotonic() + 0.2
        while time.monotonic() < end:  # within the hook, where it is sent several times
            pass

    @resumable("go on")
    def call() -> None:
        held = Held()
        del held
        time.sleep(20)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", slow)
        with pytest.raises(StoppedError, match="stopped by SIGTERM; go on"):
            call()
    assert not [each for each in threading.enumerate() if "_send" in each.name]


def test_the_handlers_that_were_there_are_there_again() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with resumable("go on"):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
