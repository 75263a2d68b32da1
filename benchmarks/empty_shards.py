"""Shards that are done at once: what is left of a run is the engine."""

from __future__ import annotations

from collections.abc import Sequence

import apache_beam as beam

from dataprep.sinks import ShardName
from dataprep_pipelines.failures import FailureLog
from dataprep_pipelines.runners import Parallelism
from dataprep_pipelines.tasks import TaskSpec


class DoNothing(beam.DoFn):  # type: ignore[misc]  # Beam ships no types
    """Takes along what `dataprep_pipelines.write` does, and does nothing with it."""

    def __init__(self, spec: TaskSpec, parallelism: Parallelism, failures: FailureLog) -> None:
        self._given = spec, parallelism, failures

    def process(self, shards: Sequence[ShardName]) -> Sequence[ShardName]:  # noqa: ARG002  # Beam's
        """Make nothing of it."""
        return ()
