"""How a job runs on Beam: what changed is scanned, and shards are written, in rounds.

Between the two, very many images are put in order in parts, which are elements like the others.
A shard that fails does not stop the others, on any engine: what fails for a passing reason, a file
system that hiccups or a bad node, succeeds in a later round, perhaps elsewhere. What the launcher
sees of it comes from commit records, never from Beam's metrics: the same on every engine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dataprep.datasets import ScanUnit
from dataprep.errors import DataprepError, PipelineError, SinkError, SourceError
from dataprep.formats import ShardName
from dataprep.jobs.output.commit import (
    finished_shard,
    forget_progress,
    images_under_way,
    read_records,
)
from dataprep.jobs.output.index_parts import (
    IndexParts,
    Scan,
    forget_part,
    has_part,
    is_current,
    read_part,
)
from dataprep.jobs.output.lock import Lease, check_held
from dataprep.jobs.output.workspace import Workspace
from dataprep.jobs.running.build_directory import check_free_space, lay_out
from dataprep.jobs.running.engine import Reporter
from dataprep.jobs.running.job import Job
from dataprep.system.job_limits import usable_cores
from dataprep.system.messages import counted
from dataprep_pipelines.failures import FailureLog
from dataprep_pipelines.order import SortPart
from dataprep_pipelines.runners import Engine, Parallelism, Round, RunningEngine
from dataprep_pipelines.runners.named import check, started
from dataprep_pipelines.scan import ScanIntoIndex, scan_at_once
from dataprep_pipelines.tasks import TaskSpec, WorkerRequirements, task_file
from dataprep_pipelines.write import WriteShard
from dataprep_schemas.state import CommitRecord

if TYPE_CHECKING:
    from dataprep.tables.order_parts import Sort

_SCANS = 3  # of parts that another run, of the same index, forgets just when they were scanned
_PAUSES = (0.5, 3.0)  # seconds before failed shards are tried again, so many times
# What is written in a second or so, which importing Beam takes.
_FEW_IMAGES, _FEW_BYTES = 1000, 32 << 20
_MANY_FAILED = 8  # and more than were made: it is not the shards
_PER_SHARD = 4  # that is written at once: more than a bad node has taken
_NAMED = 5  # failures of a round that get a line; the last error tells how many more there are
_SORTS_HERE = False  # measured: in parts it takes 1.3 times the processor time
_LOOKING = 0.05  # of the time: a metadata server should not pay for a progress bar


@dataclass(frozen=True, slots=True)
class Launcher:
    """An engine as the user chose it; a `dataprep.jobs.running.engine.Engine`."""

    chosen: Engine

    @property
    def is_local(self) -> bool:
        """Whether all work is done on this machine."""
        return self.chosen.is_local

    def check(self) -> None:
        """See `dataprep.jobs.running.engine.Engine.check`."""
        check(self.chosen)

    @contextmanager
    def workers(
        self, workspace: Workspace, places: dict[str, Path], lease: Lease, reporter: Reporter
    ) -> Iterator[RunningWorkers]:
        """The engine, running; see `dataprep.jobs.running.engine.Engine.workers`."""
        with started(self.chosen, workspace.private / "slurm", reporter.line) as running:
            # Of many workers, each should look less often.
            lease = replace(lease, look_seconds=running.look_seconds)
            requirements = None if self.is_local else WorkerRequirements(places)
            failures = FailureLog(lease)
            yield RunningWorkers(self.chosen, running, requirements, lease, failures, reporter)


@dataclass(frozen=True, slots=True)
class RunningWorkers:
    """A run's engine, and what its workers are given and tell."""

    chosen: Engine  # where they run, as the user asked for it
    engine: RunningEngine
    # What workers elsewhere must share with this process; None: there are none.
    requirements: WorkerRequirements | None
    lease: Lease  # with which they know whether the run still holds its directory
    failures: FailureLog  # where they tell what went wrong
    reporter: Reporter  # who is told how far they are

    def scan(self, scan: Scan, *, trust: bool) -> IndexParts:
        """The index of what was found; see `dataprep.jobs.running.engine.Workers.scan`."""
        index, units = scan.directory, scan.found.units
        with ThreadPoolExecutor(usable_cores()) as pool:  # parts of long lists are large
            kept = dict(zip(units, pool.map(partial(read_part, index), units), strict=True))
        stale = [
            unit for unit, part in kept.items() if not trust or not is_current(part, scan, unit)
        ]
        if not stale:
            self.reporter.line(f"index: {counted(len(kept), 'part')} reused")
        for unit in stale:
            forget_part(index, unit)
        for _ in range(_SCANS):
            if not stale:
                break
            self._scan(scan, stale)
            kept |= {unit: read_part(index, unit) for unit in stale}
            stale = [unit for unit in stale if kept[unit] is None]
        parts = IndexParts(index, {unit: part for unit, part in kept.items() if part is not None})
        for unit in kept.keys() - parts.units.keys():
            raise PipelineError(
                f"the engine ended but {unit.name} was not scanned; run the same command again"
            )
        return parts

    def _scan(self, scan: Scan, stale: Sequence[ScanUnit]) -> None:
        silence = Silence(self.engine.silent_seconds, self.reporter)

        def count() -> None:
            done = sum(has_part(scan.directory, unit) for unit in stale)
            self.reporter.scanning(done, len(stale))
            silence.look(done)

        watch, local = paced(count), self.chosen.is_local
        try:
            if left := scan_at_once(scan, stale, watch) if local else stale:
                with task_file(scan, self.lease, self.requirements, "scan") as spec:
                    processes = min(self.chosen.workers, len(left)) if local else 1
                    alone = local and not self.chosen.beam_options
                    parallelism = Parallelism(processes, without_beam=alone)
                    work = ScanIntoIndex(spec, self.failures)
                    self.engine.run(Round(left, work, parallelism, watch, self.failures))
            count()
        finally:
            self.reporter.finished()
        self.failures.reraise()

    @property
    def sorts(self) -> bool:
        """Other machines sort; on this one, the launcher's database uses all cores by itself."""
        return _SORTS_HERE or not self.chosen.is_local

    def sort(self, sort: Sort) -> None:
        """Do a step of putting images in order; see `dataprep.jobs.running.engine.Workers.sort`."""
        chosen, failures = self.chosen, self.failures
        if sort.step == "scatter":
            self.reporter.line(f"order: {sort.split}: in {counted(sort.ranges, 'part')}")
        with task_file(sort, self.lease, self.requirements, f"order-{sort.step}") as spec:
            processes = min(chosen.workers, sort.parts) if chosen.is_local else 1
            alone = chosen.is_local and not chosen.beam_options
            parallelism = Parallelism(processes, without_beam=alone)
            work = SortPart(spec, failures)
            watch = partial(check_held, self.lease)
            self.engine.run(Round(range(sort.parts), work, parallelism, paced(watch), failures))
        failures.reraise()

    def get_ready(self, job: Job) -> None:
        """Start what will write the job, while its images are put in order."""
        self.engine.get_ready(self._parallelism(job, len(job.shard_names())))

    def write(self, job: Job) -> list[CommitRecord]:
        """Make and commit every shard of the job that is not there yet, in rounds.

        A shard that fails is tried again when the others are done, twice; see
        `dataprep.jobs.running.engine.Workers.write`.
        """
        workspace, line = job.workspace, self.reporter.line
        done = _finished(workspace, job.shard_names())
        job.source.check_rejected(job, done.values())
        pending = [shard for shard in job.shard_names() if shard not in done]
        if not pending:
            line(f"{counted(len(done), 'shard')} already there, nothing to write")
            return list(done.values())
        if done:
            line(f"resuming: {counted(len(done), 'shard')} already there, {len(pending)} to make")
        # Looking took a while, and what is a lie in this run's eyes may be another's finished work.
        check_held(job.lease)
        _forget(workspace, pending)
        parallelism = self._parallelism(job, len(pending))
        check_free_space(job, pending, at_once=parallelism.at_once)
        lay_out(job, pending, line)
        # In later rounds, which hold nothing but what has failed, it says nothing that much fails.
        most_failed: float = max(_MANY_FAILED, _PER_SHARD * parallelism.at_once)
        failed: dict[ShardName, DataprepError] = {}
        with task_file(job, self.lease, self.requirements, "write") as spec:
            for pause in (0.0, *_PAUSES):
                if failed:
                    line(f"trying {counted(len(pending), 'failed shard')} again")
                    time.sleep(pause)
                failed |= self._write_round(job, pending, spec, parallelism, most_failed)
                check_held(job.lease)
                done |= _finished(workspace, pending)
                failed = {shard: error for shard, error in failed.items() if shard not in done}
                pending = [shard for shard, error in failed.items() if _may_pass(error)]
                if not pending:
                    break
                most_failed = math.inf
        if failed:
            raise _all_failures(failed)
        return [done[shard] for shard in job.shard_names()]

    def _parallelism(self, job: Job, shards: int) -> Parallelism:
        images = sum(split.images for split in job.splits)
        source_bytes = sum(split.source_bytes for split in job.splits)
        return self.engine.parallelism(
            shards,
            images=images if job.source.works_on_images else 0,
            small=images <= _FEW_IMAGES and source_bytes <= _FEW_BYTES,
        )

    def _write_round(
        self,
        job: Job,
        shards: Sequence[ShardName],
        spec: TaskSpec,
        parallelism: Parallelism,
        most_failed: float,
    ) -> dict[ShardName, DataprepError]:
        """Try each of the shards once; returns what went wrong with each, if it is not there."""
        failures = self.failures
        failures.forget_shards()
        silence = Silence(self.engine.silent_seconds, self.reporter)
        watch = RoundWatch(job, failures, self.reporter, silence, most_failed)
        work = WriteShard(spec, parallelism, failures)
        try:
            self.engine.run(Round(shards, work, parallelism, paced(watch.look), failures))
            watch.count()
        finally:
            self.reporter.finished()
        failures.reraise()
        told = failures.of_shards()
        silent = PipelineError("the engine ended without making it")
        return {shard: told.get(str(shard), silent) for shard in shards}


