"""Beam on a Dask cluster, with one Dask task an element, each with a fate of its own.

Beam's own DaskRunner collects a whole graph in one task and puts 128 elements into each partition:
one shard that cannot be made would cancel all others, and a worker that is free would get none of a
busy one's. Here every shard is a task, handed out when a worker is free, retried elsewhere when its
worker dies, and forgotten when it is done.

There are never more tasks than threads. Of more, Dask gives a busy worker the next ones ahead, and
leaves them there while others have nothing to do: measured (docs/performance.md), eight shards then
take a fast and a slow worker twice as long as they should. And a scheduler that knows only what is
under way needs no more memory for a million shards than for a thousand.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import os
import pickle
import queue
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState
from distributed import Client, Future, get_worker
from distributed.comm import CommClosedError, connect
from distributed.scheduler import KilledWorker
from distributed.security import Security

from dataprep.errors import DataprepError, PipelineError, UsageError
from dataprep.system.messages import counted
from dataprep_pipelines.failures import (
    KillsWorkersError,
    QuietLauncherError,
    TasksFailedError,
    first_line,
    shortened,
)
from dataprep_pipelines.runners.engine import DaskChoice, Parallelism, RunningEngine
from dataprep_pipelines.tasks import CannotWorkError, WorkerRequirements
from dataprep_pipelines.worker import DEBUG

_PAUSE_SECONDS = 2.0  # before a worker that could not do a task gets the next one
_THREADS_SECONDS = 2.0  # between two looks at how many threads there are
_WORKERS_SECONDS = 5.0  # between two looks at whether workers are left
_LOOKS_A_SECOND = 50.0  # of all workers together, each of a few requests to the file system
_LONGEST_LOOK = 60.0
_CONNECT_SECONDS = 20.0  # a batch script starts the scheduler at the same time
_ANSWER_SECONDS = 10.0
_CLOSE_SECONDS = 10.0
_KEPT = "finished shards are kept"
_ADDRESS = re.compile(r"(?:(?P<scheme>\w+)://)?(?:\[[^\]\s]+\]|[^:/\s]+):(?P<port>[0-9]+)/?")
_ENCRYPTED = ("tls", "wss")
_SCHEMES = ("tcp", "ucx", "ucxx", "ws", *_ENCRYPTED)
_LAST_PORT = 65535
# glibc's bounds for freed memory that it keeps, at which its own learning ends (mallopt(3)).
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD of malloc.h
_LARGEST = 32 << 20  # bytes


# --- what a worker runs ---


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


def do_element(function: bytes, element: Any) -> None:
    """Do with an element what a pickled `beam.DoFn` does.

    A worker that cannot work for the run waits a while before it says so. It would otherwise take
    the next task, and the next, while those that can are busy.

    Raises:
        RefusedError: it cannot.
        QuietLauncherError: it took the launcher for dead, which has heard of that: so it lives.
    """
    keep_memory()
    work = pickle.loads(function)  # noqa: S301  # Dask's own messages are no safer
    try:
        work.setup()
        try:
            work.process(element)
            work.finish_bundle()
        finally:
            work.teardown()
    except CannotWorkError as error:
        time.sleep(_PAUSE_SECONDS)
        raise RefusedError(get_worker().address, str(error)) from None
    except QuietLauncherError:
        time.sleep(_PAUSE_SECONDS)
        raise


@cache
def keep_memory() -> None:
    """Keep this process's memory for the next image, as any other process does.

    Dask sets MALLOC_TRIM_THRESHOLD_ for its workers, so that glibc gives memory back early. With
    that, glibc asks the kernel anew for every decoded image: a fifth of a worker's time
    (docs/performance.md). Where the C library is another, nothing happens.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGEST)
        mallopt(_TRIM_THRESHOLD, 2 * _LARGEST)


# --- Beam's runner ---


