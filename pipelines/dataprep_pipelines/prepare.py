"""The whole job: find, scan, deal, write, seal. What `dataprep imagenet` and its like run."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from dataprep.build.build_directory import remove_build_directories
from dataprep.build.claim import check_request, remove_partial_files
from dataprep.build.fitting import fit_request
from dataprep.build.index_parts import is_unchanged
from dataprep.build.lock import Lease, check_held, locked
from dataprep.build.plan import plan
from dataprep.build.request import Request
from dataprep.build.seal import Outcome, seal
from dataprep.build.summary import (
    Parts,
    check_splits,
    check_unmatched,
    digests_of,
    part_tables,
    report_summary,
    statuses_of,
    summarize,
)
from dataprep.build.workspace import Workspace
from dataprep.datasets import Dataset, Found, close_archives
from dataprep.errors import DatasetError, SourceError
from dataprep.plugins import load_dataset
from dataprep.system.durable_files import storage_error
from dataprep.system.messages import printable
from dataprep.system.state_files import to_json
from dataprep_pipelines.at_work import at_work
from dataprep_pipelines.build import build
from dataprep_pipelines.failures import FailureLog
from dataprep_pipelines.indexing import index_of
from dataprep_pipelines.reporter import Reporter
from dataprep_pipelines.runners import Engine, Running, check
from dataprep_pipelines.runners.shared_places import SharedPlaces

if TYPE_CHECKING:
    from dataprep.index.images import Images


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
        raise storage_error(error, request.out, "preparing") from error


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
    with _images_of(request, workspace, dataset, index, parts) as images:
        summary = summarize(request, workspace, dataset, found, parts, images)
        report_summary(summary, reporter.line)
        check_unmatched(request, workspace, summary)
        job, identity = plan(
            request,
            workspace,
            summary,
            images,
            digests_of(parts),
            lease,
            dataset=dataset,
            index=index,
            official=found.official_counts,
            report=reporter.line,
        )
    check_held(workspace, lease)
    build(job, running, places, failures, reporter, request.striping)
    _check_unchanged(parts, dataset, request.raw)
    with _images_of(request, workspace, dataset, index, parts) as images:
        return seal(
            job,
            identity,
            max_bad=request.max_bad,
            keep_rejected=request.keep_rejected,
            report=reporter.line,
            missing=summary.unmatched.missing,
            unlisted=summary.unmatched.unlisted,
            others=images.unstored() if summary.unmatched.number or summary.ignored[0] else (),
        )


def _images_of(
    request: Request, workspace: Workspace, dataset: Dataset, index: Path, parts: Parts
) -> Images:
    from dataprep.index.images import Images

    return Images(
        part_tables(index, parts),
        workspace.private,
        statuses_of(parts),
        [attribute.name for attribute in dataset.attributes],
        request.splits,
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


def _check_unchanged(parts: Parts, dataset: Dataset, raw: Path) -> None:
    """What was read must be what was indexed: images cannot tell that they were exchanged."""
    for unit, part in parts:
        if not is_unchanged(part, dataset, raw, unit):
            raise SourceError(
                f"{printable(unit.container)}, or a list of what is in it, changed while it "
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
