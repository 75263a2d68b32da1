"""A Dask cluster, with one Dask task an element, each with a fate of its own.

Beam's own DaskRunner collects a whole graph in one task and puts 128 elements into each partition:
one shard that cannot be made would cancel all others, and a worker that is free would get none of a
busy one's. So the cluster is given the graph's function and an element at a time: when a worker is
free, again elsewhere when its worker dies, and forgotten when it is done.

There are never more tasks than threads. Of more, Dask gives a busy worker the next ones ahead, and
leaves them there while others have nothing to do: measured (docs/performance.md), eight shards then
take a fast and a slow worker twice as long as they should. And a scheduler that knows only what is
under way needs no more memory for a million shards than for a thousand.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import pickle
import queue
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from distributed import Client, Future, get_worker
from distributed.comm import connect, get_address_host
from distributed.scheduler import KilledWorker
from distributed.security import Security
from typing_extensions import override

from dataprep.errors import PipelineError
from dataprep.formats import ShardName
from dataprep.system.messages import counted, printable
from dataprep.system.regular_files import read_regular
from dataprep_pipelines.failures import RESUME, FailureLog, QuietLauncherError, line_of
from dataprep_pipelines.runners.dask_slurm import slurm_cluster
from dataprep_pipelines.runners.engine import Engine, Parallelism, Round, RunningEngine
from dataprep_pipelines.tasks import CannotWorkError, Work
from dataprep_pipelines.worker import DEBUG

_PAUSE_SECONDS = 10.0  # before a thread that failed gets the next shard
_REFUSED_SECONDS = 2.0  # before a worker that could not do a task gets another
_WATCH_SECONDS = 0.25
_WORKERS_SECONDS = 2.0  # between two looks at how many workers there are
_LOOKS_A_SECOND = 50.0  # of all workers together, each of a few requests to the file system
_LONGEST_LOOK = 60.0
_CONNECT_SECONDS = 20.0  # a batch script starts the scheduler at the same time
_CLOSE_SECONDS = 10.0
_PRIVATE = ("tls://", "wss://", "inproc://")
# glibc's bounds for freed memory that it keeps, at which its own learning ends (mallopt(3)).
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD of malloc.h
_LARGEST = 32 << 20  # bytes


# --- what a worker runs ---


class RefusedError(Exception):
    """The worker of this address cannot do a task, for this reason; others may."""


def do_element(function: bytes, element: Any) -> None:
    """Do with an element what a pickled `Work` does.

    A worker that cannot work for the run waits a while before it says so. It would otherwise take
    the next task, and the next, while those that can are busy.

    Raises:
        RefusedError: it cannot.
        QuietLauncherError: it took the launcher for dead, which has heard of that: so it lives.
    """
    keep_memory()
    work: Work = pickle.loads(function)  # noqa: S301  # Dask's own messages are no safer
    try:
        work.run((element,))
    except CannotWorkError as error:
        time.sleep(_REFUSED_SECONDS)
        raise RefusedError(get_worker().address, str(error)) from None
    except QuietLauncherError:
        time.sleep(_REFUSED_SECONDS)
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


# --- what the launcher does ---


class DaskEngine(RunningEngine):
    """A Dask cluster with at least one worker.

    Args:
        timeout: seconds without any worker before the run gives up.
        expecting: whether somebody will bring workers, however long it takes; may raise.
        report: told how many workers there are, when all are gone, and which are of no use.

    Raises:
        PipelineError: there is no worker for too long.
    """

    def __init__(
        self,
        client: Client,
        timeout: float,
        expecting: Callable[[], bool],
        report: Callable[[str], None],
    ) -> None:
        self._client = client
        self._address = client.scheduler.address
        self._timeout = timeout
        self._expecting = expecting
        self._report = report
        self._useless: set[str] = set()
        self._able: dict[str, int] = {}  # threads by worker, but for those of no use
        self._next_look = 0.0
        self._alone_since: float | None = None
        while not self._able:
            self._look()
            time.sleep(_WATCH_SECONDS)
        workers, total = counted(len(self._able), "worker"), counted(self._threads, "thread")
        report(f"Dask: {workers}, {total}, at {self._address}")

    @property
    def look_seconds(self) -> float:
        """Rarer where workers are many: a metadata server should not pay for them."""
        return min(max(len(self._able) / _LOOKS_A_SECOND, 2.0), _LONGEST_LOOK)

    @override
    def parallelism(self, shards: int, *, images: int, small: bool) -> Parallelism:
        """One shard a thread of a worker; where threads are left over, they help."""
        few = bool(images) and shards < self._threads
        helpers = max(self._able.values(), default=1) if few else 0
        return Parallelism(self._threads, helpers=helpers, pause=_PAUSE_SECONDS)

    def run(self, task: Round) -> None:
        """Submit a task a thread, and the next ones as they end, however they end."""
        function = pickle.dumps(task.work)
        waiting = deque(task.elements)
        open_: dict[str, tuple[Any, Future]] = {}
        ended: queue.SimpleQueue[Future] = queue.SimpleQueue()
        try:
            while waiting or open_:
                self._look()
                while waiting and len(open_) < self._threads:
                    element = waiting.popleft()
                    future = self._submit(function, element)
                    open_[future.key] = element, future
                    future.add_done_callback(ended.put)
                for future in _some_ended(ended):
                    # The scheduler forgets what nobody holds; a worker that dies later takes
                    # nothing along.
                    element, _ = open_.pop(future.key)
                    if self._is_to_be_done_again(future, element, task.failures):
                        waiting.appendleft(element)
                task.watch()
        except BaseException:
            task.failures.stop()
            with suppress(Exception):  # whatever a lost cluster says to that
                self._client.cancel([future for _, future in open_.values()])
            raise

    @property
    def _threads(self) -> int:
        """Without any worker there is one task, which learns of a lost scheduler."""
        return max(sum(self._able.values()), 1)

    def _submit(self, function: bytes, element: Any) -> Future:
        if self._client.status in ("closing", "closed"):
            raise self._lost()
        known = sorted(self._able) if self._useless and self._able else None
        return self._client.submit(
            do_element,
            function,
            element,
            # Dask would take the outcome of an earlier round for that of this one.
            key=f"dataprep-{secrets.token_hex(8)}",
            workers=known,
            allow_other_workers=known is not None,
        )

    def _is_to_be_done_again(self, future: Future, element: Any, failures: FailureLog) -> bool:
        if future.status == "cancelled":
            raise self._lost()
        # "lost": it was done, and the worker with its (empty) result died thereafter.
        error = future.exception() if future.status == "error" else None
        if isinstance(error, RefusedError):
            self._leave_out(*error.args)
        if isinstance(error, (RefusedError, QuietLauncherError)):
            return True
        if isinstance(error, ModuleNotFoundError):
            raise PipelineError(
                f"a Dask worker has no Python package {error.name}; start workers from the "
                "environment of this command"
            )
        if isinstance(error, KilledWorker):
            error = PipelineError(
                f"{error.allowed_failures + 1} workers died while they made it, the last one "
                f"{error.last_worker.address}; if the system killed them for want of memory, give "
                "workers fewer threads or more memory"
            )
        if error is not None:
            failures.tell(error, element if isinstance(element, ShardName) else None)
        return False

    def _leave_out(self, worker: str, reason: str) -> None:
        if worker in self._useless:
            return
        self._useless.add(worker)
        self._able = self._able_now()
        if not (self._able or self._expecting()):
            raise PipelineError(f"no Dask worker can work for this run; {worker}: {reason}")
        self._report(f"{worker} is of no use, others go on: {reason}")

    def _look(self) -> None:
        """See now and then which workers there are."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._able = self._able_now()
        self._next_look = now + (_WORKERS_SECONDS if self._able else _WATCH_SECONDS)
        if self._able or self._expecting():
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = now
            wait = f"waiting {self._timeout:.0f} s for one"
            self._report(f"Dask: no worker at {self._address}; {wait}")
        elif now - self._alone_since > self._timeout:
            raise PipelineError(
                f"the Dask scheduler at {self._address} had no worker for {self._timeout:.0f} s; "
                f"start some (dask worker {self._address}); {RESUME}"
            )

    def _able_now(self) -> dict[str, int]:
        try:
            threads = self._client.nthreads()
        except (OSError, RuntimeError, ValueError):
            return {}  # the scheduler is gone, which its tasks say better
        return {worker: n for worker, n in threads.items() if worker not in self._useless}

    def _lost(self) -> PipelineError:
        return PipelineError(f"the Dask scheduler at {self._address} was lost; start one; {RESUME}")


