"""Writing as a Beam graph: one element a shard number. Image bytes never cross the data plane."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import apache_beam as beam

from dataprep.assembly.job import Job
from dataprep.assembly.shard import ShardStoppedError, write_shard
from dataprep.sinks import ShardName
from dataprep_pipelines.engine import STOP
from dataprep_pipelines.failures import FailureLog

_IN_FLIGHT = 3  # images a thread: enough to keep it busy, few enough to bound the memory
_LANES = 2  # shards at the same time, so that threads have work while a shard is flushed


class _Write(beam.DoFn):  # type: ignore[misc]  # Beam ships no types
    """Writes shards in lanes that share one pool of image threads."""

    def __init__(self, job: Job, threads: int, failures: FailureLog) -> None:
        self._job = job
        self._threads = threads
        self._failures = failures

    def setup(self) -> None:
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="image")
        self._lanes = ThreadPoolExecutor(_LANES, thread_name_prefix="shard")

    def start_bundle(self) -> None:
        self._busy: list[Future[None]] = []

    def process(self, shard: ShardName) -> None:
        while len(self._busy) >= _LANES:
            self._busy.pop(0).result()
        self._busy.append(self._lanes.submit(self._write, shard))

    def finish_bundle(self) -> None:
        for lane in self._busy:
            lane.result()

    def teardown(self) -> None:
        self._lanes.shutdown()
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


class WriteShards(beam.PTransform):  # type: ignore[misc]  # Beam ships no types
    """Makes and commits every shard it is given."""

    def __init__(
        self, job: Job, shards: Sequence[ShardName], *, threads: int, failures: FailureLog
    ) -> None:
        super().__init__()
        self._shards = list(shards)
        self._write = _Write(job, threads, failures)

    def expand(self, pbegin: beam.pvalue.PBegin) -> beam.PCollection:
        """One element a shard."""
        return pbegin | "Shards" >> beam.Create(self._shards) | "Write" >> beam.ParDo(self._write)
