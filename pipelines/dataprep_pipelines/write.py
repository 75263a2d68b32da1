"""Writing as a Beam graph: one element a shard number. Image bytes never cross the data plane."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import apache_beam as beam

from dataprep.assembly.job import Job
from dataprep.assembly.shard import ShardStoppedError, write_shard
from dataprep.sinks import ShardName
from dataprep_pipelines.engine import STOP, Engine
from dataprep_pipelines.failures import FailureLog

_IN_FLIGHT = 3  # images a thread: enough to keep it busy, few enough to bound the memory


class _Write(beam.DoFn):  # type: ignore[misc]  # Beam ships no types
    """Writes shards in lanes: a thread a shard, which hands nothing to other threads.

    Measured (docs/performance.md) as fast as a process a shard, and up to half as fast again as
    one shard at a time with a pool of threads for its images. The pool is for the rest: fewer
    shards than threads.
    """

    def __init__(self, job: Job, *, lanes: int, threads: int, failures: FailureLog) -> None:
        self._job = job
        self._lane_count = lanes
        self._threads = threads
        self._failures = failures

    def setup(self) -> None:
        self._lanes = ThreadPoolExecutor(self._lane_count, thread_name_prefix="shard")
        self._pool = (
            ThreadPoolExecutor(self._threads, thread_name_prefix="image")
            if self._lane_count < self._threads
            else None
        )

    def start_bundle(self) -> None:
        self._busy: set[Future[None]] = set()

    def process(self, shard: ShardName) -> None:
        while len(self._busy) >= self._lane_count:
            done, self._busy = wait(self._busy, return_when=FIRST_COMPLETED)
            _raise_any(done)
        self._busy.add(self._lanes.submit(self._write, shard))

    def finish_bundle(self) -> None:
        done, self._busy = wait(self._busy)
        _raise_any(done)

    def teardown(self) -> None:
        self._lanes.shutdown()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _write(self, shard: ShardName) -> None:
        if self._stopped() or self._failures.occurred():
            return
        window = self._threads * _IN_FLIGHT
        with self._failures.recorded():
            try:
                write_shard(self._job, shard, pool=self._pool, window=window, stop=self._stopped)
            except ShardStoppedError:
                return

    def _stopped(self) -> bool:
        return STOP.is_set() or self._job.lease.lost()


def _raise_any(done: set[Future[None]]) -> None:
    for future in done:
        future.result()


class WriteShards(beam.PTransform):  # type: ignore[misc]  # Beam ships no types
    """Makes and commits every shard it is given."""

    def __init__(
        self, job: Job, shards: Sequence[ShardName], *, engine: Engine, failures: FailureLog
    ) -> None:
        super().__init__()
        self._shards = list(shards)
        share = math.ceil(len(self._shards) / engine.processes)
        lanes = min(engine.threads, share)
        self._write = _Write(job, lanes=lanes, threads=engine.threads, failures=failures)

    def expand(self, pbegin: beam.pvalue.PBegin) -> beam.PCollection:
        """One element a shard."""
        return pbegin | "Shards" >> beam.Create(self._shards) | "Write" >> beam.ParDo(self._write)
