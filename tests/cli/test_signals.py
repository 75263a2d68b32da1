"""A signal stops a call wherever it is, and says how to go on."""

from __future__ import annotations

import signal
from contextlib import suppress

import pytest

from dataprep.cli.signals import resumable
from dataprep.errors import StoppedError


def test_a_library_that_swallows_exceptions_does_not_swallow_a_stop() -> None:
    said = "stopped by SIGTERM; go on"
    with pytest.raises(StoppedError, match=said) as caught, resumable("go on"), suppress(Exception):
        signal.raise_signal(signal.SIGTERM)
    assert caught.value.exit_code == 128 + signal.SIGTERM


def test_the_handlers_that_were_there_are_there_again() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with resumable("go on"):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
