"""Scanning what is not indexed yet, or has changed since: one element a directory or archive."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import BrokenExecutor, Future
from dataclasses import dataclass
from pathlib import Path

import apache_beam as beam

from dataprep.datasets import Dataset, ScanUnit
from dataprep.jobs.index_parts import scan_into
from dataprep_pipelines.failures import FailureLog, worker_died
from dataprep_pipelines.runners import STOP
from dataprep_pipelines.tasks import TaskSpec
from dataprep_pipelines.worker import HelperProcesses

# A process takes about a second to start. Most scans are over before that would pay.
_ALONE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Scan:
    """What is scanned: the data set, where it is, and where its index goes."""

    dataset: Dataset
    raw: Path
    directory: Path


def _scan(scan: Scan, failures: FailureLog, unit: ScanUnit) -> None:
    """Scan one unit into its part of the index, unless the run has failed or ended."""
    with failures.recorded():
        if not (STOP.is_set() or failures.lease.lost() or failures.occurred()):
            scan_into(scan.directory, scan.dataset, scan.raw, unit)


class ScanIntoIndex(beam.DoFn):  # type: ignore[misc]  # Beam ships no types
    """Scans units into their parts of the index; rows never cross Beam's data plane.

    One by one, and in processes once it is clear that it will take long.

    Args:
        processes: how many may help; 1 or less: none.
    """

    def __init__(self, spec: TaskSpec, processes: int, failures: FailureLog) -> None:
        self._spec = spec
        self._failures = failures
        self._processes = processes

    def process(self, units: Iterable[ScanUnit]) -> None:
        """Scan directories, archives or lists, here or in other processes."""
        scan: Scan = self._spec.read()
        alone_until = time.monotonic() + _ALONE_SECONDS
        pool: HelperProcesses | None = None
        ends: list[Future[None]] = []
        try:
            for unit in units:
                if self._processes < 2 or time.monotonic() < alone_until:
                    _scan(scan, self._failures, unit)
                    continue
                if pool is None:
                    pool = HelperProcesses(self._processes)
                ends.append(pool.submit(_scan, scan, self._failures, unit))
            for end in ends:
                end.result()
        except BrokenExecutor as error:
            with self._failures.recorded():
                raise worker_died(str(error)) from error
        finally:
            if pool is not None:
                pool.shutdown(cancel_futures=True)