class _Graph(PipelineVisitor):  # type: ignore[misc]  # Beam ships no types
    """The elements that a graph creates, and the last thing that it does with them."""

    def enter_composite_transform(self, transform_node: AppliedPTransform) -> None:
        if isinstance(transform_node.transform, beam.Create):
            self.elements = transform_node.transform.values

    def visit_transform(self, transform_node: AppliedPTransform) -> None:
        if isinstance(transform_node.transform, beam.ParDo):
            self.function = transform_node.transform.fn


class _Done(PipelineResult):  # type: ignore[misc]  # Beam ships no types
    def wait_until_finish(self, duration: int | None = None) -> str:  # noqa: ARG002  # Beam's
        return str(self.state)


class ElementRunner(PipelineRunner):  # type: ignore[misc]  # Beam ships no types
    """Runs graphs of ``Create | ParDo`` on a client's cluster, a task an element.

    Args:
        client: connected to a scheduler.

    Attributes:
        refusals: why workers cannot work for this run, by their addresses.
    """

    def __init__(self, client: Client) -> None:
        super().__init__()
        self.refusals: dict[str, str] = {}
        self._client = client
        self._function = b""
        self._open: dict[str, tuple[int, Any, Future]] = {}
        self._ended: queue.SimpleQueue[Future] = queue.SimpleQueue()
        self._threads = 1
        self._able: list[str] | None = None
        self._next_look = 0.0
        self._submitting = threading.Lock()
        self._stopping = threading.Event()

    def is_fnapi_compatible(self) -> bool:
        """Graphs are taken as they are; Beam need not see whether they can be encoded."""
        return True

    def run_pipeline(
        self,
        pipeline: beam.Pipeline,
        options: PipelineOptions,  # noqa: ARG002  # Beam's signature
    ) -> PipelineResult:
        """Submit a task a thread, and the next ones as they end, however they end.

        Raises:
            TasksFailedError: some failed, all others are done.
            PipelineError: the scheduler is gone, or a worker has not this program.
        """
        graph = _Graph()
        pipeline.visit(graph)
        self._function = pickle.dumps(graph.function)
        again: list[tuple[int, Any]] = []
        elements = enumerate(graph.elements)
        errors: dict[int, DataprepError] = {}
        self._submit(again, elements)
        while self._open and not self._stopping.is_set():
            for future in self._some_ended():
                # The scheduler forgets what nobody holds; a worker that dies later takes nothing
                # along.
                position, element, _ = self._open.pop(future.key)
                error = self._error_of(future)
                if isinstance(error, RefusedError):
                    self.refusals[error.worker] = error.reason
                    self._next_look = 0.0
                if isinstance(error, (RefusedError, QuietLauncherError)):
                    again.append((position, element))
                elif error is not None:
                    errors[position] = _explained(error)
            self._submit(again, elements)
        if errors:
            raise TasksFailedError(dict(sorted(errors.items())))
        return _Done(PipelineState.DONE)

    def cancel(self) -> None:
        """Take back what has not begun, and begin no further task."""
        self._stopping.set()
        with self._submitting:
            self._client.cancel([future for _, _, future in list(self._open.values())])

    def _submit(self, again: list[tuple[int, Any]], elements: Iterator[tuple[int, Any]]) -> None:
        """Make it as many tasks as there are threads, or as are left."""
        self._look_at_threads()
        with self._submitting:
            if self._stopping.is_set():
                return
            free = max(self._threads - len(self._open), 0)
            chosen = again[:free]
            del again[:free]
            chosen += islice(elements, free - len(chosen))
            if chosen and self._client.status in ("closing", "closed"):
                raise _scheduler_lost(self._client)
            for position, element in chosen:
                future = self._client.submit(
                    do_element,
                    self._function,
                    element,
                    # Dask would take the outcome of an earlier round for that of this one.
                    key=f"dataprep-{secrets.token_hex(8)}",
                    workers=self._able,
                    allow_other_workers=self._able is not None,
                )
                self._open[future.key] = position, element, future
                future.add_done_callback(self._ended.put)

    def _some_ended(self) -> list[Future]:
        """All that have ended by now; none if that takes longer than a look."""
        found = []
        with suppress(queue.Empty):
            found.append(self._ended.get(timeout=_THREADS_SECONDS))
            while True:  # under load many end meanwhile, and are followed by as many at once
                found.append(self._ended.get_nowait())
        return found

    def _error_of(self, future: Future) -> BaseException | None:
        if future.status == "cancelled" and not self._stopping.is_set():
            raise _scheduler_lost(self._client)
        # "lost": it was done, and the worker with its (empty) result died thereafter.
        error: BaseException | None = future.exception() if future.status == "error" else None
        if isinstance(error, ModuleNotFoundError):
            raise PipelineError(
                f"a Dask worker has no Python package {error.name}; start workers from the "
                "environment of this command"
            )
        return error

    def able(self) -> dict[str, int]:
        """Threads by worker: of those that can work for this run, as far as is known."""
        threads = _threads_of(self._client)
        return {worker: count for worker, count in threads.items() if worker not in self.refusals}

    def _look_at_threads(self) -> None:
        """Workers come and go. Without any there is one task, which learns of a lost scheduler."""
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + _THREADS_SECONDS
            able = self.able()
            self._threads = max(sum(able.values()), 1)
            self._able = sorted(able) if able and self.refusals else None


