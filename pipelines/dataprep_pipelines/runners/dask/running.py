"""A Dask cluster that runs graphs: how many workers it has, and whether any is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from distributed import Client

from dataprep.errors import PipelineError
from dataprep.system.messages import counted
from dataprep_pipelines.runners.dask.runner import ShardRunner, workers_of
from dataprep_pipelines.runners.running import Running
from dataprep_pipelines.runners.share import Share

if TYPE_CHECKING:
    import apache_beam as beam

_LOOK_SECONDS = 5.0  # between two looks at how many workers there are
_ANNOUNCE_SECONDS = 30.0  # between two lines about it
_PAUSE_SECONDS = 2.0
_LOOKS_A_SECOND = 50.0  # of all workers together, each of a few requests to the file system
_LONGEST_LOOK = 60.0


class DaskRunning(Running):
    """A Dask cluster with at least one worker.

    Args:
        client: connected to it.
        patience: seconds without any worker before the run gives up.
        expecting: whether somebody will bring workers, however long it takes; may raise.
        report: told how many workers there are, when they are gone, and back.
        refusals: why some workers cannot work for this run, by their addresses; told already.
    """

    def __init__(
        self,
        client: Client,
        patience: float,
        expecting: Callable[[], bool],
        report: Callable[[str], None],
        refusals: Mapping[str, str],
    ) -> None:
        self._client = client
        self._expecting = expecting
        self._patience = patience
        self._report = report
        self._runner = ShardRunner(client)
        self._runner.refusals.update(refusals)
        self._next_look = 0.0
        self._alone_since: float | None = None
        self._told = set(refusals)
        self._announced = self._able()
        self._announced_at = time.monotonic()
        report(f"{_census(self._announced)}, at {client.scheduler.address}")

    @property
    def look_seconds(self) -> float:
        """Rarer where workers are many: a metadata server should not pay for them."""
        return min(max(len(self._able()) / _LOOKS_A_SECOND, 2.0), _LONGEST_LOOK)

    def share(self, shards: int, *, images: int) -> Share:
        """One shard a thread of a worker; where threads are left over, they help."""
        threads = list(self._able().values())
        few = bool(images) and shards < sum(threads)
        return Share(helpers=max(threads, default=1) if few else 0, pause=_PAUSE_SECONDS)

    def at_once(self, share: Share) -> int:
        """A shard a thread."""
        return max(sum(self._able().values()) * share.lanes, 1)

    def scan_helpers(self) -> int:
        """None: Dask's workers may not have children."""
        return 0

    def pipeline(self, share: Share) -> beam.Pipeline:  # noqa: ARG002  # for our own processes
        """One whose elements become tasks of the cluster."""
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions

        return beam.Pipeline(runner=self._runner, options=PipelineOptions([]))

    def cancel(self) -> None:
        """Take back the tasks that no worker has begun."""
        with suppress(Exception):  # whatever a lost cluster says to that
            self._runner.cancel()

    def attend(self) -> None:
        """Notice who came later and cannot work for this run, and that no other worker is left.

        Raises:
            PipelineError: for longer than the user wants to wait.
        """
        refusals = dict(self._runner.refusals)
        for worker in refusals.keys() - self._told:
            self._told.add(worker)
            self._report(of_no_use(worker, refusals[worker]))
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_SECONDS
        expecting = self._expecting()
        if able := self._able():
            if self._alone_since is not None:
                self._report("workers are back")
            self._alone_since = None
            self._announce(able, now)
        elif self._alone_since is None:
            self._alone_since = now
            patience = "" if expecting else f" {self._patience:.0f} s"
            self._report(f"no worker is left; waiting{patience} for another")
        elif expecting:
            self._alone_since = now
        elif now - self._alone_since > self._patience:
            raise PipelineError(
                f"no worker was left for {self._patience:.0f} s; finished shards are kept: start "
                "workers and run the same command again to resume"
            )

    def _able(self) -> dict[str, int]:
        """Threads by worker: of those that can work for this run, as far as is known."""
        refused = self._runner.refusals
        return {
            worker: n for worker, n in workers_of(self._client).items() if worker not in refused
        }

    def _announce(self, able: Mapping[str, int], now: float) -> None:
        if able != self._announced and now - self._announced_at >= _ANNOUNCE_SECONDS:
            if _census(able) != _census(self._announced):
                self._report(_census(able))
            self._announced, self._announced_at = dict(able), now


def of_no_use(worker: str, why: str) -> str:
    """What to say of a worker that cannot work for this run."""
    return f"{worker} is of no use, others go on: {why}"


def _census(threads: Mapping[str, int]) -> str:
    workers, total = counted(len(threads), "worker"), counted(sum(threads.values()), "thread")
    return f"Dask: {workers}, {total}"
