"""Making a data set of finished ones, without the raw data: all of them or some, or in place.

The tables of records are the order table, once SQL has chosen and changed what was asked for. A
conversion keeps the order of the images. Where some are chosen, or something of them is changed,
and where a set that grew is made one generation again, they are put in order as if they had just
been found; what decides about it, their keys, splits and labels, is in the tables, and seed and
shuffle are in the manifest.
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
from dataprep.formats import DatasetInfo
from dataprep.images import Recipe
from dataprep.jobs.deriving.sealed_images import SealedImages, SourceSet
from dataprep.jobs.deriving.selected import Changes, Taken, lineage, read_decided, take
from dataprep.jobs.output.lock import Lease
from dataprep.jobs.output.workspace import Workspace
from dataprep.jobs.request import ConvertRequest, check_splits, recipe_for
from dataprep.jobs.running.engine import Engine, Reporter, Workers, working
from dataprep.jobs.running.identity import (
    COMPACTED,
    CONVERTED,
    claim,
    claim_generation,
    identity_of,
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
from dataprep.recipe import changed_recipe
from dataprep.sealed.set import SealedSet
from dataprep.sealed.verify import Verified
from dataprep.system.messages import counted, sized
from dataprep.system.state_files import digest_of
from dataprep.tables.chosen import Selection
from dataprep.tables.decisions import renamed_classes
from dataprep.tables.records import RecordsTable
from dataprep_schemas.fields import MASK, Field, Fields
from dataprep_schemas.manifest import Identity, Manifest, Split

if TYPE_CHECKING:
    from dataprep.tables.database import Database

_REMEDY: Final = "free some space: the old shards stay until all new ones are there"
_SECOND_LOSS: Final = (
    "JPEGs are decoded and encoded again, which loses a little of each; made from the raw data "
    "they would be better"
)


def convert(
    request: ConvertRequest, engine: Engine, reporter: Reporter, checked: Callable[[Path], Verified]
) -> SealedSet:
    """Make a data set of finished ones, or of what is selected of them, or finish that.

    Args:
        checked: verifies a data set first.

    Raises:
        DataprepError: any of its kinds; everything committed so far is kept.
    """
    sources = [SealedSet.read(path) for path in request.sources]
    request = _settled(request, sources)
    engine.check()
    for source in sources:
        _refuse_damaged(source, checked(source.out), "converted")
    _fields(sources)  # before anything is made, since they may not fit together
    places = {f"SRC {number + 1}": path for number, path in enumerate(request.sources)}
    splits = {split for source in sources for split in source.splits}
    workspace = Workspace(request.out)
    with working(workspace, engine, places, sorted(splits), reporter) as workers:
        return _derive(request, sources, workers, reporter.line)


def compact(
    request: ConvertRequest, engine: Engine, reporter: Reporter, checked: Callable[[Path], Verified]
) -> SealedSet:
    """Make a data set that grew one generation; nothing is done if it is one already.

    All of it is selected into a directory of its own, which then takes the place of what there was.

    Args:
        checked: verifies the data set, whose shards are deleted in the end.

    Raises:
        DataprepError: any of its kinds; everything committed so far is kept.
    """
    engine.check()
    (out,) = request.sources
    workspace = Workspace(out)
    # A run that was killed at its very end has left its lock.
    if not (workspace.journal.exists() or workspace.lock.exists() or _grown(out)):
        return SealedSet.read(out)
    with working(workspace, engine, {"OUT": out}, (), reporter) as workers:
        grown = _grown(out)
        if grown is None:
            return SealedSet.read(out)
        _refuse_damaged(grown, checked(out), "compacted")
        request = _evenly(request, grown)
        Workspace(request.out).make()
        made = _derive(request, [grown], workers, reporter.line, in_place=True)
        return exchange(grown, made.manifest, workers.lease)


def _grown(out: Path) -> SealedSet | None:
    """The data set, if it can be compacted; None: it is one generation already."""
    sealed = SealedSet.read(out)
    sealed.require_whole("compacted")
    if sealed.manifest.lineage:
        raise DatasetError(
            f"{out} was converted, so it cannot be compacted; compact what it was made from, and "
            "convert that again"
        )
    return sealed if sealed.manifest.generations else None


def _evenly(request: ConvertRequest, grown: SealedSet) -> ConvertRequest:
    """All of it again, with as many images in each shard as in the first generation."""
    manifest = grown.manifest
    first, shards = manifest.generations[0], {}
    for name, split in manifest.splits.items():
        largest = -(-first.input[name].images // first.splits[name].shards)
        shards[name] = -(-split.images_found // largest)
    return with_options(
        request,
        out=Workspace(grown.out).generation,
        sink=manifest.sink.name,
        sink_options=manifest.sink.config,
        layout=manifest.layout,
        num_shards=shards,
        selection=Selection(),
    )


def _derive(
    request: ConvertRequest,
    sources: Sequence[SealedSet],
    workers: Workers,
    report: Callable[[str], None],
    *,
    in_place: bool = False,
) -> SealedSet:
    """Take the images, put them in order, write their shards, seal.

    Args:
        in_place: whether what is made is to take the place of its source.
    """
    from dataprep.tables.selection import as_recorded, open_selection, recorded_columns, unstored

    tables = [Workspace(source.out).records for source in sources]
    scratch, rows = Workspace(request.out).private, sum(source.records for source in sources)
    anew, before = request.selection is not None, sources[0].manifest.splits
    with open_selection(tables, scratch, rows=rows, rejected=anew) as database:
        job, identity = _plan(request, sources, database, workers.lease, report, in_place=in_place)
        hashes = [source.manifest.sha256 for source in sources]
        if in_place:
            units = {COMPACTED: hashes[0]}
            identity = claim_generation(job, identity, units, sources[0], report)
        else:
            names = [CONVERTED, *(f"{CONVERTED} {number + 1}" for number in range(1, len(hashes)))]
            units = dict(zip(names, hashes, strict=True))
            identity = claim(job, identity, units, overwrite=request.overwrite)
        token = digest_of([identity, units])
        columns = recorded_columns(job.fields)
        if anew:
            job.shuffle(token, database, columns, identity.seed)
        else:
            job.put_in_order(
                token,
                lambda it: as_recorded(database, it.name, _sizes(it, before[it.name]), columns),
            )
        others = [*unstored(database, request.selection)]
    records = workers.write(job)
    known = not (anew or job.source.works_on_images)
    statistics = {name: split.statistics for name, split in before.items() if known}
    return seal(job, identity, records, report, others=others, statistics=statistics)


def _refuse_damaged(source: SealedSet, found: Verified, doing: str) -> None:
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
    request = with_options(request, recipe=_recipe(request, sources))
    if request.selection is not None:
        request = with_options(request, selection=read_decided(request.selection, sources))
    request.load_sink().check(_info(request, sources))
    chosen = request.selection
    if chosen is None or not (chosen.split_by or chosen.decided):
        check_splits(request.num_shards, {name for source in sources for name in source.splits})
    return request


def _plan(
    request: ConvertRequest,
    sources: Sequence[SealedSet],
    database: Database,
    lease: Lease,
    report: Callable[[str], None],
    *,
    in_place: bool,
) -> tuple[Job, Identity]:
    """Decide what is taken, and the shards; and the identity of the job that makes them."""
    from dataprep.tables.database import rows

    sink, info = request.load_sink(), _info(request, sources)
    say = (lambda _text: None) if in_place else report
    changed, info, changes = take(request, sources, info, database, say)
    info = kept_info(info, sink, report)
    images = SealedImages(
        tuple(SourceSet(source.out.absolute(), source.manifest.sha256) for source in sources),
        request.recipe,
        decoded=any(source.sink.pixels != sink.pixels for source in sources),
        max_pixels=max(source.manifest.image.max_pixels for source in sources),
        renamed={} if request.selection is None else request.selection.renamed,
    )
    splits = tuple(_splits(request, sources[0].manifest, info, changed))
    job = Job(request, info, _fields(sources), splits, lease, images)
    if in_place:
        job = with_options(job, remedy=_REMEDY)
    for text in describe_splits(job, {}) if changed else map(_in_the_same_order, splits):
        report(text)
    encodes = request.recipe is not None and request.recipe.target("JPEG") == "JPEG"
    if encodes and rows(database, "select 1 from chosen where format = 'JPEG' limit 1"):
        report(_SECOND_LOSS)
    return job, _identity(request, sources, job, changed, changes, in_place=in_place)


def _splits(
    request: ConvertRequest, manifest: Manifest, info: DatasetInfo, changed: Taken | None
) -> Iterator[SplitJob]:
    """The shards: as many as there are, where that is as good as any and nothing was changed."""
    if changed is not None:
        check_splits(request.num_shards, changed.input)
        for name in in_usual_order(changed.input):
            yield split_job(name, changed.input[name], changed.shuffle[name], request, info)
        return
    usual = request.load_sink().usual_shards
    for name, split in manifest.splits.items():
        same = len(split.shards)
        like = same if 1 < same <= (usual or same) else None
        shards = choose_shard_count(name, split.records, request, info, like=like)
        yield SplitJob(name, shards, manifest.shuffle[name], split.records, split.bytes)


def _in_the_same_order(split: SplitJob) -> str:
    return (
        f"{split.name}: {counted(split.images, 'record')}, {sized(split.source_bytes)}, "
        f"in {counted(split.shards, 'shard')}, in the same order"
    )


def _identity(
    request: ConvertRequest,
    sources: Sequence[SealedSet],
    job: Job,
    changed: Taken | None,
    changes: Changes,
    *,
    in_place: bool,
) -> Identity:
    """What the raw data was stays; the format is another, and what was done to the images may be.

    Of what is made in place, as of a data set made at once.
    """
    manifest, recipe, output = sources[0].manifest, request.recipe, job.output_identity()
    if in_place:
        # Images are copied: the codecs are still those that made them.
        output["versions"] = {**manifest.versions, **layout_versions(job.sink)}
        return replace(identity_of(manifest), **output)
    if recipe is None:
        image = changed_recipe(manifest.image, depth=_depth(sources))
        if changed is not None:
            image = changed_recipe(image, stats="off")  # they are of other images
    else:
        image = recipe.config()
    return replace(
        identity_of(manifest),
        image=image,
        lineage=lineage(request, sources, image, changes),
        **({} if changed is None else changed._asdict()),
        **output,
    )


def _sizes(split: SplitJob, before: Split) -> list[int]:
    """How many images of a split each shard gets whose order they keep.

    In as many shards as there are they keep their places; another number get runs of them, with
    sizes within 1.
    """
    if split.shards == len(before.shards):
        return [shard.records for shard in before.shards]
    size, longer = divmod(split.images, split.shards)
    return [size + (number < longer) for number in range(split.shards)]


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
        stats="on" if before.options.get("stats") == "on" else "off",
    )


def _depth(sources: Sequence[SealedSet]) -> Literal["8", "keep"]:
    """Bits a sample: 16 are kept if any of the sources has kept them."""
    depths = {source.manifest.image.options.get("depth") for source in sources}
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
        masks = [it for it in (*info.fields, *other.fields) if it.kind == MASK.kind]
        if len({it.numbers for it in masks}) > 1:
            raise DatasetError(
                f"{source.out} has masks whose numbers mean something else than in "
                f"{sources[0].out}: they cannot be one data set; leave it out, or make it again "
                "with the same --mask_classes"
            )
        info = with_options(
            info,
            classes=tuple(dict([*info.classes, *other.classes, *info.classes]).items()),
            size=info.size if info.size == other.size else None,
            fields=tuple(dict.fromkeys([*info.fields, *other.fields])),
        )
    if request.classes is not None:
        info = with_options(info, classes=load_class_list(request.classes).classes)
    elif request.selection is not None and request.selection.renamed:
        classes = renamed_classes(info.classes, request.selection.renamed)
        info = with_options(info, classes=classes)
    if recipe is None:
        return info
    if recipe.resize is not None or recipe.center_crop is not None:
        info = with_options(info, size=recipe.fixed_size)
    if recipe.color != "keep":
        info = with_options(info, colorspace="Grayscale" if recipe.color == "gray" else "RGB")
    return info


def _fields(sources: Sequence[SealedSet]) -> Fields:
    """The own columns of all data sets, whose tables are the ones that were sealed."""
    found: dict[str, Field] = {}
    for source in sources:
        with RecordsTable(source.out, source.manifest.records_table) as table:
            for field in table.fields:
                # The database makes no difference between A and a.
                if found.setdefault(field.name.lower(), field) != field:
                    raise DatasetError(
                        f"{source.out} has another column {field.name} than the other data sets: "
                        "they cannot be one data set; leave it out, or make it again as the "
                        "others are"
                    )
    return tuple(found.values())