def _threads_of(client: Client) -> dict[str, int]:
    """Threads by worker; none if the scheduler is gone, which its tasks say better."""
    try:
        return dict(client.nthreads())
    except (OSError, RuntimeError, ValueError):
        return {}


def _scheduler_lost(client: Client) -> PipelineError:
    return PipelineError(
        f"the Dask scheduler at {client.scheduler.address} was lost; {_KEPT}: start one and run "
        "the same command again to resume"
    )


def _explained(error: BaseException) -> DataprepError:
    if isinstance(error, KilledWorker):
        return KillsWorkersError(
            f"{error.allowed_failures + 1} workers died while they made it, the last one "
            f"{error.last_worker.address}; if the system killed them for want of memory, give "
            "workers fewer threads or more memory"
        )
    line = first_line(error)
    return type(error)(line) if isinstance(error, DataprepError) else PipelineError(line)


# --- the cluster ---


class DaskEngine(RunningEngine):
    """A Dask cluster with at least one worker.

    Args:
        client: connected to it.
        patience: seconds without any worker before the run gives up.
        expecting: whether somebody will bring workers, however long it takes; may raise.
        report: told how many workers there are, when all are gone, and when they are back.
    """

    def __init__(
        self,
        client: Client,
        patience: float,
        expecting: Callable[[], bool],
        report: Callable[[str], None],
    ) -> None:
        self._client = client
        self._patience = patience
        self._expecting = expecting
        self._report = report
        self._runner = ElementRunner(client)
        self._told: set[str] = set()
        self._next_look = 0.0
        self._alone_since: float | None = None
        threads = self._runner.able()
        workers, total = counted(len(threads), "worker"), counted(sum(threads.values()), "thread")
        report(f"Dask: {workers}, {total}, at {client.scheduler.address}")

    @property
    def look_seconds(self) -> float:
        """Rarer where workers are many: a metadata server should not pay for them."""
        return min(max(len(self._runner.able()) / _LOOKS_A_SECOND, 2.0), _LONGEST_LOOK)

    def parallelism(self, shards: int, *, images: int) -> Parallelism:
        """One shard a thread of a worker; where threads are left over, they help."""
        threads = list(self._runner.able().values())
        few = bool(images) and shards < sum(threads)
        return Parallelism(helpers=max(threads, default=1) if few else 0, pause=_PAUSE_SECONDS)

    def shards_at_once(self, parallelism: Parallelism) -> int:  # noqa: ARG002  # one a thread
        """A shard a thread."""
        return max(sum(self._runner.able().values()), 1)

    def pipeline(self, parallelism: Parallelism) -> beam.Pipeline:  # noqa: ARG002  # not ours
        """One whose elements become tasks of the cluster."""
        return beam.Pipeline(runner=self._runner, options=PipelineOptions([]))

    def cancel(self) -> None:
        """Take back the tasks that no worker has begun."""
        with suppress(Exception):  # whatever a lost cluster says to that
            self._runner.cancel()

    def attend(self, *, ended: bool = False) -> None:
        """Notice workers that cannot work for this run, and that no other is left.

        Args:
            ended: the work is done; only what was not told yet is told.

        Raises:
            PipelineError: none can work; or there is none, for longer than the user wants to wait.
        """
        refusals = dict(self._runner.refusals)
        for worker in refusals.keys() - self._told:
            self._told.add(worker)
            if not (ended or self._runner.able() or self._expecting()):
                raise PipelineError(
                    f"no Dask worker can work for this run; {worker}: {refusals[worker]}"
                )
            self._report(f"{worker} is of no use, others go on: {refusals[worker]}")
        now = time.monotonic()
        if ended or now < self._next_look:
            return
        self._next_look = now + _WORKERS_SECONDS
        expecting = self._expecting()
        if self._runner.able():
            if self._alone_since is not None:
                self._report("workers are back")
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = now
            patience = "" if expecting else f" {self._patience:.0f} s"
            self._report(f"no worker is left; waiting{patience} for another")
        elif expecting:
            self._alone_since = now
        elif now - self._alone_since > self._patience:
            raise PipelineError(
                f"no worker was left for {self._patience:.0f} s; {_KEPT}: start workers and run "
                "the same command again to resume"
            )


