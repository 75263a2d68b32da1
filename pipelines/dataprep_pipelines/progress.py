"""What the launcher sees of a run, from the file system alone, and who is told.

Counts come from commit records and never from Beam's metrics, so they are the same on every engine.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from dataprep.jobs.commit import images_under_way, read_records
from dataprep.jobs.engine import Reporter
from dataprep.jobs.job import Job
from dataprep_pipelines.failures import FailureLog

_NAMED = 5  # failures of a round that get a line; the last error tells how many more there are
_LOOKING = 0.05  # of the time: a metadata server should not pay for a progress bar


class RoundWatch:
    """A round of writing shards, as the launcher sees it.

    Args:
        most_failed: how many shards may fail, if more fail than are made.

    Attributes:
        made: how many shards were made so far.
    """

    def __init__(
        self, job: Job, failures: FailureLog, reporter: Reporter, most_failed: float
    ) -> None:
        self._workspace = job.workspace
        self._failures = failures
        self._reporter = reporter
        self._most_failed = most_failed
        self._named: set[str] = set()
        before = read_records(job.workspace)
        self._known = {str(record.shard) for record in before}
        self.made = 0
        reporter.writing(job, before)

    def count(self) -> None:
        """Show what was made."""
        new = read_records(self._workspace, self._known)
        self._known |= {str(record.shard) for record in new}
        self.made += len(new)
        self._reporter.progress(new, images_under_way(self._workspace))

    def look(self) -> None:
        """Show what was made, and what failed.

        Raises:
            DataprepError: nearly everything fails.
        """
        failed = self._failures.of_shards()  # first: what is made meanwhile must not be missed
        self.count()
        for shard in sorted(failed.keys() - self._named)[: _NAMED - len(self._named)]:
            self._named.add(shard)
            self._reporter.line(f"{shard} failed, others go on: {failed[shard]}")
        if len(failed) >= self._most_failed and len(failed) > self.made:
            shard, error = next(iter(failed.items()))
            raise type(error)(
                f"stopped, since more shards fail than are made ({len(failed)} and {self.made}); "
                f"{shard}: {error}"
            ) from error


class Paced:
    """Calls a function, but not so often that it takes more than a twentieth of the time.

    Listing a million commit records takes seconds.
    """

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self._next = 0.0

    def __call__(self) -> None:
        """Look, if it is time to."""
        began = time.monotonic()
        if began >= self._next:
            self._look()
            ended = time.monotonic()
            self._next = ended + (ended - began) / _LOOKING
