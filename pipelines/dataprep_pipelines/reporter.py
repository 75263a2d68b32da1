"""Who is told what a run does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dataprep.build.commit import CommitRecord
from dataprep.build.job import Job


class Reporter(Protocol):
    """Where the run says what it does."""

    def line(self, text: str) -> None:
        """Something worth a line."""

    def scanning(self, done: int, total: int) -> None:
        """How many directories and archives have been indexed."""

    def writing(self, job: Job, committed: Sequence[CommitRecord]) -> None:
        """A new phase: these shards of the job are already there."""

    def progress(self, new: Sequence[CommitRecord], under_way: int) -> None:
        """Shards that were committed since the last call; called often, mostly with none.

        ``under_way`` is the number of images in shards that are not committed yet.
        """

    def finished(self) -> None:
        """The phase is over, one way or another."""