@contextmanager
def dask_cluster(
    choice: DaskChoice, requirements: WorkerRequirements, report: Callable[[str], None]
) -> Iterator[RunningEngine]:
    """Connect, and wait for a worker; each finds out by itself whether it can work for this run.

    Args:
        choice: which cluster.
        requirements: of this run.
        report: told what takes time.

    Raises:
        PipelineError: no scheduler, or no worker.
    """
    if DEBUG not in os.environ:
        # What matters is raised; Dask's own words, some with a traceback, would bury it.
        for name in ("asyncio", *logging.root.manager.loggerDict):
            if name.partition(".")[0] in ("asyncio", "distributed", "tornado"):
                logging.getLogger(name).setLevel(logging.CRITICAL)
    if choice.slurm is not None:
        from dataprep_pipelines.runners.dask_slurm import slurm_cluster

        logs = requirements.marker.with_name("slurm")
        with (
            slurm_cluster(choice.slurm, logs, report) as (cluster, expecting),
            _connected(cluster) as client,
        ):
            yield _with_worker(client, choice.patience, expecting, report)
        return
    address, named = choice.address or "", ""
    if choice.scheduler_file is not None:
        address = _address_in(choice.scheduler_file, choice.patience)
        named = f", which --dask_scheduler_file {choice.scheduler_file} names"
    _ask_who_is_there(address, named)
    with _connected(address, named) as client:
        yield _with_worker(client, choice.patience, lambda: False, report)


def _with_worker(
    client: Client, patience: float, expecting: Callable[[], bool], report: Callable[[str], None]
) -> DaskEngine:
    """The cluster, once it has a worker."""
    address = client.scheduler.address
    end = time.monotonic() + patience
    if not _threads_of(client):
        report(f"waiting for the first worker at {address}")
    while not _threads_of(client):
        if expecting():
            end = time.monotonic() + patience
        if time.monotonic() > end:
            raise PipelineError(
                f"the Dask scheduler at {address} had no worker for {patience:.0f} s; start some: "
                f"dask worker {address}"
            )
        time.sleep(0.2)
    return DaskEngine(client, patience, expecting, report)


