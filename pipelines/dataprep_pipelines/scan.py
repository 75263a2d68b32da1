"""Scanning what is not indexed yet, or has changed since: one element a directory or archive."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from dataprep.datasets import ScanUnit
from dataprep.jobs.output.index_parts import Scan, scan_into
from dataprep_pipelines.failures import FailureLog
from dataprep_pipelines.runners import STOP
from dataprep_pipelines.tasks import TaskSpec, Work

_ALONE_SECONDS = 0.5
_WORTH_SECONDS = 1.5  # of work: to start processes takes half a second
_SMALL = 16 << 20  # bytes of an archive or a list that is scanned in a fraction of a second


def scan_at_once(
    scan: Scan, units: Sequence[ScanUnit], watch: Callable[[], None]
) -> list[ScanUnit]:
    """Scan directories and small files here and now: most scans are over in a moment.

    Returns:
        The units that are left, if it turned out that they would take long.

    Raises:
        DataprepError: one of them cannot be scanned.
    """
    started = time.monotonic()
    left: list[ScanUnit] = []
    for number, unit in enumerate(units):
        elapsed = time.monotonic() - started
        more = elapsed / max(number, 1) * (len(units) - number)
        if elapsed > _ALONE_SECONDS and more > _WORTH_SECONDS:
            return [*left, *units[number:]]
        if _is_large(scan.raw / unit.container):
            left.append(unit)
        else:
            scan_into(scan, unit)
            watch()
    return left


def _is_large(container: Path) -> bool:
    try:
        return container.is_file() and container.stat().st_size > _SMALL
    except OSError:
        return False  # the scan says what is wrong with it


class ScanIntoIndex(Work):
    """Scans units into their parts of the index, unless the run has failed or ended."""

    def __init__(self, spec: TaskSpec, failures: FailureLog) -> None:
        self._spec = spec
        self._failures = failures

    def setup(self) -> None:
        """Read what is scanned."""
        self._scan: Scan = self._spec.read()

    def process(self, units: Iterable[ScanUnit]) -> None:
        """Scan directories, archives or lists."""
        failures = self._failures
        for unit in units:
            with failures.recorded():
                if STOP.is_set() or failures.lease.lost() or failures.occurred():
                    return
                scan_into(self._scan, unit)
