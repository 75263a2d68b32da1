"""The one Beam transform: workers do with elements what they were given to do.

In a file of its own, since whoever imports it, or is sent one, waits for Beam.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam

from dataprep_pipelines.tasks import Work


class Do(beam.DoFn):  # type: ignore[misc]  # Beam ships no types
    """`Work` as Beam wants it. Neither rows nor the bytes of images cross Beam's data plane.

    Args:
        work: what is done with units to scan, or with the names of shards to write.
    """

    def __init__(self, work: Work) -> None:
        self._work = work

    def setup(self) -> None:
        """Once a process."""
        self._work.setup()

    def process(self, elements: Iterable[Any]) -> None:
        """Take elements from a queue, or one."""
        self._work.process(elements)

    def teardown(self) -> None:
        """At the end."""
        self._work.teardown()
