"""Adding to a data set the images that it lacks: they are prepared apart, and then merged."""

from __future__ import annotations

import shutil
from dataclasses import replace as with_options

from msgspec.structs import replace

from dataprep.datasets import Dataset
from dataprep.errors import DatasetError, UsageError
from dataprep.jobs.assigned import config_of
from dataprep.jobs.engine import Engine, Reporter
from dataprep.jobs.identity import identity_of, what_differs
from dataprep.jobs.merge import merge
from dataprep.jobs.prepare import found, make
from dataprep.jobs.request import Request
from dataprep.jobs.summary import cannot_grow
from dataprep.jobs.workspace import Workspace
from dataprep.sealed.set import SealedSet
from dataprep.sinks import ShardName
from dataprep_schemas.manifest import SinkConfig


def append(request: Request, engine: Engine, reporter: Reporter) -> SealedSet:
    """Prepare what is new in a directory of its own inside OUT, then make it a part of OUT.

    Raises:
        DataprepError: any of its kinds; everything committed so far is kept.
    """
    _check_options(request)
    with found(request, engine, reporter) as raw:
        grown = _read_grown(raw.request, raw.dataset)
        inside = Workspace(Workspace(grown.out).generation)
        inside.make()
        made = make(raw, with_options(raw.request, out=inside.out), grown)
        if made is None:
            reporter.line(f"{grown.out} has all images already, nothing to add")
            shutil.rmtree(inside.out)  # perhaps something was begun
            return grown
        return merge(grown, made, raw.workers.lease)


def _check_options(request: Request) -> None:
    """Refuse options that --append cannot follow.

    Raises:
        UsageError: names one.
    """
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


def _read_grown(request: Request, dataset: Dataset) -> SealedSet:
    """The data set that is to grow.

    Raises:
        DatasetError: there is none, it cannot grow, or was made otherwise; says what to do instead.
    """
    out = request.out
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
    _check_same_options(grown, request, dataset)
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


def _check_same_options(grown: SealedSet, request: Request, dataset: Dataset) -> None:
    """Refuse what would not be made as the rest was.

    Raises:
        DatasetError: names the options that differ.
    """
    sink, theirs = request.load_sink(), identity_of(grown.manifest)
    ours = replace(
        theirs,
        dataset=request.dataset,
        dataset_config=config_of(dataset),
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
