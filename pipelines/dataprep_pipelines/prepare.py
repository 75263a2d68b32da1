"""The whole job: find, scan, deal, write, seal. What `dataprep imagenet` and its like run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from dataprep.assembly.build_directory import remove_build_directories
from dataprep.assembly.contents import Inherited
from dataprep.assembly.fitting import fit_request
from dataprep.assembly.index_parts import IndexPart, is_unchanged
from dataprep.assembly.lock import Lease, check_held, locked
from dataprep.assembly.overwrite import check_request
from dataprep.assembly.plan import plan
from dataprep.assembly.request import Request
from dataprep.assembly.seal import Outcome, seal
from dataprep.assembly.survey import Survey, check_splits, survey
from dataprep.assembly.sweeping import remove_partial_files
from dataprep.assembly.unmatched import check_unmatched, publish_unmatched, report_unmatched
from dataprep.assembly.workspace import Workspace, storage_error
from dataprep.canonical import to_json
from dataprep.errors import DatasetError, SourceError
from dataprep.plugins import load_dataset
from dataprep.sources import Dataset, Found, close_archives
from dataprep.wording import counted, printable
from dataprep_pipelines.at_work import at_work
from dataprep_pipelines.build import build
from dataprep_pipelines.engines import Engine, Running, check
from dataprep_pipelines.engines.shared_places import SharedPlaces
from dataprep_pipelines.failures import FailureLog
from dataprep_pipelines.indexing import index_of
from dataprep_pipelines.reporter import Reporter


def prepare(request: Request, engine: Engine, reporter: Reporter) -> Outcome:
    """Build the data set, or finish building it.

    Raises:
        DataprepError: any of its kinds; everything committed so far is kept.
    """
    dataset = load_dataset(request.dataset, request.dataset_options)
    request = fit_request(request, dataset)
    close_archives()  # a new search starts from the files as they are now
    found = dataset.find(request.raw, request.splits)
    check_request(request, found)
    if found.splits is not None:
        check_splits(request, found.splits)
    check(engine)
    for text in found.description:
        reporter.line(text)
    # Absolute, because workers need not have this process's working directory.
    workspace = Workspace(request.out.absolute())
    _make(workspace, request.index_dir)
    try:
        with locked(workspace, report=reporter.line) as lease:
            remove_partial_files(workspace, found.splits or ())
            remove_build_directories(workspace, request.build_dir)
            raw, others = request.raw.absolute(), _other_places(request)
            places = SharedPlaces(workspace.out, raw, workspace.lock, others)
            splits = found.splits or ()
            with at_work(engine, places, lease, splits, reporter.line) as (running, for_workers):
                return _prepare(request, running, places, dataset, found, for_workers, reporter)
    except BrokenPipeError:
        raise  # nobody reads the terminal's lines any more; not the output directory's fault
    except OSError as error:
        raise storage_error(error, request.out) from error


def _prepare(
    request: Request,
    running: Running,
    places: SharedPlaces,
    dataset: Dataset,
    found: Found,
    lease: Lease,
    reporter: Reporter,
) -> Outcome:
    workspace = Workspace(places.out)
    failures = FailureLog(lease)
    index = _index_directory(request, dataset, workspace)
    parts = index_of(request, running, places, dataset, found, index, failures, reporter)
    surveyed = survey(request, workspace, dataset, found, parts)
    _report(surveyed, reporter)
    report_unmatched(surveyed.unmatched, reporter.line)
    images = sum(min(count, request.limit or count) for count in surveyed.images.values())
    check_unmatched(surveyed.unmatched, images, request.max_bad)
    job, identity = plan(
        request,
        workspace,
        surveyed,
        lease,
        dataset=dataset,
        index=index,
        official=found.official_counts,
        report=reporter.line,
    )
    check_held(workspace, lease)
    publish_unmatched(workspace, surveyed.unmatched)
    build(job, running, places, failures, reporter, request.striping)
    _check_unchanged(parts, dataset, request.raw)
    ignored = surveyed.ignored
    return seal(
        job,
        identity,
        {split.name: Inherited(ignored=ignored.get(split.name, ())) for split in job.splits},
        max_bad=request.max_bad,
        keep_rejected=request.keep_rejected,
        report=reporter.line,
        missing=surveyed.unmatched.missing.number,
        unlisted=surveyed.unmatched.unlisted.number,
    )


def _other_places(request: Request) -> tuple[tuple[str, Path], ...]:
    given = {"--index_dir": request.index_dir, "--build_dir": request.build_dir}
    return tuple((option, path.absolute()) for option, path in given.items() if path is not None)


def _index_directory(request: Request, dataset: Dataset, workspace: Workspace) -> Path:
    """Where the index is kept; a shared place has a directory for each data set and its options.

    Two runs with other options would otherwise take each other's parts away.
    """
    if request.index_dir is None:
        return workspace.index
    made_of = [dataset.name, dict(dataset.config()), str(request.raw.absolute())]
    name = f"{dataset.name}-{hashlib.sha256(to_json(made_of)).hexdigest()[:12]}"
    directory = request.index_dir.absolute() / name
    directory.mkdir(exist_ok=True)
    return directory


def _report(surveyed: Survey, reporter: Reporter) -> None:
    for split, entries in surveyed.ignored.items():
        reporter.line(_describe_ignored(split, entries))
    for what, number in surveyed.counts.items():
        reporter.line(f"{what}: {number:,} in the raw data")


def _check_unchanged(parts: Sequence[IndexPart], dataset: Dataset, raw: Path) -> None:
    """What was read must be what was indexed: images cannot tell that they were exchanged."""
    for part in parts:
        if not is_unchanged(part, dataset, raw):
            raise SourceError(
                f"{printable(part.unit.container)}, or a list of what is in it, changed while it "
                "was read; nothing was sealed: leave the raw data alone and run again with "
                "--overwrite"
            )


def _make(workspace: Workspace, index_dir: Path | None) -> None:
    option, place = "--local_scratch_dir", workspace.out
    try:
        workspace.make()
        if index_dir is not None:
            option, place = "--index_dir", index_dir
            index_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatasetError(
            f"{option} {place} cannot be used: {error.strerror}; choose another"
        ) from error


def _describe_ignored(split: str, entries: Sequence[Mapping[str, str]]) -> str:
    first = entries[0]
    what = counted(len(entries), "file") + " ignored"
    place = printable(first["container"]) or "the raw directory"
    where = f"{first['name']!r} in {place}"
    return f"{split}: {what}, the first {where}: {first['reason']}"
