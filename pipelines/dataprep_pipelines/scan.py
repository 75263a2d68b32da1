"""The scan as a Beam graph: one element a directory or archive."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, Executor
from dataclasses import dataclass
from pathlib import Path

import apache_beam as beam

from dataprep.build.index_parts import scan_into
from dataprep.datasets import Dataset, ScanUnit
from dataprep_pipelines.failures import FailureLog
from dataprep_pipelines.lanes import Lanes
from dataprep_pipelines.orders import Orders
from dataprep_pipelines.processes import helper_processes
from dataprep_pipelines.runners import STOP, worker_died

# A process takes about a second to start. Most scans are over before that would pay.
_PATIENCE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Scan:
    """What is scanned: the data set, where it is, and where its index goes."""

    dataset: Dataset
    raw: Path
    directory: Path

    def unit(self, unit: ScanUnit) -> None:
        """Scan one directory or archive into its part of the index."""
        scan_into(self.directory, self.dataset, self.raw, unit)


class _Scan(beam.DoFn):  # type: ignore[misc]  # Beam ships no types
    """Scans units one by one, and in processes once it is clear that it will take long.

    Args:
        orders: where the `Scan` is.
        failures: where an error is written down.
        helpers: how many processes may help; 1 or less: none.
    """

    def __init__(self, orders: Orders, failures: FailureLog, helpers: int) -> None:
        self._orders = orders
        self._failures = failures
        self._helpers = helpers

    def setup(self) -> None:
        self._job: Scan = self._orders.read()
        self._began = time.monotonic()
        self._lanes: Lanes | None = None
        self._pool: Executor | None = None

    def process(self, unit: ScanUnit) -> None:
        takes_long = time.monotonic() - self._began > _PATIENCE_SECONDS
        if self._lanes is None and takes_long and self._helpers > 1:
            self._lanes = Lanes(self._helpers, "scan")
            self._pool = helper_processes(self._helpers)
        if self._lanes is None:
            self._scan(unit)
        else:
            self._lanes.submit(self._scan, unit)

    def finish_bundle(self) -> None:
        if self._lanes is not None:
            self._lanes.drain()

    def teardown(self) -> None:
        if self._lanes is not None:
            self._lanes.close()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _scan(self, unit: ScanUnit) -> None:
        job = self._job
        if STOP.is_set() or self._orders.lease.lost() or self._failures.occurred():
            return
        with self._failures.recorded():
            if self._pool is None:
                job.unit(unit)
                return
            try:
                self._pool.submit(job.unit, unit).result()
            except BrokenExecutor as error:
                raise worker_died(str(error)) from error


class ScanUnits(beam.PTransform):  # type: ignore[misc]  # Beam ships no types
    """Scans every unit into its part of the index; rows never cross Beam's data plane.

    Args:
        orders: where the `Scan` is.
        units: what to scan.
        helpers: how many processes a worker may start for it.
        failures: where errors are written down.
    """

    def __init__(
        self, orders: Orders, units: Sequence[ScanUnit], helpers: int, failures: FailureLog
    ) -> None:
        super().__init__()
        self._units = list(units)
        self._scan = _Scan(orders, failures, helpers)

    def expand(self, pbegin: beam.pvalue.PBegin) -> beam.PCollection:
        """One element a unit."""
        return pbegin | "Units" >> beam.Create(self._units) | "Scan" >> beam.ParDo(self._scan)
