"""The whole job, as `dataprep.prepare`, `dataprep.convert` and `dataprep.compact` run it.

Find the raw data, take the lock, scan what changed, put the images in order, write the shards in
rounds, seal. A shard that fails does not stop the others, on any engine: what fails for a passing
reason, a file system that hiccups or a bad node, succeeds in a later round, perhaps elsewhere.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from dataprep.datasets import Dataset, ScanUnit, close_archives
from dataprep.errors import (
    DataprepError,
    DatasetError,
    PipelineError,
    SinkError,
    SourceError,
)
from dataprep.jobs.append import check_append, read_base, tell_changes
from dataprep.jobs.build_directory import check_free_space, lay_out, remove_build_directories
from dataprep.jobs.commit import finished_shard, forget_progress
from dataprep.jobs.compact_job import order_records, plan_compaction, read_grown
from dataprep.jobs.convert_job import (
    fit_conversion,
    plan_conversion,
    statistics_of,
    unstored_rows,
)
from dataprep.jobs.identity import (
    COMPACTED,
    CONVERTED,
    check_places,
    claim,
    claim_generation,
    remove_partial_files,
)
from dataprep.jobs.image_job import STORED_WITH_8_BITS, order_images, plan_images
from dataprep.jobs.index_parts import (
    IndexParts,
    check_unchanged,
    check_unmatched,
    forget_part,
    has_part,
    is_current,
    open_images,
    read_part,
    report_summary,
    shared_index_directory,
    summarize,
)
from dataprep.jobs.job import Job, describe_splits
from dataprep.jobs.lock import Lease, check_held, locked
from dataprep.jobs.merge import exchange, finish_merge
from dataprep.jobs.request import (
    ConvertRequest,
    MaxBad,
    Request,
    absolute,
    check_splits,
    fit_request,
)
from dataprep.jobs.seal import seal
from dataprep.jobs.workspace import Workspace
from dataprep.plugins import load_dataset
from dataprep.sealed.set import SealedSet
from dataprep.sealed.verify import Verified
from dataprep.sinks import ShardName
from dataprep.system.durable_files import storage_error
from dataprep.system.messages import counted
from dataprep.tables.records import SHALLOWER, count_reasons
from dataprep_pipelines.failures import FailureLog
from dataprep_pipelines.progress import Paced, Reporter, RoundWatch
from dataprep_pipelines.runners import Engine, Parallelism, RunningEngine
from dataprep_pipelines.runners.named import check, started
from dataprep_pipelines.tasks import TaskSpec, WorkerRequirements, task_file
from dataprep_schemas.state import CommitRecord

_PAUSES = (0.5, 3.0)  # seconds before failed shards are tried again, so many times
_MANY_FAILED = 8  # and more than were made: it is not the shards
_PER_SHARD = 4  # that is written at once: more than a bad node has taken


def prepare(request: Request, engine: Engine, reporter: Reporter) -> SealedSet:
    """Build the data set, or finish building it; or add to it.

    What --append adds is made as every data set is, in a directory of its own, and then merged.

    Raises:
        DataprepError: any of its kinds; everything committed so far is kept.
    """
    dataset = load_dataset(request.dataset, request.dataset_options)
    request = fit_request(absolute(request), dataset)
    check_append(request)
    close_archives()  # a new search starts from the files as they are now
    found = dataset.find(request.raw, request.splits)
    check_places(request, found)
    if found.splits is not None:
        check_splits(request.num_shards, found.splits)
    check(engine)
    for text in found.description:
        reporter.line(text)
    workspace, raw = Workspace(request.out), request.raw
    given = {"--index_dir": request.index_dir, "--build_dir": request.build_dir}
    places = {"--raw": raw} | {option: path for option, path in given.items() if path}
    splits, overwrite = found.splits or (), request.overwrite
    with _working(workspace, engine, places, splits, reporter, overwrite) as workers:
        index = workspace.index
        if request.index_dir is not None:
            index = shared_index_directory(request.index_dir, dataset, raw)
        base = read_base(request, dataset)
        request = base.begin(request)
        parts = _scan_what_changed(dataset, raw, found.units, index, workers, trust=not overwrite)
        with open_images(parts, dataset, request, base) as images:
            summary = summarize(request, dataset, found, parts, images, base)
            report_summary(summary, reporter.line)
            unmatched = Workspace(request.out).unmatched
            check_unmatched(summary, request.max_bad, unmatched, base.before)
            fitting = base.fit(request, summary, reporter.line)
            if fitting is None:
                return SealedSet.read(workspace.out)  # which has all of it already
            lease = workers.lease
            job, identity = plan_images(fitting, dataset, summary, index, lease, reporter.line)
            for text in describe_splits(job, found.official_counts):
                reporter.line(text)
            # Only now, when nothing that was asked for can be refused any more.
            digests = parts.digests()
            changes = tell_changes(job, identity, digests, images, reporter.line)
            base.claim(job, identity, digests, changes)
            made_of = [identity, digests]
            order_images(job, images, made_of, seed=request.seed, limit=request.limit)
            for text in job.describe_depth():
                reporter.line(text)
        records = _write_shards(job, workers)
        check_unchanged(parts, dataset, raw)
        with open_images(parts, dataset, request, base) as images:
            made = seal(
                job,
                identity,
                records,
                max_bad=request.max_bad,
                report=reporter.line,
                missing=summary.unmatched.missing,
                unlisted=summary.bad - summary.unmatched.missing,
                others=images.unstored() if summary.has_unstored else (),
                before=base.before,
            )
        if deep := count_reasons(job.workspace.records, SHALLOWER):
            reporter.line(f"{counted(deep, 'image')} {STORED_WITH_8_BITS}")
        return base.finish(job, made)


def convert(
    request: ConvertRequest, engine: Engine, reporter: Reporter, checked: Callable[[], Verified]
) -> SealedSet:
    """Make another format of a finished data set without the raw data, or finish that.

    Args:
        checked: verifies the data set first. Formats without checksums would otherwise pass
            damage on, under a new hash.

    Raises:
        DataprepError: any of its kinds; everything committed so far is kept.
    """
    request, source, times = fit_conversion(request)
    check(engine)
    _refuse_damaged(request.source, checked(), "converted")
    workspace = Workspace(request.out)
    splits = list(source.splits)
    places = {"SRC": request.source}
    overwrite = request.overwrite
    with _working(workspace, engine, places, splits, reporter, overwrite) as workers:
        job, identity = plan_conversion(request, source, times, workers.lease, reporter.line)
        units = {CONVERTED: source.manifest.sha256}
        claim(job, identity, units, overwrite=overwrite)
        records = _write_shards(job, workers)
        return seal(
            job,
            identity,
            records,
            max_bad=MaxBad(),
            report=reporter.line,
            others=unstored_rows(source),
            statistics=statistics_of(job, source),
        )


def compact(
    request: ConvertRequest, engine: Engine, reporter: Reporter, checked: Callable[[], Verified]
) -> SealedSet | None:
    """Make a data set that grew one generation; None if it is one already.

    It is made anew in a directory of its own, which then takes the place of what there was.

    Args:
        checked: verifies the data set, whose shards are deleted in the end.

    Raises:
        DataprepError: any of its kinds; everything committed so far is kept.
    """
    request = absolute(request)
    check(engine)
    out, workspace = request.source, Workspace(request.source)
    # A run that was killed at its very end has left its lock.
    if not (workspace.journal.exists() or workspace.lock.exists() or read_grown(out)):
        return None
    places = {"OUT": out}
    with _working(workspace, engine, places, (), reporter, overwrite=False) as workers:
        if grown := read_grown(out):
            _refuse_damaged(out, checked(), "compacted")
            job, identity = plan_compaction(request, grown, workers.lease)
            for text in describe_splits(job, {}):
                reporter.line(text)
            claim_generation(job, identity, {COMPACTED: grown.manifest.sha256})
            order_records(job, grown.manifest)
            records = _write_shards(job, workers)
            new = seal(
                job,
                identity,
                records,
                max_bad=MaxBad(grown.rejected),
                report=reporter.line,
                others=unstored_rows(grown, rejected=False),
            )
            return exchange(grown, new.manifest, workers.lease)
    return SealedSet.read(out)


def _refuse_damaged(out: Path, found: Verified, doing: str) -> None:
    if found.problems:
        raise DatasetError(
            f"{out} is damaged: {found.problems[0].path}: {found.problems[0].what}; `dataprep "
            f"verify` names all bad files; nothing was {doing}"
        )


@dataclass(frozen=True, slots=True)
class _Workers:
    """A run's engine, and what its workers are given and tell.

    Attributes:
        chosen: where they run, as the user asked for it.
        engine: the same, running.
        requirements: what workers elsewhere must share with this process; None: there are none.
        lease: with which they know whether the run still holds its directory.
        failures: where they tell what went wrong.
        reporter: who is told how far they are.
    """

    chosen: Engine
    engine: RunningEngine
    requirements: WorkerRequirements | None
    lease: Lease
    failures: FailureLog
    reporter: Reporter


@contextmanager
def _working(
    workspace: Workspace,
    engine: Engine,
    places: dict[str, Path],
    splits: Sequence[str],
    reporter: Reporter,
    overwrite: bool,
) -> Iterator[_Workers]:
    """The lock, a directory without what killed runs left there, and workers.

    Args:
        places: what they must see, by the options that name it.
        splits: those that the run makes, as far as they are known.

    Raises:
        DatasetError: the directory is somebody else's.
        SinkError: a file system refuses something, in here or in what is done with the workers.
    """
    try:
        workspace.require_own()
        workspace.make()
        workspace.free_lock()
        with locked(workspace, report=reporter.line) as lease:
            for each in (workspace, Workspace(workspace.generation)):
                each.remove_misplaced()
                remove_partial_files(each, splits)
                remove_build_directories(each.out, places.get("--build_dir"))
            if finish_merge(workspace, lease, whole=not overwrite):
                reporter.line(f"{workspace.out}: finished what --append or compact had begun")
            try:
                with started(engine, workspace.private / "slurm", reporter.line) as running:
                    # Of many workers, each should look less often.
                    lease = replace(lease, look_seconds=running.look_seconds)
                    requirements = None if engine.is_local else WorkerRequirements(places)
                    failures = FailureLog(lease)
                    yield _Workers(engine, running, requirements, lease, failures, reporter)
            finally:
                # Workers elsewhere that died or were cancelled could not, and nobody else knows.
                with suppress(OSError):
                    if not engine.is_local and not lease.taken_over_now():
                        remove_partial_files(workspace, splits)
    except BrokenPipeError:
        raise  # nobody reads the terminal's lines any more; not the output directory's fault
    except OSError as error:
        raise storage_error(error, workspace.out) from error


def _scan_what_changed(
    dataset: Dataset,
    raw: Path,
    units: Sequence[ScanUnit],
    index: Path,
    workers: _Workers,
    *,
    trust: bool,
) -> IndexParts:
    """The index of everything that was found; what is not indexed, or has changed, is scanned.

    Args:
        trust: False: all is scanned again. Files rewritten in place leave their folder's time as
            it was.

    Raises:
        DataprepError: something cannot be scanned.
    """
    reporter, failures = workers.reporter, workers.failures
    kept = {unit: read_part(index, unit) for unit in units}
    stale = [
        unit for unit, part in kept.items() if not trust or not is_current(part, dataset, raw, unit)
    ]
    if not stale:
        reporter.line(f"index: {counted(len(kept), 'part')} reused")
    else:
        from dataprep_pipelines.scan import Scan, ScanIntoIndex

        for unit in stale:
            forget_part(index, unit)

        def watch() -> None:
            reporter.scanning(sum(has_part(index, unit) for unit in stale), len(stale))

        helpers = workers.chosen.workers if workers.chosen.is_local else 0
        try:
            scan = Scan(dataset, raw, index)
            with task_file(scan, workers.lease, workers.requirements, "scan") as spec:
                work = ScanIntoIndex(spec, helpers, failures)
                workers.engine.run(
                    stale, work, Parallelism(), watch=Paced(watch), failures=failures
                )
            watch()
        finally:
            reporter.finished()
        failures.reraise()
        kept |= {unit: read_part(index, unit) for unit in stale}
    parts = IndexParts(index, {unit: part for unit, part in kept.items() if part is not None})
    for unit in kept.keys() - parts.units.keys():
        raise PipelineError(
            f"the engine ended but {unit.name} was not scanned; run the same command again"
        )
    return parts


def _write_shards(job: Job, workers: _Workers) -> list[CommitRecord]:
    """Make and commit every shard of the job that is not there yet, in as many rounds as it takes.

    A shard that fails is tried again when the others are done, twice.

    Returns:
        The commit record of every shard.

    Raises:
        DataprepError: a shard failed in every round, or the run as a whole; everything committed
            so far is kept.
        LockedError: another run has taken the directory over.
    """
    workspace, line = job.workspace, workers.reporter.line
    done = _finished(workspace, job.shard_names())
    job.check_rejected(done.values())
    pending = [shard for shard in job.shard_names() if shard not in done]
    if not pending:
        line(f"{counted(len(done), 'shard')} already there, nothing to write")
        return list(done.values())
    if done:
        line(f"resuming: {counted(len(done), 'shard')} already there, {len(pending)} to make")
    # Looking took a while, and what is a lie in this run's eyes may be another's finished work.
    check_held(job.lease)
    _forget(workspace, pending)
    paths = (path for shard in pending for path in job.sink.paths(shard, job.request.layout))
    workspace.remove_empty(map(workspace.path_of, paths))
    images = sum(split.images for split in job.splits) if job.works_on_images else 0
    parallelism = workers.engine.parallelism(len(pending), images=images)
    check_free_space(job, pending, at_once=parallelism.at_once)
    lay_out(job, pending, line)
    # In later rounds, which hold nothing but what has failed, it says nothing that much fails.
    most_failed: float = max(_MANY_FAILED, _PER_SHARD * parallelism.at_once)
    failed: dict[ShardName, DataprepError] = {}
    with task_file(job, workers.lease, workers.requirements, "write") as spec:
        for pause in (0.0, *_PAUSES):
            if failed:
                line(f"trying {counted(len(pending), 'failed shard')} again")
                time.sleep(pause)
            failed |= _write_round(job, pending, workers, spec, parallelism, most_failed)
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


def _write_round(
    job: Job,
    shards: Sequence[ShardName],
    workers: _Workers,
    spec: TaskSpec,
    parallelism: Parallelism,
    most_failed: float,
) -> dict[ShardName, DataprepError]:
    """Try each of the shards once; returns what went wrong with each, if it is not there now."""
    from dataprep_pipelines.write import WriteShard

    failures, reporter = workers.failures, workers.reporter
    failures.forget_shards()
    watch = RoundWatch(job, failures, reporter, most_failed)
    work = WriteShard(spec, parallelism, failures)
    try:
        workers.engine.run(shards, work, parallelism, watch=Paced(watch.look), failures=failures)
        watch.count()
    finally:
        reporter.finished()
    failures.reraise()
    told = failures.of_shards()
    silent = PipelineError("the engine ended without making it")
    return {shard: told.get(str(shard), silent) for shard in shards}


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
