"""The whole job, as `dataprep.prepare` and `dataprep.convert` run it.

Find the raw data, take the lock, scan what changed, put the images in order, write the shards in
rounds, seal. A shard that fails does not stop the others, on any engine: what fails for a passing
reason, a file system that hiccups or a bad node, succeeds in a later round, perhaps elsewhere.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dataprep.build.build_directory import check_free_space, lay_out, remove_build_directories
from dataprep.build.claim import CONVERTED, check_places, claim, remove_partial_files
from dataprep.build.commit import CommitRecord, finished_shard, forget_progress
from dataprep.build.convert_job import (
    fit_conversion,
    plan_conversion,
    statistics_of,
    unstored_rows,
)
from dataprep.build.image_job import order_images, plan_images
from dataprep.build.index_parts import (
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
from dataprep.build.job import Job, describe_splits
from dataprep.build.lock import check_held, locked
from dataprep.build.request import (
    ConvertRequest,
    MaxBad,
    Request,
    absolute,
    check_splits,
    fit_request,
)
from dataprep.build.seal import seal
from dataprep.build.verify import Level, verify
from dataprep.build.workspace import Workspace
from dataprep.datasets import Dataset, ScanUnit, close_archives
from dataprep.errors import DataprepError, DatasetError, PipelineError
from dataprep.plugins import load_dataset
from dataprep.sinks import ShardName
from dataprep.system.durable_files import storage_error
from dataprep.system.messages import counted
from dataprep.system.state_files import remove_unless_file
from dataprep_pipelines.failures import KillsWorkersError, TasksFailedError
from dataprep_pipelines.progress import Paced, Reporter, RoundWatch
from dataprep_pipelines.runners import Engine, Parallelism
from dataprep_pipelines.runners.engine import check
from dataprep_pipelines.tasks import TaskSpec, WorkerRequirements, Workers, workers_for

_PAUSES = (0.5, 3.0)  # seconds before failed shards are tried again, so many times
_MANY_FAILED = 8  # and more than were made: it is not the shards
_PER_SHARD = 4  # that is written at once: more than a bad node has taken


def prepare(request: Request, engine: Engine, reporter: Reporter) -> Mapping[str, Any]:
    """Build the data set, or finish building it; returns its manifest.

    Raises:
        DataprepError: any of its kinds; everything committed so far is kept.
    """
    dataset = load_dataset(request.dataset, request.dataset_options)
    request = fit_request(absolute(request), dataset)
    close_archives()  # a new search starts from the files as they are now
    found = dataset.find(request.raw, request.splits)
    check_places(request, found)
    if found.splits is not None:
        check_splits(request.num_shards, found.splits)
    check(engine)
    for text in found.description:
        reporter.line(text)
    workspace = Workspace(request.out)
    given = {"--index_dir": request.index_dir, "--build_dir": request.build_dir}
    places = tuple((option, path) for option, path in given.items() if path)
    with _storage("preparing", request.out):
        _make_directories("--local_scratch_dir", request.out, workspace.private_directories())
        if request.index_dir is not None:
            _make_directories("--index_dir", request.index_dir, [request.index_dir])
        requirements = WorkerRequirements(request.out, request.raw, workspace.lock, places)
        splits = found.splits or ()
        with _working(engine, requirements, splits, request.build_dir, reporter) as workers:
            index = workspace.index
            if request.index_dir is not None:
                index = shared_index_directory(request.index_dir, dataset, request.raw)
            trust = not request.overwrite
            parts = _scan_what_changed(dataset, found.units, index, workers, reporter, trust=trust)
            with open_images(parts, dataset, request.splits, workspace.private) as images:
                summary = summarize(request, dataset, found, parts, images)
                report_summary(summary, reporter.line)
                check_unmatched(summary, request.max_bad, workspace.unmatched)
                job, identity = plan_images(
                    request, dataset, summary, index, workers.lease, reporter.line
                )
                for text in describe_splits(job, found.official_counts):
                    reporter.line(text)
                # Only now, when nothing that was asked for can be refused any more.
                claim(job, identity, parts.digests(), overwrite=request.overwrite)
                order_images(job, images, [identity, parts.digests()])
            records = _write_shards(job, workers, reporter)
            check_unchanged(parts, dataset, request.raw)
            with open_images(parts, dataset, request.splits, workspace.private) as images:
                unmatched = summary.unmatched
                return seal(
                    job,
                    identity,
                    records,
                    max_bad=request.max_bad,
                    report=reporter.line,
                    missing=unmatched["missing"],
                    unlisted=unmatched["unlisted"],
                    others=images.unstored() if unmatched["first"] or summary.ignored[0] else (),
                )


def convert(
    request: ConvertRequest,
    engine: Engine,
    reporter: Reporter,
    *,
    level: Level,
    checking: Callable[[int], object],
) -> Mapping[str, Any]:
    """Make another format of a finished data set without the raw data, or finish that.

    Args:
        request: what into what.
        engine: where.
        reporter: who is told.
        level: how the data set is verified first. Formats without checksums would otherwise
            pass damage on, under a new hash.
        checking: told the bytes that were verified.

    Returns:
        The manifest.

    Raises:
        DataprepError: any of its kinds; everything committed so far is kept.
    """
    request, manifest = fit_conversion(request)
    check(engine)
    if problems := verify(
        request.source, level, threads=engine.workers, progress=checking
    ).problems:
        raise DatasetError(
            f"{request.source} is damaged: {problems[0].path}: {problems[0].what}; `dataprep "
            "verify` names all bad files; nothing was converted"
        )
    workspace = Workspace(request.out)
    splits = list(manifest["splits"])
    with _storage("converting", request.out):
        _make_directories("--to", request.out, workspace.private_directories())
        requirements = WorkerRequirements(request.out, request.source, workspace.lock)
        with _working(engine, requirements, splits, request.build_dir, reporter) as workers:
            job, identity = plan_conversion(request, manifest, workers.lease, reporter.line)
            units = {CONVERTED: manifest["sha256"]}
            claim(job, identity, units, overwrite=request.overwrite)
            records = _write_shards(job, workers, reporter)
            return seal(
                job,
                identity,
                records,
                max_bad=MaxBad(),
                report=reporter.line,
                others=unstored_rows(request.source, manifest),
                statistics=statistics_of(job, manifest),
            )


@contextmanager
def _working(
    engine: Engine,
    requirements: WorkerRequirements,
    splits: Sequence[str],
    build_dir: Path | None,
    reporter: Reporter,
) -> Iterator[Workers]:
    """The lock, a directory without what killed runs left there, and workers."""
    workspace = Workspace(requirements.out)
    with locked(workspace, report=reporter.line) as lease:
        remove_partial_files(workspace, splits)
        remove_build_directories(workspace.out, build_dir)
        with workers_for(engine, requirements, lease, splits, reporter.line) as workers:
            yield workers


def _make_directories(option: str, place: Path, directories: Sequence[Path]) -> None:
    try:
        for directory in directories:
            directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatasetError(
            f"{option} {place} cannot be used: {error.strerror}; choose another"
        ) from error


@contextmanager
def _storage(doing: str, out: Path) -> Iterator[None]:
    """What a file system refuses is a line that says where."""
    try:
        yield
    except BrokenPipeError:
        raise  # nobody reads the terminal's lines any more; not the output directory's fault
    except OSError as error:
        raise storage_error(error, out, doing) from error


def _scan_what_changed(
    dataset: Dataset,
    units: Sequence[ScanUnit],
    index: Path,
    workers: Workers,
    reporter: Reporter,
    *,
    trust: bool,
) -> IndexParts:
    """The index of everything that was found; what is not indexed, or has changed, is scanned.

    Args:
        dataset: what is prepared.
        units: what was found of it.
        index: where the index is.
        workers: who scans.
        reporter: who is told.
        trust: False: all is scanned again. Files rewritten in place leave their folder's time as
            it was.

    Raises:
        DataprepError: something cannot be scanned.
    """
    raw = workers.requirements.raw
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

        scan = Scan(dataset, raw, index)
        try:
            with workers.task(scan, "scan") as spec:
                work = ScanIntoIndex(spec, workers.engine.scan_processes(), workers.failures)
                stop = workers.failures.stop
                workers.engine.run(stale, work, Parallelism(), watch=Paced(watch), stop=stop)
            watch()
        except TasksFailedError:
            workers.failures.reraise()  # says more
            raise
        finally:
            reporter.finished()
        workers.failures.reraise()
        kept |= {unit: read_part(index, unit) for unit in stale}
    parts = IndexParts(index, {unit: part for unit, part in kept.items() if part is not None})
    for unit in kept.keys() - parts.units.keys():
        raise PipelineError(
            f"the engine ended but {unit.name} was not scanned; run the same command again"
        )
    return parts


def _write_shards(job: Job, workers: Workers, reporter: Reporter) -> list[CommitRecord]:
    """Make and commit every shard of the job that is not there yet, in as many rounds as it takes.

    A shard that fails is tried again when the others are done, twice.

    Args:
        job: what to build.
        workers: who makes the shards.
        reporter: who is told.

    Returns:
        The commit record of every shard.

    Raises:
        DataprepError: a shard failed in every round, or the run as a whole; everything committed
            so far is kept.
        LockedError: another run has taken the directory over.
    """
    workspace, engine = job.workspace, workers.engine
    done = _finished(workspace, job.shard_names())
    job.check_rejected(done.values())
    pending = [shard for shard in job.shard_names() if shard not in done]
    if not pending:
        reporter.line(f"{counted(len(done), 'shard')} already there, nothing to write")
        return list(done.values())
    if done:
        reporter.line(
            f"resuming: {counted(len(done), 'shard')} already there, {len(pending)} to make"
        )
    # Looking took a while, and what is a lie in this run's eyes may be another's finished work.
    check_held(job.lease)
    _forget(workspace, pending)
    images = sum(split.images for split in job.splits) if job.works_on_images else 0
    parallelism = engine.parallelism(len(pending), images=images)
    check_free_space(job, pending, at_once=engine.shards_at_once(parallelism))
    lay_out(job, pending, reporter.line)
    failed: dict[ShardName, DataprepError] = {}
    with workers.task(job, "write") as spec:
        for pause in (0.0, *_PAUSES):
            if failed:
                pending = [shard for shard, error in failed.items() if _may_succeed(error)]
                if not pending:
                    break
                reporter.line(f"trying {counted(len(pending), 'failed shard')} again")
                time.sleep(pause)
            said = _write_round(job, pending, workers, spec, parallelism, reporter, failed)
            check_held(job.lease)
            made = _finished(workspace, pending)
            done |= made
            failed |= {shard: said[shard] for shard in pending if shard not in made}
            failed = {shard: error for shard, error in failed.items() if shard not in made}
            if not failed:
                return [done[shard] for shard in job.shard_names()]
    raise _all_failures(failed)


def _finished(workspace: Workspace, shards: Sequence[ShardName]) -> dict[ShardName, CommitRecord]:
    """Those of the shards that are there."""
    found = {shard: finished_shard(workspace, shard) for shard in shards}
    return {shard: record for shard, record in found.items() if record is not None}


def _forget(workspace: Workspace, pending: Sequence[ShardName]) -> None:
    """A seal or a record of a shard that must be made again would be a lie meanwhile."""
    workspace.manifest.unlink(missing_ok=True)
    for shard in pending:
        place = workspace.record(shard)
        remove_unless_file(place)
        place.unlink(missing_ok=True)
    forget_progress(workspace)


def _write_round(
    job: Job,
    shards: Sequence[ShardName],
    workers: Workers,
    spec: TaskSpec,
    parallelism: Parallelism,
    reporter: Reporter,
    before: Mapping[ShardName, DataprepError],
) -> dict[ShardName, DataprepError]:
    """Try each of the shards once.

    Returns:
        What went wrong with each that is not there now: as ``before`` where nobody says.
    """
    from dataprep_pipelines.write import WriteShard

    failures = workers.failures
    failures.forget_shards()
    # Later rounds hold nothing but what has failed: there it says nothing that much fails.
    at_once = workers.engine.shards_at_once(parallelism)
    # Elsewhere more may fail: a bad node fails faster than others work.
    most = _MANY_FAILED if workers.engine.is_local else max(_MANY_FAILED, _PER_SHARD * at_once)
    watch = RoundWatch(job, failures, reporter, math.inf if before else most)
    lost: Mapping[int, DataprepError] = {}
    try:
        with workers.engine.elements(shards, parallelism) as elements:
            work = WriteShard(spec, parallelism, failures)
            workers.engine.run(elements, work, parallelism, watch=watch.look, stop=failures.stop)
    except TasksFailedError as error:
        lost = error.errors
    finally:
        watch.end()
    failures.reraise()
    told = failures.of_shards()
    silent = PipelineError("the engine ended without making it")
    return {
        shard: told.get(str(shard)) or lost.get(position) or before.get(shard) or silent
        for position, shard in enumerate(shards)
    }


def _may_succeed(error: DataprepError) -> bool:
    return not isinstance(error, KillsWorkersError)


def _all_failures(failed: Mapping[ShardName, DataprepError]) -> DataprepError:
    shard, error = next(iter(failed.items()))
    others = f"; {counted(len(failed) - 1, 'other shard')} failed too" if len(failed) > 1 else ""
    tries = f" {len(_PAUSES) + 1} times" if _may_succeed(error) else ""
    found = type(error)(
        f"{shard} failed{tries}: {error}{others}; finished shards are kept: run the same command "
        "again to resume"
    )
    found.__cause__ = error.__cause__
    return found
