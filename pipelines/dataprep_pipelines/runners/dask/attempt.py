"""What a Dask worker runs for one element of a graph."""

from __future__ import annotations

import logging
import time

from distributed import get_worker
from distributed.protocol.pickle import loads

from dataprep_pipelines.runners.dask.allocating import keep_memory
from dataprep_pipelines.runners.running import QuietLauncherError
from dataprep_pipelines.runners.shared_places import CannotWorkError, SharedPlaces

_PAUSE_SECONDS = 2.0


def _matters(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("apitools not found")


# Beam says so when it is imported, which on a worker is after this module; nobody needs it here.
logging.getLogger().addFilter(_matters)


class RefusedError(Exception):
    """A worker cannot do a task, though others may.

    Args:
        worker: its address.
        reason: why not.
    """

    def __init__(self, worker: str, reason: str) -> None:
        super().__init__(worker, reason)
        self.worker = worker
        self.reason = reason


class LaterError(Exception):
    """A task was not done, for no fault of its own or of the worker."""


def attempt(task: bytes) -> None:
    """Do a pickled task.

    A worker that cannot work for the run waits a while before it says so. It would otherwise take
    the next task, and the next, while those that can are busy.

    Raises:
        RefusedError: it cannot.
        LaterError: it took the launcher for dead, which has heard of that: so it lives.
    """
    keep_memory()
    try:
        loads(task)()
    except CannotWorkError as error:
        time.sleep(_PAUSE_SECONDS)
        raise RefusedError(get_worker().address, str(error)) from None
    except QuietLauncherError as error:
        time.sleep(_PAUSE_SECONDS)
        raise LaterError(str(error)) from None


def refusal(places: SharedPlaces) -> str | None:
    """Why this worker cannot work for a run, if it cannot; without importing Beam."""
    try:
        places.check()
    except CannotWorkError as error:
        return str(error)
    return None
