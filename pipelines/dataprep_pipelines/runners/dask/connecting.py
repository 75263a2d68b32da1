"""A connection to a Dask scheduler, once it is certain that one is there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from distributed import Client
from distributed.comm import CommClosedError, connect

from dataprep.errors import PipelineError
from dataprep_pipelines.runners.dask.addresses import connection_arguments
from dataprep_pipelines.runners.explaining import first_line, shortened

_CONNECT_SECONDS = 20.0  # a batch script starts the scheduler at the same time
_ANSWER_SECONDS = 10.0
_CLOSE_SECONDS = 10.0
_FOREIGN = "what listens there is no Dask scheduler"


@contextmanager
def connected(where: Any, named: str = "") -> Iterator[Client]:
    """A client of a scheduler.

    Args:
        where: its address, or a cluster that is here.
        named: how the user named it, if not by its address.

    Raises:
        PipelineError: no scheduler answers.
    """
    if isinstance(where, str):
        _make_sure(where, named)
    try:
        client = Client(
            where,
            timeout=_CONNECT_SECONDS + _ANSWER_SECONDS,
            name="dataprep",
            set_as_default=False,
        )
    except Exception as error:  # whatever Dask raises: it asserts, too
        raise _no_scheduler(where, named, first_line(error)) from error
    try:
        yield client
    finally:
        with suppress(Exception):  # the run is over, and so may be the scheduler
            client.close(timeout=_CLOSE_SECONDS)


def _make_sure(address: str, named: str) -> None:
    """Ask who is there. Dask's client would wait for ever for something that never answers.

    In a thread of its own: neither a signal, nor a name that is not resolved, depends on it.
    """
    failed: list[BaseException] = []
    done = threading.Event()

    def ask() -> None:
        try:
            asyncio.run(asyncio.wait_for(_ask(address), _CONNECT_SECONDS + _ANSWER_SECONDS))
        except BaseException as error:  # noqa: BLE001  # handed to the main thread below
            failed.append(error)
        finally:
            done.set()

    threading.Thread(target=ask, name="dask-probe", daemon=True).start()
    if not done.wait(_CONNECT_SECONDS + 2 * _ANSWER_SECONDS):
        raise _no_scheduler(address, named, "no answer")
    if failed:
        raise _no_scheduler(address, named, _reason(failed[0])) from failed[0]


async def _ask(address: str) -> None:
    """Ask for its identity.

    Raises:
        Exception: of any kind; a foreign protocol may ask Dask for all the memory there is.
    """
    arguments = connection_arguments(address)
    comm = await connect(address, timeout=_CONNECT_SECONDS, **arguments)
    try:
        await comm.write({"op": "identity", "reply": True})
        answer = await comm.read()
        if answer.get("type") != "Scheduler":
            raise ValueError(f"it is a {answer.get('type')}")
    finally:
        comm.abort()


def _reason(error: BaseException) -> str:
    # Before Python 3.11 asyncio's is not the built-in one.
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
        return f"{_FOREIGN}: it says nothing"
    if isinstance(error, OSError) and not isinstance(error, CommClosedError):
        return first_line(error)
    return _FOREIGN


def _no_scheduler(where: object, named: str, why: str) -> PipelineError:
    place = f"{where}, which {named} names" if named else where
    return PipelineError(
        f"no Dask scheduler answers at {place} ({shortened(why)}); start one, or mend the address: "
        "a scheduler's port is usually 8786, 8787 is its dashboard's"
    )