@contextmanager
def _connected(where: Any, named: str = "") -> Iterator[Client]:
    """A client of a scheduler, given by its address, or of a cluster that is here."""
    timeout = _CONNECT_SECONDS + _ANSWER_SECONDS
    try:
        client = Client(where, timeout=timeout, name="dataprep", set_as_default=False)
    except Exception as error:  # whatever Dask raises: it asserts, too
        raise _no_scheduler(f"{where}{named}", first_line(error)) from error
    try:
        yield client
    finally:
        with suppress(Exception):  # the run is over, and so may be the scheduler
            client.close(timeout=_CLOSE_SECONDS)


def _ask_who_is_there(address: str, named: str) -> None:
    """Find out whether it is a scheduler; Dask's client would wait for ever for other programs.

    Raises:
        PipelineError: it is not.
    """

    async def ask() -> None:
        arguments = Security().get_connection_args("client")
        comm = await connect(address, timeout=_CONNECT_SECONDS, **arguments)
        try:
            await comm.write({"op": "identity", "reply": True})
            if (await comm.read()).get("type") != "Scheduler":
                raise ValueError
        finally:
            comm.abort()

    try:
        asyncio.run(asyncio.wait_for(ask(), _CONNECT_SECONDS + _ANSWER_SECONDS))
    except Exception as error:  # a foreign protocol may ask Dask for all the memory there is
        refused = isinstance(error, OSError)
        foreign = isinstance(error, (CommClosedError, TimeoutError)) or not refused
        why = "what listens there is no Dask scheduler" if foreign else first_line(error)
        raise _no_scheduler(f"{address}{named}", why) from error


def _no_scheduler(where: str, why: str) -> PipelineError:
    return PipelineError(
        f"no Dask scheduler answers at {where} ({shortened(why)}); start one, or mend the address: "
        "a scheduler's port is usually 8786, 8787 is its dashboard's"
    )


def _address_in(file: Path, patience: float) -> str:
    """What a scheduler wrote, or writes soon: a batch script starts all at the same time.

    Raises:
        PipelineError: it does not come for so many seconds, or is something else.
    """
    end = time.monotonic() + patience
    while True:
        why = "is not a scheduler's file (expected JSON with an address)"
        try:
            address = json.loads(file.read_bytes())["address"]
            if isinstance(address, str):
                return address
        except FileNotFoundError:
            why = f"did not appear within {patience:.0f} s"
        except OSError as error:
            why = f"cannot be read ({error.strerror})"
        except (ValueError, TypeError, KeyError):
            pass  # perhaps half written
        if time.monotonic() > end:
            raise PipelineError(
                f"--dask_scheduler_file {file} {why}; start a scheduler that writes it"
            )
        time.sleep(0.2)


def check_address(address: str) -> None:
    """Find out whether Dask could connect to it.

    Raises:
        UsageError: it is no address, or needs certificates of which Dask does not know.
    """
    what = f"--dask_client_address {address}"
    found = _ADDRESS.fullmatch(address)
    scheme = "tcp" if found is None else found["scheme"] or "tcp"
    if found is None or not 0 < int(found["port"]) <= _LAST_PORT or scheme not in _SCHEMES:
        hint = " (http:// is its dashboard's)" if address.startswith("http") else ""
        raise UsageError(
            f"{what} is not the address of a Dask scheduler{hint}; it looks like "
            "tcp://10.0.0.1:8786"
        )
    if scheme not in _ENCRYPTED:
        return
    remedy = 'see "Security" in docs/engines.md'
    try:
        context = Security().get_connection_args("client").get("ssl_context")
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(
            f"{what}: the certificates that Dask's configuration names cannot be used ({error}); "
            f"{remedy}"
        ) from error
    if context is None:
        raise UsageError(
            f"{what} needs certificates, and Dask's configuration names none; {remedy}"
        )