def _finished(workspace: Workspace, shards: Sequence[ShardName]) -> dict[ShardName, CommitRecord]:
    """Those of the shards that are there."""
    found = {shard: finished_shard(workspace, shard) for shard in shards}
    return {shard: record for shard, record in found.items() if record is not None}


def _forget(workspace: Workspace, pending: Sequence[ShardName]) -> None:
    """A seal or a record of a shard that must be made again would be a lie meanwhile."""
    workspace.manifest.unlink(missing_ok=True)
    for shard in pending:
        workspace.record(shard).unlink(missing_ok=True)
    forget_progress(workspace)


def _may_pass(error: DataprepError) -> bool:
    """Whether it is the shard's alone; not, for example, that all workers died of it."""
    return isinstance(error, (SourceError, SinkError))


def _all_failures(failed: Mapping[ShardName, DataprepError]) -> DataprepError:
    shard, error = next(iter(failed.items()))
    others = f"; {counted(len(failed) - 1, 'other shard')} failed too" if len(failed) > 1 else ""
    tries = f" {len(_PAUSES) + 1} times" if _may_pass(error) else ""
    found = type(error)(
        f"{shard} failed{tries}: {error}{others}; finished shards are kept: run the same command "
        "again to resume"
    )
    found.__cause__ = error.__cause__
    return found


