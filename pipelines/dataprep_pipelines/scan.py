"""The scan as a Beam graph: one element a directory or archive."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import apache_beam as beam

from dataprep.assembly.index_parts import scan_into
from dataprep.sources import Dataset, ScanUnit
from dataprep_pipelines.engine import STOP
from dataprep_pipelines.failures import FailureLog


class _Scan(beam.DoFn):  # type: ignore[misc]  # Beam ships no types
    def __init__(self, dataset: Dataset, raw: Path, directory: Path, failures: FailureLog) -> None:
        self._dataset = dataset
        self._raw = raw
        self._directory = directory
        self._failures = failures

    def process(self, unit: ScanUnit) -> None:
        if STOP.is_set() or self._failures.occurred():
            return
        with self._failures.recorded():
            scan_into(self._directory, self._dataset, self._raw, unit)


class ScanUnits(beam.PTransform):  # type: ignore[misc]  # Beam ships no types
    """Scans every unit into its part of the index; rows never cross Beam's data plane."""

    def __init__(
        self,
        dataset: Dataset,
        raw: Path,
        directory: Path,
        units: Sequence[ScanUnit],
        failures: FailureLog,
    ) -> None:
        super().__init__()
        self._units = list(units)
        self._scan = _Scan(dataset, raw, directory, failures)

    def expand(self, pbegin: beam.pvalue.PBegin) -> beam.PCollection:
        """One element a unit."""
        return pbegin | "Units" >> beam.Create(self._units) | "Scan" >> beam.ParDo(self._scan)
