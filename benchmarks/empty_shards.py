"""Shards that are done at once: what is left of a run is the engine."""

from __future__ import annotations

from collections.abc import Sequence

import apache_beam as beam
from dataprep_pipelines.orders import Orders

from dataprep.sinks import ShardName
from dataprep_pipelines.failures import FailureLog
from dataprep_pipelines.runners import Share


class _DoNothing(beam.DoFn):  # type: ignore[misc]  # Beam ships no types
    """Takes along what `dataprep_pipelines.write` does, and does nothing with it."""

    def __init__(self, orders: Orders, share: Share, failures: FailureLog) -> None:
        self._given = orders, share, failures

    def process(self, shard: ShardName) -> Sequence[ShardName]:  # noqa: ARG002  # Beam's signature
        return ()


class EmptyShards(beam.PTransform):  # type: ignore[misc]  # Beam ships no types
    """A graph like that of a run, of elements that take no time.

    Args:
        shards: one element each.
        orders: as a run's.
        share: as a run's.
        failures: as a run's.
    """

    def __init__(
        self, shards: Sequence[ShardName], orders: Orders, share: Share, failures: FailureLog
    ) -> None:
        super().__init__()
        self._shards = shards
        self._function = _DoNothing(orders, share, failures)

    def expand(self, pbegin: beam.pvalue.PBegin) -> beam.PCollection:
        """One element a shard."""
        return pbegin | beam.Create(self._shards) | beam.ParDo(self._function)
