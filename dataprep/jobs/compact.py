"""Making a data set that grew one generation: rebalanced, as if it had been made at once.

What decides where an image goes, its key, split and labels, is in the table of records, and seed
and shuffle are in the manifest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as with_options
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from dataprep.errors import DatasetError
from dataprep.jobs.convert import refuse_damaged, unstored_rows
from dataprep.jobs.engine import Engine, Reporter, working
from dataprep.jobs.identity import COMPACTED, claim_generation, identity_of, other_versions
from dataprep.jobs.job import Job, SplitJob, describe_splits, layout_versions
from dataprep.jobs.lock import Lease
from dataprep.jobs.merge import exchange
from dataprep.jobs.request import ConvertRequest, absolute
from dataprep.jobs.seal import seal
from dataprep.jobs.sealed_images import SealedImages, Source
from dataprep.jobs.workspace import Workspace
from dataprep.sealed.set import SealedSet
from dataprep.sealed.verify import Verified
from dataprep.tables.records import RecordsTable
from dataprep_schemas.manifest import Identity

_REMEDY: Final = "free some space: the old shards stay until all new ones are there"


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
