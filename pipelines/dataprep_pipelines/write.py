"""Writing as a Beam graph: one element a shard number. Image bytes never cross the data plane."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, Executor, ThreadPoolExecutor

import apache_beam as beam

from dataprep.build.commit import Commits, is_intact
from dataprep.build.job import Job
from dataprep.build.shard import ShardStoppedError, write_shard
from dataprep.sinks import ShardName
from dataprep.system.durable_files import storage_error
from dataprep_pipelines.dealer import Dealer
from dataprep_pipelines.failing import FAILING
from dataprep_pipelines.failures import FailureLog
from dataprep_pipelines.lanes import Lanes
from dataprep_pipelines.orders import Orders
from dataprep_pipelines.processes import helper_processes
from dataprep_pipelines.runners import STOP, QuietLauncherError, Share, worker_died

_IN_FLIGHT = 3  # images a helper: enough to keep it busy, few enough to bound the memory
_LEAST_IN_FLIGHT = 32  # what helpers get through while the writer ends one of LMDB's transactions


class _Write(beam.DoFn):  # type: ignore[misc]  # Beam ships no types
    """Writes shards in lanes: a thread a shard, which hands nothing to other threads.

    Measured (docs/performance.md) as fast as a process a shard, and up to half as fast again as
    one shard at a time with a pool for its images. The pool is for the rest: few shards, the
    last of which would leave threads without work.

    Args:
        orders: where the `Job` is.
        share: how this process works.
        failures: where an error is written down.
    """

    def __init__(self, orders: Orders, share: Share, failures: FailureLog) -> None:
        self._orders = orders
        self._share = share
        self._failures = failures

    def setup(self) -> None:
        self._job: Job = self._orders.read()
        self._lanes = Lanes(self._share.lanes, "shard")
        self._pool: Executor | None = None
        if self._share.helpers and self._share.helper_processes:
            self._pool = helper_processes(self._share.helpers)
        elif self._share.helpers:
            self._pool = ThreadPoolExecutor(self._share.helpers, thread_name_prefix="image")

    def process(self, element: ShardName | Dealer) -> None:
        if isinstance(element, Dealer):
            for shard in element.deal(when=self._lanes.await_free):
                self._lanes.submit(self._write, shard)
        else:
            self._lanes.submit(self._write, element)

    def finish_bundle(self) -> None:
        self._lanes.drain()

    def teardown(self) -> None:
        self._lanes.close()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _write(self, shard: ShardName) -> None:
        made: bool | None = None
        with self._failures.recorded(shard):
            made = self._make(self._job, shard)
        lease = self._job.lease
        if made:
            FAILING.succeeded()
        elif lease.lost() and not lease.over() and not STOP.is_set():
            # It may only have been suspended. What is not made must not look as if it were.
            raise QuietLauncherError(f"no sign of life of the launcher; {shard} was not made")
        elif made is None:
            FAILING.failed(lease.failure, self._share.pause, self._stopped)

    def _make(self, job: Job, shard: ShardName) -> bool:
        """Make a shard that nobody has made; False: this process was told to stop."""
        try:
            if self._stopped() or self._failures.occurred():
                return False
            if is_done(job, shard):
                return True
            window = max(self._share.helpers * _IN_FLIGHT, _LEAST_IN_FLIGHT)
            write_shard(job, shard, pool=self._pool, window=window, stop=self._stopped)
        except ShardStoppedError:
            return False
        except BrokenExecutor as error:
            raise worker_died(str(error)) from error
        except OSError as error:
            raise storage_error(error, job.workspace.out, f"writing {shard}") from error
        return True

    def _stopped(self) -> bool:
        return STOP.is_set() or self._job.lease.lost()


def is_done(job: Job, shard: ShardName) -> bool:
    """Whether somebody has made the shard meanwhile.

    An engine that loses a worker may have all done again that the worker had done.
    """
    record = Commits(job.workspace).of(shard)
    return record is not None and is_intact(record, job.workspace.out)


class WriteShards(beam.PTransform):  # type: ignore[misc]  # Beam ships no types
    """Makes and commits every shard it is given.

    Args:
        orders: where the `Job` is.
        shards: which of its shards; or a dealer of them for every process.
        share: how each worker process works.
        failures: where errors are written down.
    """

    def __init__(
        self,
        orders: Orders,
        shards: Sequence[ShardName] | Sequence[Dealer],
        share: Share,
        failures: FailureLog,
    ) -> None:
        super().__init__()
        self._shards = list(shards)
        self._write = _Write(orders, share, failures)

    def expand(self, pbegin: beam.pvalue.PBegin) -> beam.PCollection:
        """One element a shard, or a process."""
        return pbegin | "Shards" >> beam.Create(self._shards) | "Write" >> beam.ParDo(self._write)