def _some_ended(ended: queue.SimpleQueue[Future]) -> Iterator[Future]:
    """All that have ended by now; none if that takes longer than a look."""
    with suppress(queue.Empty):
        yield ended.get(timeout=_WATCH_SECONDS)
        while True:  # under load many end meanwhile, and are followed by as many at once
            yield ended.get_nowait()


# --- the cluster ---


@contextmanager
def dask_cluster(
    engine: Engine, logs: Path, report: Callable[[str], None]
) -> Iterator[RunningEngine]:
    """Connect, and wait for a worker; each finds out by itself whether it can work for this run.

    Raises:
        PipelineError: no scheduler, or no worker.
    """
    if DEBUG not in os.environ:
        # What matters is raised; Dask's own words, some with a traceback, would bury it.
        for name in ("asyncio", *logging.root.manager.loggerDict):
            if name.partition(".")[0] in ("asyncio", "distributed", "tornado"):
                logging.getLogger(name).setLevel(logging.CRITICAL)
    timeout = engine.dask_timeout
    with ExitStack() as stack:
        if engine.dask_slurm is not None:
            cluster = slurm_cluster(engine.dask_slurm, logs, report)
            where, expecting = stack.enter_context(cluster)
        else:
            where = engine.dask_client_address or _address_in(engine.dask_scheduler_file, timeout)
            expecting = bool  # never
        client = stack.enter_context(_connected(where, report))
        yield DaskEngine(client, timeout, expecting, report)


