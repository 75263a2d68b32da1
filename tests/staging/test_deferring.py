"""A signal in the midst of what must be finished is heard at once and raised afterwards."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from dataprep.cli.stopping import resumable
from dataprep.errors import StoppedError
from dataprep.staging.broadcast.deferring import signals_deferred


def test_what_handlers_raise_is_told_once_and_kept() -> None:
    told: list[BaseException] = []
    with resumable("go on"):
        with signals_deferred(told.append) as deferred:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
                os.kill(os.getpid(), number)
            done = True
        assert done
        assert told == [deferred.error]
        assert "SIGTERM" in str(deferred.error)
        # And then they raise as before.
        with pytest.raises(StoppedError, match="SIGINT"):
            os.kill(os.getpid(), signal.SIGINT)


def test_what_the_work_raises_comes_through_and_handlers_are_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    during = []

    def work() -> None:
        with signals_deferred():
            during.append(signal.getsignal(signal.SIGINT))
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        work()
    assert during != [before]
    assert signal.getsignal(signal.SIGINT) is before


def test_in_another_thread_there_is_nothing_to_defer() -> None:
    errors: list[BaseException | None] = []

    def work() -> None:
        with signals_deferred() as deferred:
            errors.append(deferred.error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert errors == [None]
