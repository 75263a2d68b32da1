"""Making a data set of raw images, from finding them to the seal."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dataprep.datasets import Dataset, Found, close_archives
from dataprep.errors import DatasetError, SinkError, UsageError
from dataprep.images.dicom import BURNED_IN
from dataprep.jobs.commit import finished_shard
from dataprep.jobs.engine import Engine, Reporter, Workers, working
from dataprep.jobs.identity import claim, claim_generation, is_other_job, other_versions
from dataprep.jobs.index_parts import (
    IndexParts,
    Scan,
    check_unchanged,
    forget_part,
    has_part,
    shared_index_directory,
)
from dataprep.jobs.job import Job, describe_splits, kept_info, split_job
from dataprep.jobs.links import describe_links, refuse_links
from dataprep.jobs.raw_images import STORED_WITH_8_BITS, RawImages
from dataprep.jobs.request import Request, absolute, check_splits, describe_examples, settle
from dataprep.jobs.seal import check_rejected, seal
from dataprep.jobs.summary import check_unmatched, open_images, report_summary, summarize
from dataprep.jobs.workspace import Workspace
from dataprep.plugins import load_dataset
from dataprep.remote.raw import laid_out
from dataprep.remote.store import address_of
from dataprep.sealed.set import SealedSet
from dataprep.system.durable_files import partial_path, rename
from dataprep.system.messages import counted, printable, refusal, sized, some_of
from dataprep.system.state_files import digest_of, file_sha256
from dataprep.tables.cut import StratifiedCut
from dataprep.tables.records import NAME, SHALLOWER, RecordsTable, check_sealed, count_reasons
from dataprep_schemas.manifest import Excluded, Identity
from dataprep_schemas.tables import CAPTIONS

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


@dataclass(frozen=True, slots=True)
class RawData:
    """Raw data that was found, and who is to make something of it.

    Attributes:
        request: with absolute paths, and the recipe that the data set and the format need.
    """

    request: Request
    dataset: Dataset
    found: Found
    workers: Workers
    report: Callable[[str], None]

    def scan_into(self, index: Path) -> Scan:
        """What workers are to scan, into a directory."""
        return Scan(self.dataset, self.request.raw, self.found, index)


@contextmanager
def found(request: Request, engine: Engine, reporter: Reporter) -> Iterator[RawData]:
    """Find the raw data, and hold OUT.

    Raises:
        DataprepError: what was asked for is not there, or OUT is somebody else's.
    """
    dataset = load_dataset(request.dataset, request.dataset_options)
    request = _of_bucket(absolute(request))
    close_archives()  # a new search starts from the files as they are now
    what = dataset.find(request.raw, request.splits)
    request = settle(request, what)
    check_places(request, what)
    if request.links == "follow" and (text := describe_links(request.raw)):
        what = replace(what, description=(*what.description, text))
    if what.splits is not None:
        check_splits(request.num_shards, what.splits)
    engine.check()
    for text in what.description:
        reporter.line(text)
    workspace = Workspace(request.out)
    given = {"--index_dir": request.index_dir, "--build_dir": request.build_dir}
    places = {"--raw": request.raw} | {option: path for option, path in given.items() if path}
    with working(workspace, engine, places, what.splits or (), reporter) as workers:
        if what.cut is not None:
            what = replace(what, cut=settle_cut(request, what.cut))
        yield RawData(request, dataset, what, workers, reporter.line)


def _of_bucket(request: Request) -> Request:
    """The request with a directory in the place of a bucket, which all workers see."""
    if (address := address_of(request.raw)) is None:
        return request
    workspace = Workspace(request.out)
    workspace.require_own()
    return replace(request, raw=laid_out(address, request.index_dir or workspace.private))


def check_places(request: Request, found: Found) -> None:
    """Refuse, before anything is scanned, what can only go wrong.

    Raises:
        UsageError: a directory is in the raw data or among the shards, where its files would be
            taken for images or shards.
    """
    raw, out, index = request.raw.resolve(), request.out.resolve(), request.index_dir
    containers = [Path(unit.container) for unit in found.units]
    scanned = {raw.joinpath(*path.parts[:1]) for path in containers if not path.is_absolute()}
    if found.whole:
        scanned.add(raw)
    chosen = {"--out": out} | ({"--index_dir": index.resolve()} if index else {})
    for option, place in chosen.items():
        if place == raw or any(each == place or each in place.parents for each in scanned):
            raise UsageError(
                f"{option} {place} is in the raw data, where a later run would take its files "
                "for images; choose a directory of its own"
            )
        if option == "--index_dir" and place in (out, *(out / name for name in found.splits or ())):
            raise UsageError(
                f"{option} {place} is where shards go, and readers would take its files for "
                "shards; choose a directory of its own"
            )


def make(raw: RawData, request: Request, grown: SealedSet | None) -> SealedSet | None:
    """Scan what changed, check the images, put them in order, write their shards, seal.

    Args:
        request: what is to be made, and where.
        grown: a data set that is to get what is made; only images that it lacks are taken. None if
            it lacks none.
    """
    dataset, report, workers = raw.dataset, raw.report, raw.workers
    index = Workspace(raw.request.out).index
    if request.index_dir is not None:
        index = shared_index_directory(request.index_dir, dataset, request.raw)
    parts = scan(raw, index, trust=not request.overwrite)
    before = (0, 0)  # images that the data set was made from, and those of them rejected
    if grown is not None:
        images_before = sum(split.images for split in grown.manifest.input.values())
        before = images_before, grown.manifest.totals.rejected
    with open_images(parts, dataset, raw.found, request, grown) as images:
        if request.links == "inside":
            refuse_links(request.raw, raw.found, images)
        summary = summarize(request, dataset, raw.found, parts, images, grown)
        report_summary(summary, report, stratified=raw.found.cut is not None)
        check_unmatched(summary, request.max_bad, Workspace(request.out).unmatched, before)
        if grown is not None:
            if not summary.input:
                return None
            request = _sized_like(grown, request, summary, report)
        source = RawImages(request.raw, index, request.recipe, raw.found.names_files)
        job, identity = plan(raw, request, summary, source)
        for text in describe_splits(job, raw.found.official_counts):
            report(text)
        # Only now, when nothing that was asked for can be refused any more.
        units = parts.digests()
        if grown is None:
            if request.overwrite or is_other_job(job.workspace, identity, units):
                _report_changes(job, images, raw, request)
            identity = claim(job, identity, units, overwrite=request.overwrite)
        else:
            if other := other_versions(grown, identity):
                report(other)
            identity = claim_generation(job, identity, units)
            job = replace(job, remedy="free some space: new shards are put beside the old ones")
        # Of what shapes the order: the job's identity, which is the same for every raw layout, and
        # what the index was made from, since the order says where the bytes are.
        token = digest_of([identity, units])
        if splits := job.unordered(token):
            workers.get_ready(job)
            from dataprep.tables.order import order_columns  # while others get ready

            _choose(job, request, images)
            job.shuffle(splits, token, images.database, order_columns(images), request.seed)
        for text in source.describe_depth(job):
            report(text)
    lost = parts.without_copies()
    if lost and any(finished_shard(job.workspace, shard) is None for shard in job.shard_names()):
        for unit in lost:
            forget_part(index, unit)
        _check_room(index, raw.found)
        workers.scan(raw.scan_into(index), trust=True)
    records = workers.write(job)
    check_unchanged(parts, raw.scan_into(index))
    check_rejected(job, records, request.max_bad, report, summary, before)
    with open_images(parts, dataset, raw.found, request, grown) as images:
        known = summary.has_unstored or images.statuses.get("excluded")
        others = images.unstored() if known else ()
        made = seal(job, identity, records, report, others=others)
    if request.index_dir is None:
        parts.delete_copies()
    if deep := count_reasons(job.workspace.records, SHALLOWER):
        report(f"{counted(deep, 'image')} {STORED_WITH_8_BITS}")
    if burned := count_reasons(job.workspace.records, BURNED_IN):
        report(
            f"{counted(burned, 'DICOM image')}: {BURNED_IN}, so text in the pictures may tell of "
            "people; records.parquet has that in their reason"
        )
    return made


def scan(raw: RawData, index: Path, *, trust: bool) -> IndexParts:
    """The index of all there is."""
    if not (trust and all(has_part(index, unit) for unit in raw.found.units)):
        _check_room(index, raw.found)
    return raw.workers.scan(raw.scan_into(index), trust=trust)


def _check_room(index: Path, found: Found) -> None:
    """Refuse, before the first byte, copies of images that the disk has no room for."""
    there = sum(path.stat().st_size for path in index.glob("*.images"))
    free, needed = shutil.disk_usage(index.parent).free, found.copied - there
    if needed > free:
        raise SinkError(
            f"{index}: {sized(needed)} of images have to be copied from compressed Parquet, and "
            f"{sized(free)} are free; make room, or choose another disk with --index_dir "
            "(TMPDIR, where nothing is to be made)"
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
        if "fold" in (name.lower() for name, _ in info.attributes):
            raise UsageError("--folds: the images have an attribute fold already; rename it")
        info = replace(info, attributes=(*info.attributes, ("fold", "int")))
    kept = kept_info(info, request.load_sink(), raw.report)
    splits = tuple(
        split_job(name, summary.input[name], request.shuffle_of(name), request, kept)
        for name in summary.splits
    )
    own = (*(CAPTIONS,) * info.captions, *info.attributes)
    job = Job(request, kept, own, splits, raw.workers.lease, source)
    left_out = summary.excluded
    return job, Identity(
        dataset=request.dataset,
        dataset_config=config_of(raw),
        seed=request.seed,
        limit=request.limit,
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


def _report_changes(
    job: Job,
    images: Images,
    raw: RawData,
    request: Request,
) -> None:
    """Tell what images of the data set in OUT would not have any more, before it is deleted."""
    try:
        sealed = SealedSet.read(request.out)
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
    options = {option.name for option in raw.dataset.OPTIONS}
    keeps = ["--classes FILE with the classes in their old order"] * ("classes" in options)
    keeps += [f"--splits_from {request.out}"] * (raw.found.cut is not None)
    raw.report(
        f"{request.out} is a finished data set, and of those there this gives {said}; what keeps "
        f"them: {', '.join([*keeps, '--append'])}"
    )


def settle_cut(request: Request, cut: StratifiedCut) -> StratifiedCut:
    """The cut with a table to read, and its digest; hold OUT.

    Of OUT itself a copy is kept there, since a run that deletes the table may be killed, and must
    find it when it is run again.

    Raises:
        DatasetError: there is no sealed set, or its table is damaged.
        UsageError: a table cannot be read.
    """
    if cut.kept is None:
        return cut
    table = cut.kept
    if table.is_dir():
        workspace = Workspace(request.out)
        own = table.resolve() == request.out.resolve()
        again = request.overwrite and workspace.manifest.exists()
        if own and workspace.kept_splits.exists() and not again:
            table = workspace.kept_splits
        else:
            check_sealed(table / NAME, SealedSet.read(table).manifest.records_table)
            table = table / NAME
            if own:
                temporary = partial_path(workspace.kept_splits)
                try:
                    shutil.copyfile(table, temporary)
                    rename(temporary, workspace.kept_splits)
                finally:
                    temporary.unlink(missing_ok=True)
                table = workspace.kept_splits
    try:
        return replace(cut, kept=table, digest=file_sha256(table))
    except OSError as error:
        raise UsageError(
            f"--splits_from {printable(str(table))} cannot be read ({refusal(error)}); check the "
            "path"
        ) from error


def config_of(raw: RawData) -> dict[str, str]:
    """The options that shape the data set: its own, and a digest of what is assigned."""
    digest = "" if raw.found.cut is None else raw.found.cut.digest
    return {**raw.dataset.config(), **({"splits_from": digest} if digest else {})}
