"""Making a data set of raw images, from finding them to the seal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dataprep.errors import DatasetError, UsageError
from dataprep.images.dicom import BURNED_IN
from dataprep.jobs.output.index_parts import check_unchanged
from dataprep.jobs.preparing.found import RawData, bring_back_copies, config_of, found, scan
from dataprep.jobs.preparing.raw_images import STORED_WITH_8_BITS, RawImages
from dataprep.jobs.preparing.summary import (
    cannot_grow,
    check_rejected,
    check_unmatched,
    open_images,
    summarize,
)
from dataprep.jobs.request import Request, describe_examples
from dataprep.jobs.running.engine import Engine, Reporter
from dataprep.jobs.running.identity import claim, claim_generation, is_other_job
from dataprep.jobs.running.job import Job, describe_splits, kept_info, split_job
from dataprep.jobs.running.seal import seal
from dataprep.options import options_of
from dataprep.sealed.set import SealedSet
from dataprep.system.messages import counted, some_of
from dataprep.system.state_files import digest_of
from dataprep.tables.records import SHALLOWER, RecordsTable, count_reasons
from dataprep_schemas.fields import FOLD
from dataprep_schemas.manifest import Excluded, Identity

if TYPE_CHECKING:
    from dataprep.tables.images import Images
    from dataprep_schemas.state import ScanSummary


def prepare(request: Request, engine: Engine, reporter: Reporter) -> SealedSet:
    """Build the data set, or finish building it.

    Raises:
        DataprepError: any of its kinds; everything committed so far is kept.
    """
    with found(request, engine, reporter) as raw:
        return make(raw, raw.request, grown=None) or SealedSet.read(raw.request.out)


def make(raw: RawData, request: Request, grown: SealedSet | None) -> SealedSet | None:
    """Scan what changed, check the images, put them in order, write their shards, seal.

    Args:
        request: what is to be made, and where.
        grown: a data set that is to get what is made; only images that it lacks are taken. None if
            it lacks none.
    """
    parts = scan(raw, trust=not request.overwrite)
    with open_images(raw, request, parts, grown) as images:
        summary = summarize(raw, request, parts, images, grown)
        check_unmatched(request, summary, grown)
        if grown is not None:
            if not summary.input:
                return None
            request = _sized_like(grown, request, summary, raw.report)
        source = raw.images(request, parts)
        job, identity = plan(raw, request, summary, source)
        for text in describe_splits(job, raw.found.official_counts):
            raw.report(text)
        # Only now, when nothing that was asked for can be refused any more.
        units = parts.digests()
        job, identity = _claimed(raw, job, identity, units, images, grown)
        # Of what shapes the order: the job's identity, which is the same for every raw layout, and
        # what the index was made from, since the order says where the bytes are.
        token = digest_of([identity, units])
        if not job.is_ordered(token):
            raw.workers.get_ready(job)
            from dataprep.tables.order import order_columns  # while others get ready

            _choose(job, request, images)
            columns, seed = order_columns(images), request.seed
            alone = images.are_alone and request.limit is None
            index, sort = parts.tables() if alone else (), raw.workers.sort
            job.shuffle(token, images.database, columns, seed, index=index, sort=sort)
        for text in source.describe_depth(job):
            raw.report(text)
    bring_back_copies(raw, job, parts)
    records = raw.workers.write(job)
    check_unchanged(parts, raw.scan_into(parts.directory))
    check_rejected(job, request, records, summary, grown, raw.report)
    with open_images(raw, request, parts, grown) as images:
        known = summary.has_unstored or images.statuses.get("excluded")
        others = images.unstored() if known else ()
        made = seal(job, identity, records, raw.report, others=others)
    if request.index_dir is None:
        parts.delete_copies()
    _report_reasons(job.workspace.records, raw.report)
    return made


def _claimed(
    raw: RawData,
    job: Job,
    identity: Identity,
    units: Mapping[str, str],
    images: Images,
    grown: SealedSet | None,
) -> tuple[Job, Identity]:
    """Make the directory the job's own; tell what that changes for who has what is there."""
    if grown is not None:
        identity = claim_generation(job, identity, units, grown, raw.report)
        remedy = "free some space: new shards are put beside the old ones"
        return replace(job, remedy=remedy), identity
    overwrite = job.request.overwrite
    if overwrite or is_other_job(job.workspace, identity, units):
        _report_changes(raw, job, images)
    return job, claim(job, identity, units, overwrite=overwrite)


