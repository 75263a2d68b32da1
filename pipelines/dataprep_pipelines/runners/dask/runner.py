"""Beam's DaskRunner with one Dask task an element, each with a fate of its own.

Beam's own collects a whole graph in one task and puts 128 elements into each partition: one shard
that cannot be made would cancel all others, and a worker that is free would get none of a busy
one's. Here every shard is a task, handed out when a worker is free, retried elsewhere when its
worker dies, and forgotten when it is done.

There are never more tasks than threads. Of more, Dask gives a busy worker the next ones ahead, and
leaves them there while others have nothing to do: measured (docs/performance.md), eight shards then
take a fast and a slow worker twice as long as they should. And a scheduler that knows only what is
under way needs no more memory for a million shards than for a thousand.
"""

from __future__ import annotations

import queue
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count, islice, repeat
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.dask.dask_runner import DaskRunner
from apache_beam.runners.runner import PipelineResult, PipelineState
from distributed import Client, Future
from distributed.protocol.pickle import dumps
from distributed.scheduler import KilledWorker

from dataprep.errors import DataprepError, PipelineError
from dataprep_pipelines.runners.dask.attempt import LaterError, RefusedError, attempt
from dataprep_pipelines.runners.dask.tasks import Task, tasks_of
from dataprep_pipelines.runners.explaining import RunEndsError, first_line, without_step
from dataprep_pipelines.runners.running import KillsWorkersError, TasksFailedError

_LOOK_SECONDS = 2.0  # between two looks at how many threads there are


class ShardRunner(DaskRunner):  # type: ignore[misc]  # Beam ships no types
    """Runs a graph of single elements on a client's cluster.

    Args:
        client: connected to a scheduler.

    Attributes:
        refusals: why workers cannot work for this run, by their addresses.
    """

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self._results: list[_Result] = []
        self.refusals: dict[str, str] = {}

    def run_pipeline(
        self,
        pipeline: beam.Pipeline,
        options: PipelineOptions,  # noqa: ARG002  # Beam's signature
    ) -> PipelineResult:
        """Submit a task a thread; the others follow while their result is waited for."""
        tasks = tasks_of(pipeline, self.to_dask_bag_visitor)
        result = _Result(self._client, tasks, self.refusals)
        self._results.append(result)
        result.submit()
        return result

    def cancel(self) -> None:
        """Begin no further task."""
        for result in self._results:
            result.cancel()


class _Result(PipelineResult):  # type: ignore[misc]  # Beam ships no types
    """The tasks of one graph.

    Args:
        client: that submits them.
        tasks: one an element, in the order of the elements.
        refusals: takes in why workers cannot do them.
    """

    def __init__(self, client: Client, tasks: Iterator[Task], refusals: dict[str, str]) -> None:
        super().__init__(PipelineState.RUNNING)
        self._client = client
        self._tasks = enumerate(tasks)
        self._refusals = refusals
        self._again: list[tuple[int, Task]] = []
        # Names of its own: Dask would take the outcome of an earlier round, if it still has it, for
        # that of the same shard in this one.
        self._names = zip(repeat(f"dataprep-{secrets.token_hex(8)}"), count(), strict=False)
        self._open: dict[Any, tuple[int, Task, Future]] = {}
        self._ended: queue.SimpleQueue[Future] = queue.SimpleQueue()
        self._threads = 1
        self._able: list[str] | None = None
        self._next_look = 0.0
        self._submitting = threading.Lock()
        self._stopping = threading.Event()

    def wait_until_finish(self, duration: int | None = None) -> str:  # noqa: ARG002  # Beam's
        """Wait for every task, however the others end.

        Raises:
            TasksFailedError: some failed, all others are done.
            PipelineError: the scheduler is gone.
            RunEndsError: a worker says so; the other tasks were taken back.
        """
        errors: dict[int, DataprepError] = {}
        while self._open and not self._stopping.is_set():
            for future in self._some_ended():
                # The scheduler forgets what nobody holds; a worker that dies later takes nothing
                # along.
                position, task, _ = self._open.pop(future.key)
                error = self._error_of(future)
                if isinstance(error, RefusedError):
                    self._refusals[error.worker] = error.reason
                    self._again.append((position, task))
                    self._next_look = 0.0
                elif isinstance(error, LaterError):
                    self._again.append((position, task))
                elif isinstance(error, RunEndsError):
                    self.cancel()
                    raise error
                elif error is not None:
                    errors[position] = _explained(error)
            self.submit()
        if errors:
            raise TasksFailedError(dict(sorted(errors.items())))
        return str(PipelineState.DONE)

    def submit(self) -> None:
        """Make it as many tasks as there are threads, or as are left.

        Raises:
            PipelineError: the scheduler is gone.
        """
        self._look_at_threads()
        with self._submitting:
            if self._stopping.is_set():
                return
            free = max(self._threads - len(self._open), 0)
            chosen, self._again = self._again[:free], self._again[free:]
            chosen += islice(self._tasks, free - len(chosen))
            if not chosen:
                return
            if self._client.status in ("closing", "closed"):
                raise _scheduler_lost(self._client)
            futures = self._client.map(
                attempt,
                [dumps(task) for _, task in chosen],
                key=list(islice(self._names, len(chosen))),
                workers=self._able,
                allow_other_workers=self._able is not None,
            )
            for (position, task), future in zip(chosen, futures, strict=True):
                self._open[future.key] = position, task, future
                future.add_done_callback(self._ended.put)

    def cancel(self) -> str:
        """Take back what has not begun."""
        self._stopping.set()
        with self._submitting:
            self._client.cancel([future for _, _, future in list(self._open.values())])
        return str(PipelineState.CANCELLED)

    def _some_ended(self) -> list[Future]:
        """All that have ended by now; none if that takes longer than a look."""
        found = []
        with suppress(queue.Empty):
            found.append(self._ended.get(timeout=_LOOK_SECONDS))
            while True:  # under load many end meanwhile, and are followed by as many at once
                found.append(self._ended.get_nowait())
        return found

    def _error_of(self, future: Future) -> BaseException | None:
        if future.status == "cancelled" and not self._stopping.is_set():
            raise _scheduler_lost(self._client)
        # "lost": it was done, and the worker with its (empty) result died thereafter.
        return future.exception() if future.status == "error" else None

    def _look_at_threads(self) -> None:
        """Workers come and go. Without any there is one task, which learns of a lost scheduler."""
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + _LOOK_SECONDS
            threads = workers_of(self._client)
            able = {worker: threads[worker] for worker in threads.keys() - self._refusals.keys()}
            self._threads = max(sum(able.values()), 1)
            self._able = sorted(able) if able and len(able) < len(threads) else None


def workers_of(client: Client) -> dict[str, int]:
    """Threads by worker; none if the scheduler is gone, which its tasks say better."""
    try:
        return dict(client.nthreads())
    except (OSError, RuntimeError, ValueError):
        return {}


def _scheduler_lost(client: Any) -> PipelineError:
    return PipelineError(
        f"the Dask scheduler at {client.scheduler.address} was lost; finished shards are kept: "
        "start one and run the same command again to resume"
    )


def _explained(error: BaseException) -> DataprepError:
    if isinstance(error, KilledWorker):
        return KillsWorkersError(
            f"{error.allowed_failures + 1} workers died while they made it, the last one "
            f"{error.last_worker.address}; if the system killed them for want of memory, give "
            "workers fewer threads or more memory"
        )
    line = without_step(first_line(error))
    return type(error)(line) if isinstance(error, DataprepError) else PipelineError(line)
