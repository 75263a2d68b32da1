"""Putting very many images in order: one element a part of a step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dataprep_pipelines.failures import FailureLog
from dataprep_pipelines.runners import STOP
from dataprep_pipelines.tasks import TaskSpec, Work

if TYPE_CHECKING:
    from dataprep.tables.order_parts import Sort


class SortPart(Work):
    """Does parts of a step of `dataprep.tables.order_parts`, unless the run has failed or ended."""

    def __init__(self, spec: TaskSpec, failures: FailureLog) -> None:
        self._spec = spec
        self._failures = failures

    def setup(self) -> None:
        """Read which step it is."""
        self._sort: Sort = self._spec.read()

    def process(self, parts: Iterable[int]) -> None:
        """Do them, in a process that loads Arrow for that alone."""
        from dataprep.tables.order_parts import make_part

        failures = self._failures
        for part in parts:
            with failures.recorded():
                if STOP.is_set() or failures.lease.lost() or failures.occurred():
                    return
                make_part(self._sort, part)
