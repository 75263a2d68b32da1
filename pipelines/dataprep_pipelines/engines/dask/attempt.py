"""What a Dask worker runs for one element of a graph."""

from __future__ import annotations

import time

from distributed import get_worker
from distributed.protocol.pickle import loads

from dataprep_pipelines.engines.shared_places import CannotWorkError

_PAUSE_SECONDS = 2.0


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


def attempt(task: bytes) -> None:
    """Do a pickled task.

    A worker that cannot work for the run waits a while before it says so. It would otherwise take
    the next task, and the next, while those that can are busy.

    Raises:
        RefusedError: it cannot.
    """
    try:
        loads(task)()
    except CannotWorkError as error:
        time.sleep(_PAUSE_SECONDS)
        raise RefusedError(get_worker().address, str(error)) from None