def _report_reasons(table: Path, report: Callable[[str], None]) -> None:
    if deep := count_reasons(table, SHALLOWER):
        report(f"{counted(deep, 'image')} {STORED_WITH_8_BITS}")
    if burned := count_reasons(table, BURNED_IN):
        report(
            f"{counted(burned, 'DICOM image')}: {BURNED_IN}, so text in the pictures may tell of "
            "people; records.parquet has that in their reason"
        )


def _sized_like(
    grown: SealedSet, request: Request, summary: ScanSummary, report: Callable[[str], None]
) -> Request:
    """The request with as many shards as make none larger than the largest there is."""
    number, splits = len(grown.manifest.classes), grown.manifest.splits
    if new := [name for name, _ in summary.classes[number:]]:
        report(
            f"{counted(len(new), 'new class', 'new classes')}, numbered from {number} on so "
            f"that no label moves: {some_of(new)}"
        )
    if gone := summary.input.keys() - splits.keys():
        raise cannot_grow(
            grown.out,
            f"new images are in {min(gone)}, of which decisions left nothing",
            "prepare all images, and apply the decisions to that",
        )
    counts = {
        name: -(-new.images // splits[name].records_per_shard[1])
        for name, new in summary.input.items()
    }
    return replace(request, num_shards=counts)


def plan(
    raw: RawData, request: Request, summary: ScanSummary, source: RawImages
) -> tuple[Job, Identity]:
    """Decide the shards.

    Returns:
        The job, and its identity: everything that shapes the bytes of the output, the same for
        every raw layout.

    Raises:
        UsageError: the shard counts do not fit, or the format cannot hold such a data set.
    """
    info = describe_examples(summary.classes, request.recipe, raw.found)
    if request.folds is not None:
        if FOLD.name in (field.name.lower() for field in info.fields):
            raise UsageError("--folds: the images have an attribute fold already; rename it")
        info = replace(info, fields=(*info.fields, FOLD))
    kept = kept_info(info, request.load_sink(), raw.report)
    splits = tuple(
        split_job(name, summary.input[name], request.shuffle_of(name), request, kept)
        for name in summary.splits
    )
    job = Job(request, kept, info.fields, splits, raw.workers.lease, source)
    left_out = summary.excluded
    return job, Identity(
        dataset=request.dataset,
        dataset_config=config_of(raw),
        seed=request.seed,
        limit=request.said_limit,
        folds=request.folds,
        shuffle={split.name: split.shuffle for split in splits},
        image=request.recipe.config(),
        classes_sha256=digest_of(info.classes),
        unmatched=summary.unmatched,
        counts=summary.counts,
        excluded=None if left_out is None else Excluded(left_out.images, left_out.digest),
        input=summary.input,
        **job.output_identity(),
    )


def _choose(job: Job, request: Request, images: Images) -> None:
    images.choose(
        [split.name for split in job.splits],
        [name for name, _ in job.info.classes],
        multilabel=job.info.multilabel,
        seed=request.seed,
        limit=request.limit,
    )


def _report_changes(raw: RawData, job: Job, images: Images) -> None:
    """Tell what images of the data set in OUT would not have any more, before it is deleted."""
    request, out = raw.request, job.request.out
    try:
        sealed = SealedSet.read(out)
        RecordsTable(sealed.out, sealed.manifest.records_table).close()  # its columns are ours
    except DatasetError:
        return  # none is there, or a damaged one
    _choose(job, request, images)
    if not (changed := images.changed()):
        return
    said = " and ".join(
        f"{counted(number, 'image')} another {what} ({some_of(keys)})"
        for what, number, keys in changed
    )
    options = {option.name for option in options_of(raw.dataset.Options)}
    keeps = ["--classes FILE with the classes in their old order"] * ("classes" in options)
    keeps += [f"--splits_from {out}"] * (raw.found.cut is not None)
    raw.report(
        f"{out} is a finished data set, and of those there this gives {said}; what keeps "
        f"them: {', '.join([*keeps, '--append'])}"
    )