class Silence:
    """Tells the user when nothing goes on any more: a worker may have died without a word.

    Once, until something goes on. What waits may also be one large file that is being closed, so
    it is for the user to stop the run.
    """

    def __init__(self, seconds: float, reporter: Reporter) -> None:
        self._seconds = seconds
        self._reporter = reporter
        self._last: object = None
        self._due = math.inf

    def look(self, state: object) -> None:
        """Compare what was made so far with what it was before."""
        now = time.monotonic()
        if state != self._last:
            self._last, self._due = state, now + self._seconds
        elif now >= self._due:
            self._due = math.inf
            self._reporter.line(
                f"nothing was made for {self._seconds:.0f} s; if a worker has died, or none has "
                "come, which not every job service notices: stop this with Ctrl-C, mend that, and "
                "run the same command again to resume"
            )


class RoundWatch:
    """A round of writing shards, as the launcher sees it.

    Args:
        most_failed: how many shards may fail, if more fail than are made.

    Attributes:
        made: how many shards were made so far.
    """

    def __init__(
        self,
        job: Job,
        failures: FailureLog,
        reporter: Reporter,
        silence: Silence,
        most_failed: float,
    ) -> None:
        self._workspace = job.workspace
        self._failures = failures
        self._reporter = reporter
        self._silence = silence
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
        under_way = images_under_way(self._workspace)
        self._reporter.progress(new, under_way)
        self._silence.look((self.made, under_way))

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


def paced(look: Callable[[], None]) -> Callable[[], None]:
    """The function, but not so often that it takes more than a twentieth of the time.

    Listing a million commit records takes seconds.
    """
    due = 0.0

    def look_if_due() -> None:
        nonlocal due
        began = time.monotonic()
        if began >= due:
            look()
            ended = time.monotonic()
            due = ended + (ended - began) / _LOOKING

    return look_if_due
