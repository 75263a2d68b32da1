"""What an engine's error says to the user, in one line; and a worker's last words in it."""

from __future__ import annotations

import re

from dataprep import errors
from dataprep.errors import DataprepError, PipelineError

WORKER_DIED = "Worker subprocess exited"  # what Beam's SubprocessSdkWorker says

_LONGEST = 300  # characters of somebody else's words
# Beam adds the step to an exception's message, or makes text of class and message.
_STEP = re.compile(r" \[while running '[^']*'\]")
_ENDED = re.compile(r"\bRunEndsError: (?P<kind>\w+): (?P<message>.+)")


class RunEndsError(Exception):
    """The whole run has failed on a worker that could not write it down: its disk is full.

    It travels through the engine, which may keep no more of it than class and message; so the
    message begins with the kind of error.
    """

    @classmethod
    def of(cls, error: DataprepError) -> RunEndsError:
        """The error, ready to travel."""
        return cls(f"{type(error).__name__}: {error}")


def explained(error: BaseException) -> DataprepError:
    """The error of a worker as it was, or a line about the engine's own."""
    if isinstance(error, DataprepError):
        return error
    last = last_line(error)
    text = f"RunEndsError: {last}" if isinstance(error, RunEndsError) else str(error)
    told = _ENDED.search(without_step(text))
    if told is not None:
        return as_raised(told["kind"], told["message"])
    if WORKER_DIED in last:
        return worker_died(last)
    return PipelineError(f"Beam failed: {shortened(last)}")


def as_raised(kind: str, message: str) -> DataprepError:
    """The error that a worker raised, by the name of its class."""
    found = getattr(errors, kind, None)
    if found is not None:
        error: DataprepError = found(message)
        return error
    return PipelineError(
        f"a worker failed unexpectedly: {kind}: {message}; this is a defect of dataprep or of a "
        "plugin, run with --debug for the details"
    )


def worker_died(how: str) -> PipelineError:
    """What to tell the user when one of this program's processes is gone."""
    return PipelineError(
        f"a worker process died ({how.rstrip('.')}); if the system killed it for want of memory, "
        "use fewer --workers; finished shards are kept: run the same command again to resume"
    )


def without_step(text: str) -> str:
    """An error's message as it was before Beam added what it was doing."""
    return _STEP.sub("", text)


def first_line(error: object) -> str:
    """Of what it says; its class if it says nothing."""
    return _lines(error)[0]


def last_line(error: object) -> str:
    """The same of the last one, which holds the error in a traceback."""
    return _lines(error)[-1]


def shortened(text: str) -> str:
    """Somebody else's words, cut where nobody reads on."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def one_line(text: str) -> str:
    """All that it says, with single spaces."""
    return " ".join(text.split())


def _lines(error: object) -> list[str]:
    return str(error).strip().splitlines() or [type(error).__name__]
