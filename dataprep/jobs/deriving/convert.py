"""Making a data set of finished ones, without the raw data: in another format, or of chosen images.

A conversion keeps the order of the images. Where some are chosen, or something of them is changed,
they are put in order as if they had just been found; what decides about it, their keys, splits and
labels, is in the tables of records, and seed and shuffle are in the manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace as with_options
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from msgspec.structs import replace

from dataprep.datasets.lists import load_class_list
from dataprep.datasets.splits import in_usual_order
from dataprep.errors import DatasetError, UsageError
from dataprep.images import Recipe
from dataprep.jobs.deriving.sealed_images import SealedImages, Source
from dataprep.jobs.deriving.selected import lineage, take
from dataprep.jobs.output.lock import Lease
from dataprep.jobs.output.workspace import Workspace
from dataprep.jobs.request import ConvertRequest, absolute, check_splits, recipe_for
from dataprep.jobs.running.engine import Engine, Reporter, working
from dataprep.jobs.running.identity import (
    COMPACTED,
    CONVERTED,
    claim,
    claim_generation,
    identity_of,
    other_versions,
)
from dataprep.jobs.running.job import (
    Job,
    SplitJob,
    choose_shard_count,
    describe_splits,
    kept_info,
    layout_versions,
    split_job,
)
from dataprep.jobs.running.journal import exchange
from dataprep.jobs.running.seal import seal
from dataprep.sealed.set import SealedSet
from dataprep.sealed.verify import Verified
from dataprep.sinks import DatasetInfo
from dataprep.system.messages import counted, sized
from dataprep.system.state_files import digest_of
from dataprep.tables.records import RecordsTable
from dataprep_schemas.manifest import Identity, Manifest
from dataprep_schemas.tables import OwnKind

if TYPE_CHECKING:
    import pyarrow as pa

    from dataprep.tables.arrow import Attributes
    from dataprep.tables.database import Database

_REMEDY: Final = "free some space: the old shards stay until all new ones are there"
_SECOND_LOSS: Final = (
    "JPEGs are decoded and encoded again, which loses a little of each; made from the raw data "
    "they would be better"
)


def convert(
    request: ConvertRequest,
    engine: Engine,
    reporter: Reporter,
    checked: Callable[[Path], Verified],
) -> SealedSet:
    """Make a data set of finished ones, or finish that.

    Args:
        checked: verifies a data set first.

    Raises:
        DataprepError: any of its kinds; everything committed so far is kept.
    """
    sources = [SealedSet.read(path) for path in request.sources]
    request = _settled(request, sources)
    engine.check()
    for source in sources:
        refuse_damaged(source, checked(source.out), "converted")
    attributes = _attributes(sources)  # before anything of the tables is asked
    workspace = Workspace(request.out)
    places = {f"SRC {number + 1}": path for number, path in enumerate(request.sources)}
    splits = {split for source in sources for split in source.splits}
    with working(workspace, engine, places, sorted(splits), reporter) as workers:
        from dataprep.tables.selection import open_selection, recorded_columns

        tables = [Workspace(source.out).records for source in sources]
        rows = sum(source.records for source in sources)
        rejected = request.selection is not None
        with open_selection(tables, workspace.private, rows=rows, rejected=rejected) as database:
            job, identity = _plan(
                request, sources, attributes, workers.lease, reporter.line, database
            )
            units = {
                CONVERTED + f" {number + 1}" * (number > 0): source.manifest.sha256
                for number, source in enumerate(sources)
            }
            identity = claim(job, identity, units, overwrite=request.overwrite)
            token = digest_of([identity, units])
            if request.selection is None:
                _keep_order(job, sources[0].manifest, database, token)
            else:
                columns = recorded_columns([name for name, _ in job.attributes])
                job.shuffle(job.unordered(token), token, database, columns, identity.seed)
            others = [*_others(request, sources, database)]
        records = workers.write(job)
        known = not (job.source.works_on_images or request.selection)
        return seal(
            job,
            identity,
            records,
            reporter.line,
            others=others,
            statistics={
                name: split.statistics
                for name, split in sources[0].manifest.splits.items()
                if known
            },
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


def _settled(request: ConvertRequest, sources: Sequence[SealedSet]) -> ConvertRequest:
    """The request with absolute paths and the recipe that the sources and the format need."""
    out = request.out.resolve()
    for source in sources:
        source.require_whole("converted")
        there = source.out.resolve()
        if there == out or there in out.parents:
            raise UsageError(
                f"--to {request.out} is in what is to be converted; choose another directory"
            )
    request = with_options(absolute(request), recipe=_recipe(request, sources))
    request.load_sink().check(_info(request, sources))
    if request.selection is None or not request.selection.split_by:
        check_splits(request.num_shards, {name for source in sources for name in source.splits})
    return request


def _plan(
    request: ConvertRequest,
    sources: Sequence[SealedSet],
    attributes: Attributes,
    lease: Lease,
    report: Callable[[str], None],
    database: Database,
) -> tuple[Job, Identity]:
    """Decide what is taken, and the shards.

    Returns:
        The job, and its identity. Of a conversion, what the raw data was stays; the format is
        another, and what was done to the images may be.
    """
    from dataprep.tables.database import rows

    manifest, recipe, sink = sources[0].manifest, request.recipe, request.load_sink()
    info = _info(request, sources)
    changed = take(request, sources, info, database, report)
    info = kept_info(info, sink, report)
    if changed is None:
        splits = tuple(_split(manifest, name, request, info) for name in manifest.splits)
        for split in splits:
            report(
                f"{split.name}: {counted(split.images, 'record')}, {sized(split.source_bytes)}, "
                f"in {counted(split.shards, 'shard')}, in the same order"
            )
    else:
        check_splits(request.num_shards, changed.input)
        splits = tuple(
            split_job(name, changed.input[name], changed.shuffle[name], request, info)
            for name in in_usual_order(changed.input)
        )
    decoded = any(source.sink.pixels != sink.pixels for source in sources)
    images = SealedImages(
        tuple(Source(source.out.absolute(), source.manifest.sha256) for source in sources),
        recipe,
        decoded,
        max(source.manifest.image.max_pixels for source in sources),
    )
    job = Job(request, info, attributes, splits, lease, images)
    if changed is not None:
        for text in describe_splits(job, {}):
            report(text)
    encodes = recipe is not None and recipe.target("JPEG") == "JPEG"
    if encodes and rows(database, "select 1 from chosen where format = 'JPEG' limit 1"):
        report(_SECOND_LOSS)
    image = replace(manifest.image, depth=_depth(sources)) if recipe is None else recipe.config()
    if recipe is None and changed is not None:
        image = replace(image, statistics="off")  # they are of other images
    return job, replace(
        identity_of(manifest),
        image=image,
        lineage=lineage(request, sources, image),
        **({} if changed is None else changed._asdict()),
        **job.output_identity(),
    )


def _keep_order(job: Job, manifest: Manifest, database: Database, token: str) -> None:
    """The images in the order that they have.

    In as many shards as there are they keep their places; another number get runs of them, with
    sizes within 1.
    """
    from dataprep.tables.selection import as_recorded, recorded_columns

    columns = recorded_columns([name for name, _ in job.attributes])
    for split in job.unordered(token):
        sizes = [shard.records for shard in manifest.splits[split.name].shards]
        if split.shards != len(sizes):
            size, longer = divmod(split.images, split.shards)
            sizes = [size + (number < longer) for number in range(split.shards)]
        job.keep_order(split, token, as_recorded(database, split.name, sizes, columns))


def _recipe(request: ConvertRequest, sources: Sequence[SealedSet]) -> Recipe | None:
    """What is asked to be done to the images, as far as the sources and the format allow it."""
    recipe, before = request.recipe, sources[0].manifest.image
    if recipe is None:
        return None
    sink = request.load_sink()
    if sink.pixels and recipe.color == "keep" and sources[0].info.channels == 1:
        recipe = with_options(recipe, color="gray")
    recipe = recipe_for(recipe, sink)
    deep = recipe.encoding in ("keep", "png")
    return with_options(
        recipe,
        depth=_depth(sources) if deep else "8",
        max_pixels=max(source.manifest.image.max_pixels for source in sources),
        statistics="off" if before.statistics == "off" else "on",
    )


def _depth(sources: Sequence[SealedSet]) -> Literal["8", "keep"]:
    """Bits a sample: 16 are kept if any of the sources has kept them."""
    depths = {source.manifest.image.depth for source in sources}
    return "keep" if "keep" in depths else "8"


def _info(request: ConvertRequest, sources: Sequence[SealedSet]) -> DatasetInfo:
    """What is true of every example that is made."""
    info, recipe = sources[0].info, request.recipe
    for source in sources[1:]:
        other = source.info
        for what, one, another in (
            ("several labels an image", info.multilabel, other.multilabel),
            ("grey images", info.colorspace != "RGB", other.colorspace != "RGB"),
        ):
            if one != another:
                place = sources[0].out if one else source.out
                raise DatasetError(
                    f"{place} has {what}, the others do not: they cannot be one data set; leave "
                    "it out, or make it again as the others are"
                )
        info = with_options(
            info,
            classes=tuple(dict([*info.classes, *other.classes, *info.classes]).items()),
            size=info.size if info.size == other.size else None,
            attributes=tuple(dict([*info.attributes, *other.attributes]).items()),
            boxes=info.boxes or other.boxes,
            captions=info.captions or other.captions,
        )
    if request.classes is not None:
        info = with_options(info, classes=load_class_list(request.classes).classes)
    if recipe is None:
        return info
    if recipe.resize is not None or recipe.center_crop is not None:
        info = with_options(info, size=recipe.fixed_size)
    if recipe.color != "keep":
        info = with_options(info, colorspace="Grayscale" if recipe.color == "gray" else "RGB")
    return info


def _attributes(sources: Sequence[SealedSet]) -> Attributes:
    """The own columns of all data sets, whose tables are the ones that were sealed."""
    found: dict[str, tuple[str, OwnKind]] = {}
    for source in sources:
        with RecordsTable(source.out, source.manifest.records_table) as table:
            for name, kind in table.attributes:
                # The database makes no difference between A and a.
                if found.setdefault(name.lower(), (name, kind)) != (name, kind):
                    raise DatasetError(
                        f"{source.out} has another column {name} than the other data sets: they "
                        "cannot be one data set; leave it out, or make it again as the others are"
                    )
    return tuple(found.values())


def _others(
    request: ConvertRequest, sources: Sequence[SealedSet], database: Database
) -> Iterator[pa.Table]:
    """The rows of images that are known of and not taken."""
    from dataprep.tables.selection import excluded

    chosen = request.selection
    for source in sources:
        for rows in unstored_rows(source, rejected=chosen is None):
            if chosen is None or chosen.splits is None:
                yield rows
            else:
                import pyarrow as pa
                import pyarrow.compute as pc

                wanted = pc.is_in(rows["split"], pa.array(chosen.splits, pa.string()))
                yield rows.filter(pc.or_(wanted, pc.is_null(rows["split"])))
    if chosen is not None and chosen.exclude is not None:
        yield excluded(database)


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
    shards = choose_shard_count(name, split.records, request, info, like=like)
    return SplitJob(name, shards, manifest.shuffle[name], split.records, split.bytes)


def compact(
    request: ConvertRequest,
    engine: Engine,
    reporter: Reporter,
    checked: Callable[[Path], Verified],
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
    (out,) = request.sources
    workspace = Workspace(out)
    # A run that was killed at its very end has left its lock.
    if not (workspace.journal.exists() or workspace.lock.exists() or _compactable(out)):
        return SealedSet.read(out)
    with working(workspace, engine, {"OUT": out}, (), reporter) as workers:
        grown = _compactable(out)
        if grown is None:
            return SealedSet.read(out)
        refuse_damaged(grown, checked(out), "compacted")
        job, identity = _plan_even(request, grown, workers.lease)
        for text in describe_splits(job, {}):
            reporter.line(text)
        if other := other_versions(grown, identity):
            reporter.line(other)
        identity = claim_generation(job, identity, {COMPACTED: grown.manifest.sha256})
        _order_anew(job, grown)
        records = workers.write(job)
        others = unstored_rows(grown, rejected=False)
        new = seal(job, identity, records, reporter.line, others=others)
        return exchange(grown, new.manifest, workers.lease)


def _compactable(out: Path) -> SealedSet | None:
    """The data set, if it can be compacted; None: it is one generation already."""
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
    workspace, manifest = Workspace(Workspace(grown.out).generation), grown.manifest
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
    with RecordsTable(grown.out, manifest.records_table) as table:
        own = table.attributes
    most = manifest.image.max_pixels
    source = Source(grown.out, manifest.sha256)
    images = SealedImages((source,), None, decoded=False, max_pixels=most)
    job = Job(request, grown.info, own, tuple(splits), lease, images, _REMEDY)
    # Images are copied: the codecs are still those that made them.
    versions = {**manifest.versions, **layout_versions(job.sink)}
    output = {**job.output_identity(), "versions": versions}
    return job, replace(identity_of(manifest), **output)


def _order_anew(job: Job, grown: SealedSet) -> None:
    """The images in the order that they would have if all were new."""
    from dataprep.tables import selection as tables
    from dataprep.tables.label_sets import number_label_sets

    manifest, info = grown.manifest, grown.info
    if splits := job.unordered(manifest.sha256):
        found, rows = [Workspace(grown.out).records], manifest.records_table.rows
        names, classes = [split.name for split in job.splits], [name for name, _ in info.classes]
        scratch = job.workspace.private
        with tables.open_selection(found, scratch, rows=rows, rejected=True) as database:
            tables.take(database, tables.Selection(), classes)
            number_label_sets(database, names, classes, multilabel=info.multilabel)
            tables.sample(database, tables.Selection(), names, manifest.seed)
            columns = tables.recorded_columns([name for name, _ in job.attributes])
            job.shuffle(splits, manifest.sha256, database, columns, manifest.seed)
