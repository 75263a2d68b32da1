"""Making a data set of a finished one, without the raw data: in another format, or rebalanced.

What decides where an image goes when one that grew is rebalanced, its key, split and labels, is in
the table of records, and seed and shuffle are in the manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace as with_options
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from dataprep.errors import DatasetError, UsageError
from dataprep.images import Recipe
from dataprep.jobs.engine import Engine, Reporter, working
from dataprep.jobs.identity import COMPACTED, CONVERTED, claim, claim_generation, identity_of
from dataprep.jobs.job import Job, SplitJob, choose_shard_count, describe_splits, kept_info
from dataprep.jobs.lock import Lease
from dataprep.jobs.merge import exchange
from dataprep.jobs.request import ConvertRequest, absolute, check_splits, recipe_for
from dataprep.jobs.seal import seal
from dataprep.jobs.sealed_images import SealedImages
from dataprep.jobs.workspace import Workspace
from dataprep.sealed.set import SealedSet, first_rows
from dataprep.sealed.verify import Verified
from dataprep.sinks import DatasetInfo
from dataprep.system.messages import counted, sized
from dataprep.system.state_files import digest_of
from dataprep.tables.records import RecordsTable
from dataprep.version import __version__
from dataprep_schemas.manifest import Ancestor, Identity, Manifest

if TYPE_CHECKING:
    import pyarrow as pa

_SECOND_LOSS: Final = (
    "JPEGs are decoded and encoded again, which loses a little of each; made from the raw data "
    "they would be better"
)
_REMEDY: Final = "free some space: the old shards stay until all new ones are there"


def convert(
    request: ConvertRequest, engine: Engine, reporter: Reporter, checked: Callable[[], Verified]
) -> SealedSet:
    """Make another format of a finished data set, or finish that.

    Args:
        checked: verifies the data set first.

    Raises:
        DataprepError: any of its kinds; everything committed so far is kept.
    """
    source = SealedSet.read(request.source)
    request = _settled(request, source)
    engine.check()
    refuse_damaged(source, checked(), "converted")
    workspace, places = Workspace(request.out), {"SRC": request.source}
    with working(workspace, engine, places, [*source.splits], reporter) as workers:
        job, identity = _plan(request, source, workers.lease, reporter.line)
        claim(job, identity, {CONVERTED: source.manifest.sha256}, overwrite=request.overwrite)
        _order(job, source)
        records = workers.write(job)
        known = {} if job.source.works_on_images else source.manifest.splits
        return seal(
            job,
            identity,
            records,
            reporter.line,
            others=unstored_rows(source),
            statistics={name: split.statistics for name, split in known.items()},
        )


def refuse_damaged(source: SealedSet, found: Verified, doing: str) -> None:
    """Formats without checksums would otherwise pass damage on, under a new hash.

    Args:
        doing: what was to be done, for the message: ``converted``.

    Raises:
        DatasetError: the data set is damaged.
    """
    if found.problems:
        raise DatasetError(
            f"{source.out} is damaged: {found.problems[0].path}: {found.problems[0].what}; "
            f"`dataprep verify` names all bad files; nothing was {doing}"
        )


def _settled(request: ConvertRequest, source: SealedSet) -> ConvertRequest:
    """The request with absolute paths and the recipe that the source and the format need.

    Raises:
        UsageError: the format cannot hold what the data set has.
        DatasetError: only a part of the data set is there.
    """
    source.require_whole("converted")
    sink = request.load_sink()
    there, out = request.source.resolve(), request.out.resolve()
    if there == out or there in out.parents:
        raise UsageError(
            f"--to {request.out} is in what is to be converted; choose another directory"
        )
    request = with_options(absolute(request), recipe=_recipe(request, source))
    sink.check(_info(source, request.recipe))
    check_splits(request.num_shards, source.splits)
    return request


def _plan(
    request: ConvertRequest, source: SealedSet, lease: Lease, report: Callable[[str], None]
) -> tuple[Job, Identity]:
    """Decide the shards.

    Returns:
        The job, and its identity: what the raw data was stays; the format is another, and what was
        done to the images may be.

    Raises:
        UsageError: the shard counts do not fit.
    """
    manifest, recipe, sink = source.manifest, request.recipe, request.load_sink()
    with RecordsTable(request.source, manifest.records_table) as table:
        attributes = table.attributes
    info = kept_info(_info(source, recipe), sink, report)
    splits = tuple(_split(manifest, name, request, info) for name in manifest.splits)
    for split in splits:
        report(
            f"{split.name}: {counted(split.images, 'record')}, {sized(split.source_bytes)}, "
            f"in {counted(split.shards, 'shard')}, in the same order"
        )
    decoded, most = source.sink.pixels != sink.pixels, manifest.image.max_pixels
    images = SealedImages(request.source, manifest.sha256, recipe, decoded, most)
    job = Job(request, info, attributes, splits, lease, images)
    made_anew = None if recipe is None else manifest.image
    ancestor = Ancestor(manifest.sha256, manifest.sink, manifest.versions, made_anew)
    if recipe is not None and not source.sink.pixels and recipe.target("JPEG") == "JPEG":
        report(_SECOND_LOSS)
    return job, replace(
        identity_of(manifest),
        image=manifest.image if recipe is None else recipe.config(),
        lineage=(ancestor, *manifest.lineage),
        **job.output_identity(),
    )


def _order(job: Job, source: SealedSet) -> None:
    """The images in the order that they have, in as many shards as the job has.

    As many as there are keep their images; another number get runs of them, with sizes within 1.
    """
    manifest, own = source.manifest, [name for name, _ in job.attributes]
    token = digest_of([manifest.sha256, {split.name: split.shards for split in job.splits}])
    if not (splits := job.unordered(token)):
        return
    from dataprep.tables.order import as_recorded

    with RecordsTable(source.out, manifest.records_table) as table:
        for split in splits:
            sizes = [shard.records for shard in manifest.splits[split.name].shards]
            if split.shards != len(sizes):
                size, longer = divmod(split.images, split.shards)
                sizes = [size + (number < longer) for number in range(split.shards)]
            first = first_rows(manifest)[split.name][0]
            rows = range(first, first + split.images)
            job.keep_order(split, token, as_recorded(table, rows, sizes, own))


def _recipe(request: ConvertRequest, source: SealedSet) -> Recipe | None:
    """What is asked to be done to the images, as far as the source and the format allow it.

    Raises:
        UsageError: the format does not store such images.
    """
    recipe, before = request.recipe, source.manifest.image
    if recipe is None:
        return None
    sink = request.load_sink()
    if sink.pixels and recipe.color == "keep" and source.info.channels == 1:
        recipe = with_options(recipe, color="gray")
    recipe = recipe_for(recipe, sink)
    deep = recipe.encoding in ("keep", "png")
    return with_options(
        recipe,
        depth=before.depth if deep else "8",
        max_pixels=before.max_pixels,
        statistics="off" if before.statistics == "off" else "on",
    )


def _info(source: SealedSet, recipe: Recipe | None) -> DatasetInfo:
    """What is true of every example after the conversion."""
    info = source.info
    if recipe is None:
        return info
    if recipe.resize is not None or recipe.center_crop is not None:
        info = with_options(info, size=recipe.fixed_size)
    if recipe.color != "keep":
        info = with_options(info, colorspace="Grayscale" if recipe.color == "gray" else "RGB")
    return info


def unstored_rows(source: SealedSet, *, rejected: bool = True) -> Iterator[pa.Table]:
    """The rows of images that are not in the data set, without the shards they were to be in."""
    import pyarrow.compute as pc

    with RecordsTable(source.out, source.manifest.records_table) as table:
        for rows in table.between(source.records):
            chosen = rows if rejected else rows.filter(pc.not_equal(rows["status"], "rejected"))
            yield chosen.drop_columns(["shard"])


def _split(manifest: Manifest, name: str, request: ConvertRequest, info: DatasetInfo) -> SplitJob:
    split = manifest.splits[name]
    same, usual = len(split.shards), request.load_sink().usual_shards
    like = same if 1 < same <= (usual or same) else None
    return SplitJob(
        name=name,
        shards=choose_shard_count(name, split.records, request, info, like=like),
        shuffle=manifest.shuffle[name],
        images=split.records,
        source_bytes=split.bytes,
    )


# --- a data set that grew, as if made at once ---


def compact(
    request: ConvertRequest, engine: Engine, reporter: Reporter, checked: Callable[[], Verified]
) -> SealedSet:
    """Make a data set that grew one generation; nothing is done if it is one already.

    It is made anew in a directory of its own, which then takes the place of what there was.

    Args:
        checked: verifies the data set, whose shards are deleted in the end.

    Raises:
        DataprepError: any of its kinds; everything committed so far is kept.
    """
    request = absolute(request)
    engine.check()
    out, workspace = request.source, Workspace(request.source)
    # A run that was killed at its very end has left its lock.
    if not (workspace.journal.exists() or workspace.lock.exists() or _compactable(out)):
        return SealedSet.read(out)
    with working(workspace, engine, {"OUT": out}, (), reporter) as workers:
        grown = _compactable(out)
        if grown is None:
            return SealedSet.read(out)
        refuse_damaged(grown, checked(), "compacted")
        job, identity = _plan_even(request, grown, workers.lease)
        for text in describe_splits(job, {}):
            reporter.line(text)
        claim_generation(job, identity, {COMPACTED: grown.manifest.sha256})
        _order_anew(job, grown)
        records = workers.write(job)
        others = unstored_rows(grown, rejected=False)
        new = seal(job, identity, records, reporter.line, others=others)
        return exchange(grown, new.manifest, workers.lease)


def _compactable(out: Path) -> SealedSet | None:
    """The data set, if it can be compacted; None: it is one generation already.

    Raises:
        DatasetError: there is none, or it cannot; says what to do instead.
    """
    sealed = SealedSet.read(out)
    sealed.require_whole("compacted")
    if sealed.manifest.lineage:
        raise DatasetError(
            f"{out} was converted, so it cannot be compacted; compact what it was made from, and "
            "convert that again"
        )
    return sealed if sealed.manifest.generations else None


def _plan_even(request: ConvertRequest, grown: SealedSet, lease: Lease) -> tuple[Job, Identity]:
    """Decide the shards: as many images in each as in the first generation.

    Returns:
        The job, and its identity, which is that of a data set made at once.
    """
    workspace, manifest = Workspace(Workspace(request.source).generation), grown.manifest
    workspace.make()
    first = manifest.generations[0]
    splits = []
    for name, split in manifest.splits.items():
        largest = -(-first.input[name].images // first.splits[name].shards)
        found, shuffle = split.images_found, manifest.shuffle[name]
        splits.append(SplitJob(name, -(-found // largest), shuffle, found, split.bytes))
    request = with_options(
        request,
        out=workspace.out,
        sink=manifest.sink.name,
        sink_options=manifest.sink.config,
        layout=manifest.layout,
        num_shards={split.name: split.shards for split in splits},
    )
    with RecordsTable(request.source, manifest.records_table) as table:
        own = table.attributes
    most = manifest.image.max_pixels
    images = SealedImages(request.source, manifest.sha256, None, decoded=False, max_pixels=most)
    job = Job(request, grown.info, own, tuple(splits), lease, images, _REMEDY)
    # Images are copied: the codecs are still those that made them.
    versions = {**manifest.versions, "dataprep": __version__, **job.sink.versions()}
    output = {**job.output_identity(), "versions": versions}
    return job, replace(identity_of(manifest), **output)


def _order_anew(job: Job, grown: SealedSet) -> None:
    """The images in the order that they would have if all were new."""
    from dataprep.tables.label_sets import number_label_sets
    from dataprep.tables.order import open_recorded, recorded_columns

    manifest, info = grown.manifest, grown.info
    if splits := job.unordered(manifest.sha256):
        table, rows = Workspace(grown.out).records, manifest.records_table.rows
        names, classes = [split.name for split in job.splits], [name for name, _ in info.classes]
        with open_recorded(table, job.workspace.private, rows=rows) as database:
            number_label_sets(database, names, classes, multilabel=info.multilabel)
            columns = recorded_columns([name for name, _ in job.attributes])
            job.shuffle(splits, manifest.sha256, database, columns, manifest.seed)
