"""What a job needs of whoever runs it: an engine, and somebody to tell; and the directory it holds.

Engines are `dataprep_pipelines.run.Launcher`; nothing in here knows Beam.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dataprep.jobs.output.index_parts import IndexParts, Scan
from dataprep.jobs.output.lock import Lease, locked
from dataprep.jobs.output.workspace import Workspace
from dataprep.jobs.running.build_directory import remove_build_directories
from dataprep.jobs.running.clearing import remove_partial_files
from dataprep.jobs.running.job import Job
from dataprep.jobs.running.journal import finish_merge
from dataprep.system.durable_files import storage_error
from dataprep.system.messages import some_of
from dataprep_schemas.state import CommitRecord

if TYPE_CHECKING:
    from dataprep.tables.order_parts import Sort


class Reporter(Protocol):
    """Where a run says what it does."""

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


class Workers(Protocol):
    """A running engine, at work for the holder of a directory's lock."""

    @property
    def lease(self) -> Lease:
        """With which workers know whether the run still holds its directory."""

    def scan(self, scan: Scan, *, trust: bool) -> IndexParts:
        """The index of what was found; what is not indexed, or has changed, is scanned.

        Args:
            trust: False: all is scanned again. Files rewritten in place leave their folder's time
                as it was.

        Raises:
            DataprepError: something cannot be scanned.
        """

    def get_ready(self, job: Job) -> None:
        """Start what will write the job, while its images are put in order."""

    def sort(self, sort: Sort) -> None:
        """Do all parts of a step of `dataprep.tables.order_parts`.

        Raises:
            DataprepError: one of them failed.
        """

    def write(self, job: Job) -> list[CommitRecord]:
        """Make and commit every shard of the job that is not there yet.

        Returns:
            The commit record of every shard.

        Raises:
            DataprepError: a shard failed again and again, or the run as a whole; everything
                committed so far is kept.
            LockedError: another run has taken the directory over.
        """


class Engine(Protocol):
    """Where work is done, as the user asked for it."""

    @property
    def is_local(self) -> bool:
        """Whether all of it is done on this machine."""

    def check(self) -> None:
        """Find out now whether the engine is installed and its options are right.

        Raises:
            UsageError: it is not, or they are not.
        """

    def workers(
        self, workspace: Workspace, places: dict[str, Path], lease: Lease, reporter: Reporter
    ) -> AbstractContextManager[Workers]:
        """The engine, running; whatever was started for it is ended.

        Args:
            places: what workers must see, by the options that name it.

        Raises:
            PipelineError: it does not start.
        """


@contextmanager
def working(
    workspace: Workspace,
    engine: Engine,
    places: dict[str, Path],
    splits: Sequence[str],
    reporter: Reporter,
) -> Iterator[Workers]:
    """The lock, a directory without what killed runs left there, and workers.

    Args:
        places: what workers must see, by the options that name it.
        splits: those that the run makes, as far as they are known.

    Raises:
        DatasetError: the directory is somebody else's.
        SinkError: a file system refuses something, in here or in what is done with the workers.
    """
    try:
        workspace.require_own()
        workspace.make()
        if paths := [str(path) for path in workspace.open_to_all()]:
            reporter.line(
                f"everybody may write {some_of(paths)}, and so run code as you while this runs; "
                "take that away: chmod o-w"
            )
        with locked(workspace, report=reporter.line) as lease:
            for each in (workspace, Workspace(workspace.generation)):
                remove_partial_files(each, splits)
                remove_build_directories(each.out, places.get("--build_dir"))
            if finish_merge(workspace, lease):
                reporter.line(f"{workspace.out}: finished what --append or compact had begun")
            try:
                with engine.workers(workspace, places, lease, reporter) as workers:
                    yield workers
            finally:
                # Workers elsewhere that died or were cancelled could not, and nobody else knows.
                with suppress(OSError):
                    if not engine.is_local and not lease.taken_over(now=True):
                        remove_partial_files(workspace, splits)
    except BrokenPipeError:
        raise  # nobody reads the terminal's lines any more; not the output directory's fault
    except OSError as error:
        raise storage_error(error, workspace.out) from error
