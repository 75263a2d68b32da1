"""Writing shards in rounds: whatever failed is tried again when the others are done.

A shard that fails does not stop the others, on any engine. What fails for a passing reason, a file
system that hiccups or a bad node, succeeds in a later round, perhaps elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from dataprep.build.commit import Commits, is_intact
from dataprep.build.job import Job
from dataprep.build.lock import check_held
from dataprep.build.progress import ProgressWatch
from dataprep.errors import DataprepError, PipelineError
from dataprep.sinks import ShardName
from dataprep.system.messages import counted
from dataprep_pipelines.dealer import Dealer, dealing
from dataprep_pipelines.failures import FailureLog
from dataprep_pipelines.orders import Orders
from dataprep_pipelines.pace import Pace
from dataprep_pipelines.reporter import Reporter
from dataprep_pipelines.runners import KillsWorkersError, Running, Share, TasksFailedError

Failed = dict[ShardName, DataprepError]

_PAUSES = (0.5, 3.0)  # seconds before failed shards are tried again, so many times
_HOPELESS = 8  # so many failed shards, and more than were made: it is not the shards
_MANY = 4  # times as many failed as are written at once: more than a bad node has taken
_NAMED = 5  # failures of a round that get a line of their own
_LOOK_SECONDS = 1.0  # between two looks at the failures


@dataclass(slots=True)
class Rounds:
    """A job's shards, written in as many rounds as it takes.

    Attributes:
        job: what to build.
        running: the engine.
        orders: where workers find the job.
        share: how they work.
        failures: where they tell what went wrong.
        reporter: who is told.
    """

    job: Job
    running: Running
    orders: Orders
    share: Share
    failures: FailureLog
    reporter: Reporter

    def write_all(self, pending: Sequence[ShardName]) -> None:
        """Write them all.

        Raises:
            DataprepError: some shard failed in every round, or the run did as a whole.
            LockedError: another run has taken the directory over.
        """
        failed = self._write(pending, {})
        for pause in _PAUSES:
            again = [shard for shard, error in failed.items() if _may_do_better(error)]
            if not again:
                break
            self.reporter.line(f"trying {counted(len(again), 'failed shard')} again")
            time.sleep(pause)
            failed = {**_without(failed, again), **self._write(again, failed)}
        if failed:
            raise _summary(failed, rounds=len(_PAUSES) + 1)

    def _write(self, shards: Sequence[ShardName], before: Failed) -> Failed:
        """One round; what failed, and how: as in the round before where nobody says."""
        from dataprep_pipelines.write import WriteShards

        self.failures.forget_shards()
        at_once, is_local = self.running.at_once(self.share), self.running.is_local
        # Later rounds hold nothing but what has failed: there it says nothing that much fails.
        first = not before
        watch = _Watch(self.job, self.failures, self.reporter, at_once, is_local, first)
        lost: Mapping[int, DataprepError] = {}
        try:
            with self._elements(shards) as elements:
                graph = WriteShards(self.orders, elements, self.share, self.failures)
                self.running.run(
                    lambda pipeline: pipeline | graph,
                    self.share,
                    watch=watch.look,
                    stop=self.failures.stop,
                )
        except TasksFailedError as error:
            lost = error.errors
        finally:
            watch.end()
        self.failures.reraise()
        check_held(self.job.workspace, self.job.lease)
        told = self.failures.of_shards()
        failed: Failed = {}
        for position, shard in enumerate(shards):
            record = watch.commits.seen(shard)
            if record is None or not is_intact(record, self.job.workspace.out):
                silent = PipelineError("the engine ended without making it")
                said = told.get(str(shard)) or lost.get(position) or before.get(shard)
                failed[shard] = said or silent
        return failed

    @contextmanager
    def _elements(
        self, shards: Sequence[ShardName]
    ) -> Iterator[Sequence[ShardName] | Sequence[Dealer]]:
        """The shards; or where Beam would divide them in advance, a dealer for every process."""
        if self.share.processes == 1:
            yield shards
            return
        with dealing(shards) as dealer:
            yield [dealer] * self.share.processes


@dataclass(slots=True)
class _Watch:
    """What the launcher sees of a round, from the file system alone."""

    job: Job
    failures: FailureLog
    reporter: Reporter
    at_once: int
    is_local: bool
    first: bool
    commits: Commits = field(init=False)
    _notes: ProgressWatch = field(init=False)
    _made: int = 0
    _named: set[str] = field(default_factory=set)
    _pace: Pace = field(default_factory=Pace)
    _next_look: float = 0.0

    def __post_init__(self) -> None:
        self.commits = Commits(self.job.workspace)
        self._notes = ProgressWatch(self.job.workspace)
        self.reporter.writing(self.job, self.commits.refresh())

    def look(self) -> None:
        """Show what is new.

        Raises:
            DataprepError: nearly everything fails.
        """
        if self._pace.is_due():
            with self._pace.looking():
                self._progress()
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + _LOOK_SECONDS
            self._tell_failures()

    def end(self) -> None:
        """The round is over, one way or another."""
        try:
            self._progress()
        finally:
            self.reporter.finished()

    def _progress(self) -> None:
        new = self.commits.refresh()
        self._made += len(new)
        self.reporter.progress(new, self._notes.images(now=bool(new)))

    def _tell_failures(self) -> None:
        failed = self.failures.of_shards()
        for shard in sorted(failed.keys() - self._named):
            self._named.add(shard)
            if len(self._named) <= _NAMED:
                self.reporter.line(f"{shard} failed, others go on: {failed[shard]}")
            elif len(self._named) == _NAMED + 1:
                self.reporter.line("more shards failed; they are not named here")
        if self.first and len(failed) > self._made and self._is_hopeless(len(failed)):
            self._progress()  # may be a while ago
            if len(failed) <= self._made:
                return
            shard, error = next(iter(failed.items()))
            raise type(error)(
                f"stopped, since more shards fail than are made ({len(failed)} and {self._made}); "
                f"{shard}: {error}"
            ) from error

    def _is_hopeless(self, failed: int) -> bool:
        """Whether it is not just one bad node, which fails faster than others work."""
        if failed < _HOPELESS:
            return False
        return failed >= _MANY * self.at_once or self.is_local or len(self.failures.hosts()) > 1


def _may_do_better(error: DataprepError) -> bool:
    return not isinstance(error, KillsWorkersError)


def _without(failed: Failed, shards: Iterable[ShardName]) -> Failed:
    gone = set(shards)
    return {shard: error for shard, error in failed.items() if shard not in gone}


def _summary(failed: Failed, *, rounds: int) -> DataprepError:
    shard, error = next(iter(failed.items()))
    others = f"; {counted(len(failed) - 1, 'other shard')} failed too" if len(failed) > 1 else ""
    tries = f" {rounds} times" if _may_do_better(error) else ""
    found = type(error)(
        f"{shard} failed{tries}: {error}{others}; finished shards are kept: run the same command "
        "again to resume"
    )
    found.__cause__ = error.__cause__
    return found
