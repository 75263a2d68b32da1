"""Writing as a Beam graph: one element a shard number. Image bytes never cross the data plane."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, Executor, ThreadPoolExecutor

import apache_beam as beam

from dataprep.assembly.job import Job
from dataprep.assembly.shard import ShardStoppedError, write_shard
from dataprep.sinks import ShardName
from dataprep_pipelines.engine import STOP, Engine, worker_died
from dataprep_pipelines.failures import FailureLog
from dataprep_pipelines.lanes import Lanes
from dataprep_pipelines.processes import helper_processes

_IN_FLIGHT = 3  # images a helper: enough to keep it busy, few enough to bound the memory
_LEAST_IN_FLIGHT = 32  # what helpers get through while the writer ends one of LMDB's transactions
_FEW = 4  # shards a thread: with fewer, the last ones leave cores idle for long


class _Write(beam.DoFn):  # type: ignore[misc]  # Beam ships no types
    """Writes shards in lanes: a thread a shard, which hands nothing to other threads.

    Measured (docs/performance.md) as fast as a process a shard, and up to half as fast again as
    one shard at a time with a pool for its images. The pool is for the rest: few shards, the
    last of which would leave threads without work.

    Args:
        job: what to build.
        lanes: shards written at the same time.
        helpers: threads or processes that only convert images; 0 for none.
        processes: whether the helpers are processes.
        failures: where an error is written down.
    """

    def __init__(
        self, job: Job, *, lanes: int, helpers: int, processes: bool, failures: FailureLog
    ) -> None:
        self._job = job
        self._lane_count = lanes
        self._helpers = helpers
        self._processes = processes
        self._failures = failures

    def setup(self) -> None:
        self._lanes = Lanes(self._lane_count, "shard")
        self._pool: Executor | None = None
        if self._helpers and self._processes:
            self._pool = helper_processes(self._helpers)
        elif self._helpers:
            self._pool = ThreadPoolExecutor(self._helpers, thread_name_prefix="image")

    def process(self, shard: ShardName) -> None:
        self._lanes.submit(self._write, shard)

    def finish_bundle(self) -> None:
        self._lanes.drain()

    def teardown(self) -> None:
        self._lanes.close()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _write(self, shard: ShardName) -> None:
        if self._stopped() or self._failures.occurred():
            return
        window = max(self._helpers * _IN_FLIGHT, _LEAST_IN_FLIGHT)
        with self._failures.recorded():
            try:
                write_shard(self._job, shard, pool=self._pool, window=window, stop=self._stopped)
            except ShardStoppedError:
                return
            except BrokenExecutor as error:
                raise worker_died(str(error)) from error

    def _stopped(self) -> bool:
        return STOP.is_set() or self._job.lease.lost()


class WriteShards(beam.PTransform):  # type: ignore[misc]  # Beam ships no types
    """Makes and commits every shard it is given."""

    def __init__(
        self,
        job: Job,
        shards: Sequence[ShardName],
        *,
        engine: Engine,
        failures: FailureLog,
        help_with_images: bool = False,
    ) -> None:
        super().__init__()
        self._shards = list(shards)
        if help_with_images:
            lanes, helpers = len(self._shards), engine.workers
        else:
            share = math.ceil(len(self._shards) / engine.processes)
            lanes = min(engine.threads, share)
            few = engine.threads > 1 and share < _FEW * engine.threads
            helpers = engine.threads if few and job.works_on_images else 0
        self._write = _Write(
            job, lanes=lanes, helpers=helpers, processes=help_with_images, failures=failures
        )

    def expand(self, pbegin: beam.pvalue.PBegin) -> beam.PCollection:
        """One element a shard."""
        return pbegin | "Shards" >> beam.Create(self._shards) | "Write" >> beam.ParDo(self._write)
