"""Making what is missing of a job, whatever it is made from."""

from __future__ import annotations

from collections.abc import Sequence

from dataprep.build.build_directory import check_free_space
from dataprep.build.commit import Commits, is_intact
from dataprep.build.job import Job
from dataprep.build.lock import check_held
from dataprep.build.output_layout import lay_out
from dataprep.build.progress import forget_progress
from dataprep.build.rejected import rejected_keys
from dataprep.sinks import ShardName
from dataprep.system.lustre.rules import Striping
from dataprep.system.messages import counted
from dataprep.system.state_files import remove_unless_file
from dataprep_pipelines.failures import FailureLog
from dataprep_pipelines.orders import given
from dataprep_pipelines.reporter import Reporter
from dataprep_pipelines.rounds import Rounds
from dataprep_pipelines.runners import Running
from dataprep_pipelines.runners.shared_places import SharedPlaces


def build(
    job: Job,
    running: Running,
    places: SharedPlaces,
    failures: FailureLog,
    reporter: Reporter,
    striping: Striping,
) -> None:
    """Make and commit every shard of the job that is not there yet.

    A shard that fails does not stop the others; when they are done it is tried again, twice.

    Args:
        job: what to build.
        running: the engine.
        places: what its workers share with this process.
        failures: where they tell what went wrong.
        reporter: who is told.
        striping: how the files are to be laid out; no part of the job, whose bytes are the same.

    Raises:
        DataprepError: any of its kinds; everything committed so far is kept.
    """
    commits = Commits(job.workspace)
    intact = [record for record in commits.refresh() if is_intact(record, job.workspace.out)]
    job.check_rejected(rejected_keys(job, intact))
    done = {record.shard for record in intact}
    pending = [shard for shard in job.shard_names() if shard not in done]
    if not pending:
        reporter.line(f"{counted(len(done), 'shard')} already there, nothing to write")
        return
    if done:
        reporter.line(
            f"resuming: {counted(len(done), 'shard')} already there, {len(pending)} to make"
        )
    # Looking took a while, and what is a lie in this run's eyes may be another's finished work.
    check_held(job.workspace, job.lease)
    _forget(job, pending)
    forget_progress(job.workspace)
    images = sum(split.images for split in job.splits) if job.works_on_images else 0
    share = running.share(len(pending), images=images)
    check_free_space(job, pending, at_once=running.at_once(share))
    lay_out(job, pending, striping, reporter.line)
    with given(job, job.lease, None if running.is_local else places.described(), "write") as orders:
        Rounds(job, running, orders, share, failures, reporter).write_all(pending)


def _forget(job: Job, pending: Sequence[ShardName]) -> None:
    """A seal or a record of a shard that must be made again would be a lie meanwhile."""
    job.workspace.manifest.unlink(missing_ok=True)
    for shard in pending:
        place = job.workspace.record(shard)
        remove_unless_file(place)
        place.unlink(missing_ok=True)
