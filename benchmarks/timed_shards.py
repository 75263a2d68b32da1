"""Shards that take a stated time on workers of stated speeds: what an engine hands to whom."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import apache_beam as beam

SPEED = "DATAPREP_BENCHMARK_SPEED"
"""A variable of each worker."""


def wait(number: int, seconds: float, notes: Path) -> None:
    """Take so long, and note who did.

    Args:
        number: of the shard.
        seconds: on a worker of speed 1.
        notes: a directory: a file a shard, with process, start and end (seconds since 1970).
    """
    start = time.time()
    time.sleep(seconds / float(os.environ[SPEED]))
    (notes / str(number)).write_text(f"{os.getpid()} {start} {time.time()}")


class TimedShards(beam.DoFn):  # type: ignore[misc]  # Beam ships no types
    """Makes shards that only `wait`.

    Args:
        seconds: for each, on a worker of speed 1.
        notes: where they note it.
    """

    def __init__(self, seconds: float, notes: Path) -> None:
        self._seconds = seconds
        self._notes = notes

    def process(self, numbers: Sequence[int]) -> Sequence[int]:
        """Wait for each shard."""
        for number in numbers:
            wait(number, self._seconds, self._notes)
        return ()