@contextmanager
def _connected(where: Any, report: Callable[[str], None]) -> Iterator[Client]:
    """A client of a scheduler, given by its address, or of a cluster that is here."""
    try:
        if isinstance(where, str):
            asyncio.run(_shake_hands(where))
        client = Client(where, timeout=_CONNECT_SECONDS, name="dataprep", set_as_default=False)
        _tell_who_else(client, report)
    except Exception as error:  # whatever Dask raises: it asserts, too
        raise PipelineError(
            f"no Dask scheduler answers at {where} ({line_of(error)}); start one, or mend the "
            "address: a scheduler's port is usually 8786, 8787 is its dashboard's"
        ) from error
    try:
        yield client
    finally:
        with suppress(Exception):  # the run is over, and so may be the scheduler
            client.close(timeout=_CLOSE_SECONDS)


def _tell_who_else(client: Client, report: Callable[[str], None]) -> None:
    """Warn of a scheduler that takes programs from anybody on its network."""
    address = str(client.scheduler_info()["address"])  # its own, not that of a tunnel's end
    host = get_address_host(address)
    here = host.startswith("127.") or host in ("::1", "localhost")
    if not (here or address.startswith(_PRIVATE)):
        report(
            f"warning: the Dask scheduler at {printable(address)} does without TLS: whoever "
            "reaches it over the network can run programs as you; give it certificates, see "
            "Security in docs/engines.md"
        )


async def _shake_hands(address: str) -> None:
    """Find out whether Dask listens there; its client would wait for ever for other programs."""
    arguments = Security().get_connection_args("client")
    comm = await asyncio.wait_for(connect(address, **arguments), _CONNECT_SECONDS)
    comm.abort()


class _SchedulerFile(msgspec.Struct, frozen=True):
    """What a scheduler writes about itself, as far as it matters here."""

    address: str


def _address_in(file: Path | None, timeout: float) -> str:
    """What a scheduler wrote, or writes soon: a batch script starts all at the same time."""
    end = time.monotonic() + timeout
    while file is not None and time.monotonic() <= end:
        with suppress(OSError, ValueError):  # perhaps half written
            return msgspec.json.decode(read_regular(file), type=_SchedulerFile).address
        time.sleep(_WATCH_SECONDS)
    raise PipelineError(
        f"--dask_scheduler_file {file} has no scheduler's address after {timeout:.0f} s; start a "
        "scheduler that writes it"
    )
