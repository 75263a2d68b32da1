"""Writing shards: one element a shard number."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import BrokenExecutor, Executor, ThreadPoolExecutor
from threading import Semaphore

from dataprep.formats import ShardName
from dataprep.jobs.output.commit import finished_shard
from dataprep.jobs.running.job import Job
from dataprep.jobs.running.shard import ShardStoppedError, write_shard
from dataprep.system.durable_files import storage_error
from dataprep_pipelines.failures import FailureLog, QuietLauncherError, worker_died
from dataprep_pipelines.runners import STOP, Parallelism
from dataprep_pipelines.tasks import TaskSpec, Work
from dataprep_pipelines.worker import HelperProcesses, block_interrupts

_IN_FLIGHT = 3  # images a helper: enough to keep it busy, few enough to bound the memory
_LEAST_IN_FLIGHT = 32  # what helpers get through while the writer ends one of LMDB's transactions


class WriteShard(Work):
    """Makes and commits shards, each by one thread, which hands nothing to other threads.

    That is as fast as a process a shard, and faster than one shard at a time with a pool for its
    images. The pool is for the rest: few shards, the
    last of which would leave threads without work.
    """

    def __init__(self, spec: TaskSpec, parallelism: Parallelism, failures: FailureLog) -> None:
        self._spec = spec
        self._parallelism = parallelism
        self._failures = failures

    def setup(self) -> None:
        """Read the job, and start who helps with its images."""
        self._job: Job = self._spec.read()
        self._turns = Semaphore(self._parallelism.shards)
        self._pool: Executor | None = None
        helpers = self._parallelism.helpers
        if helpers and self._parallelism.helper_processes:
            self._pool = HelperProcesses(helpers)
        elif helpers:
            self._pool = ThreadPoolExecutor(helpers, thread_name_prefix="image")

    def process(self, shards: Iterable[ShardName]) -> None:
        """Make shards: each thread takes the next one that nobody else has."""
        threads = self._parallelism.shards + self._parallelism.committed
        if threads == 1:
            self._write_all(shards)
            return
        with ThreadPoolExecutor(threads, "shard", initializer=block_interrupts) as pool:
            ends = [pool.submit(self._write_all, shards) for _ in range(threads)]
        for end in ends:
            end.result()

    def teardown(self) -> None:
        """End the helpers."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _write_all(self, shards: Iterable[ShardName]) -> None:
        for shard in shards:
            made: bool | None = None
            with self._failures.recorded(shard):
                made = self._write(self._job, shard)
            lease = self._job.lease
            if not made and lease.lost() and not lease.over() and not STOP.is_set():
                # It may only have been suspended. What is not made must not look as if it were.
                raise QuietLauncherError(f"no sign of life of the launcher; {shard} was not made")
            if made is None:
                # A machine that fails at once would take shards from those that work.
                STOP.wait(self._parallelism.pause)

    def _write(self, job: Job, shard: ShardName) -> bool:
        """Make a shard that nobody has made; False: this process was told to stop."""
        try:
            if self._stopped() or self._failures.occurred():
                return False
            # An engine that loses a worker may have all done again that the worker had done.
            if finished_shard(job.workspace, shard) is None:
                window = max(self._parallelism.helpers * _IN_FLIGHT, _LEAST_IN_FLIGHT)
                write_shard(
                    *(job, shard, self._turns), pool=self._pool, window=window, stop=self._stopped
                )
        except ShardStoppedError:
            return False
        except BrokenExecutor as error:
            raise worker_died(str(error)) from error
        except OSError as error:
            raise storage_error(error, job.workspace.out, f"writing {shard}") from error
        return True

    def _stopped(self) -> bool:
        return STOP.is_set() or self._job.lease.lost()
