"""A data set that grows: images that it lacks are added, and it is made one generation again.

What is added is prepared apart, and then merged. What is compacted is rebalanced, as if it had been
made at once: what decides where an image goes, its key, split and labels, is in the table of
records, and seed and shuffle are in the manifest.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace as with_options
from itertools import zip_longest
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from dataprep.errors import DatasetError, UsageError
from dataprep.jobs.convert import refuse_damaged, unstored_rows
from dataprep.jobs.engine import Engine, Reporter, working
from dataprep.jobs.identity import (
    COMPACTED,
    claim_generation,
    identity_of,
    other_versions,
    what_differs,
)
from dataprep.jobs.job import Job, SplitJob, describe_splits, layout_versions
from dataprep.jobs.lock import Lease
from dataprep.jobs.merge import exchange, merge
from dataprep.jobs.prepare import RawData, config_of, found, make
from dataprep.jobs.request import ConvertRequest, Request, absolute
from dataprep.jobs.seal import seal
from dataprep.jobs.sealed_images import SealedImages, Source
from dataprep.jobs.summary import cannot_grow
from dataprep.jobs.workspace import Workspace
from dataprep.sealed.set import SealedSet
from dataprep.sealed.verify import Verified
from dataprep.sinks import ShardName
from dataprep.tables.records import RecordsTable
from dataprep_schemas.manifest import Identity, SinkConfig

_KINDS: Final = {"int": "whole numbers", "text": "text", "texts": "texts"}
_REMEDY: Final = "free some space: the old shards stay until all new ones are there"


def append(request: Request, engine: Engine, reporter: Reporter) -> SealedSet:
    """Prepare what is new in a directory of its own inside OUT, then make it a part of OUT.

    Raises:
        DataprepError: any of its kinds; everything committed so far is kept.
    """
    _check_options(request)
    with found(request, engine, reporter) as raw:
        grown = _read_grown(raw)
        inside = Workspace(Workspace(grown.out).generation)
        inside.make()
        made = make(raw, with_options(raw.request, out=inside.out), grown)
        if made is None:
            reporter.line(f"{grown.out} has all images already, nothing to add")
            shutil.rmtree(inside.out)  # perhaps something was begun
            return grown
        return merge(grown, made, raw.workers.lease)


def _check_options(request: Request) -> None:
    """Refuse options that --append cannot follow."""
    given = {
        "--overwrite": request.overwrite,
        "--limit": request.limit,
        "--num_shards": request.num_shards,
        "--stats": request.recipe.statistics != "off",
    }
    for option in (name for name, value in given.items() if value):
        raise UsageError(
            f"{option} cannot be used with --append: new images are put into shards of the size "
            f"that there is; leave out {option}"
        )


def _read_grown(raw: RawData) -> SealedSet:
    """The data set that is to grow."""
    out = raw.request.out
    if not Workspace(out).manifest.exists():
        raise DatasetError(
            f"{out} has no finished data set to add to; leave out --append to make one, or to "
            "finish the one that was begun"
        )
    grown = SealedSet.read(out)
    grown.require_whole("added to")
    _check_can_grow(grown)
    for file in grown.manifest.files():
        path = out / file.path
        if not path.is_file() or path.stat().st_size != file.bytes:
            raise DatasetError(
                f"{path} is missing or damaged, and only a whole data set can grow; `dataprep "
                "verify` names all bad files; bring them back, or use --overwrite"
            )
    _check_same_options(grown, raw)
    _check_same_attributes(grown, raw)
    return grown


def _check_can_grow(grown: SealedSet) -> None:
    manifest, sink, out = grown.manifest, grown.sink, grown.out
    single = "keep a data set in tfrecord or webdataset, let that grow, and make this of it"
    if manifest.lineage:
        raise cannot_grow(out, "it was converted", "let its source grow, and convert that again")
    if manifest.limit is not None:
        raise cannot_grow(out, "it was made with --limit", "make it without, by --overwrite")
    for name, split in manifest.splits.items():
        count = len(split.shards)
        if split.statistics is not None:
            raise cannot_grow(out, "it has statistics (--stats)", "make it without, --overwrite")
        if sink.split_paths(name, count, manifest.layout):
            raise cannot_grow(out, f"{sink.name} has files of all of {name}", single)
        shard = ShardName(name, 0, count)
        if count == 1 and str(shard) not in str(sink.paths(shard, manifest.layout)[0]):
            raise cannot_grow(out, f"{sink.name} has one file of all of {name}", single)


def _check_same_options(grown: SealedSet, raw: RawData) -> None:
    """Refuse what would not be made as the rest was."""
    request = raw.request
    sink, theirs = request.load_sink(), identity_of(grown.manifest)
    ours = replace(
        theirs,
        dataset=request.dataset,
        dataset_config=config_of(raw),
        seed=request.seed,
        folds=request.folds,
        shuffle={name: request.shuffle_of(name) for name in grown.manifest.splits},
        image=request.recipe.config(),
        sink=SinkConfig(sink.name, dict(sink.config())),
        layout=request.layout,
    )
    if theirs != ours:
        raise DatasetError(
            f"{grown.out} was made with {what_differs(theirs, ours)}; --append needs the same "
            "options; use those, or --overwrite to start it anew"
        )


def _check_same_attributes(grown: SealedSet, raw: RawData) -> None:
    """Refuse, before anything is scanned, what the merged table would have no column for."""
    with RecordsTable(grown.out, grown.manifest.records_table) as table:
        before = table.attributes[: None if raw.request.folds is None else -1]  # the last: the fold
    for pair in zip_longest(before, raw.found.own_columns):
        if pair[0] != pair[1]:
            was, now = (f"{each[0]} ({_KINDS[each[1]]})" if each else "none" for each in pair)
            raise DatasetError(
                f"{grown.out} was made with the attribute {was}, now there is {now}; --append "
                "needs the same ones, of the same kinds: make the raw data say what it said, or "
                "use --overwrite to start the data set anew"
            )


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
