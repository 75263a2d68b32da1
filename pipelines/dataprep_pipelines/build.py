"""Making what is missing of a job, whatever it is made from: resume, write, watch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from dataprep.assembly.commit import CommitRecord, Commits, is_intact
from dataprep.assembly.job import Job
from dataprep.assembly.output_layout import lay_out
from dataprep.assembly.progress import ProgressWatch, forget_progress
from dataprep.assembly.space import check_free_space
from dataprep.sinks import ShardName
from dataprep.striping.rules import Striping
from dataprep.wording import counted
from dataprep_pipelines import engine as engines
from dataprep_pipelines.engine import Engine
from dataprep_pipelines.failures import FailureLog


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


def build(
    job: Job, engine: Engine, failures: FailureLog, reporter: Reporter, striping: Striping
) -> None:
    """Make and commit every shard of the job that is not there yet.

    Args:
        job: what to build.
        engine: where.
        failures: where its workers tell what went wrong.
        reporter: who is told.
        striping: how the files are to be laid out; no part of the job, whose bytes are the same.

    Raises:
        DataprepError: any of its kinds; everything committed so far is kept.
    """
    commits = Commits(job.workspace)
    intact = [record for record in commits.refresh() if is_intact(record, job.workspace.out)]
    done = {record.shard for record in intact}
    pending = [shard for shard in job.shard_names() if shard not in done]
    if not pending:
        reporter.line(f"{counted(len(done), 'shard')} already there, nothing to write")
        return
    if done:
        reporter.line(
            f"resuming: {counted(len(done), 'shard')} already there, {len(pending)} to make"
        )
    _forget(job, pending)
    forget_progress(job.workspace)
    check_free_space(job, pending, at_once=engine.workers)
    lay_out(job, pending, striping, reporter.line)

    from dataprep_pipelines.write import WriteShards

    # A shard is written by one process. If there are as few of them as processes, the last would
    # be written by one process alone; so all help with the images of all.
    few = job.works_on_images and engine.processes > 1 and len(pending) <= engine.processes
    commits, notes = Commits(job.workspace), ProgressWatch(job.workspace)
    reporter.writing(job, commits.refresh())

    def watch() -> None:
        new = commits.refresh()
        reporter.progress(new, notes.images(now=bool(new)))

    graph = WriteShards(job, pending, engine=engine, failures=failures, help_with_images=few)
    try:
        engines.run(
            lambda pipeline: pipeline | graph,
            replace(engine, alone=True) if few else engine,
            watch=watch,
            stop=failures.stop,
        )
        reporter.progress(commits.refresh(), 0)
    finally:
        reporter.finished()
    failures.reraise()


def _forget(job: Job, pending: Sequence[ShardName]) -> None:
    """A seal or a record of a shard that must be made again would be a lie meanwhile."""
    job.workspace.manifest.unlink(missing_ok=True)
    for shard in pending:
        (job.workspace.commits / f"{shard}.json").unlink(missing_ok=True)
