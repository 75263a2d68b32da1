"""Planning: from a request and an index to a job, its shards and their order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dataprep import __version__
from dataprep.build.claim import claim
from dataprep.build.fitting import describe_examples
from dataprep.build.image_job import ImageJob
from dataprep.build.job import Output, SplitJob
from dataprep.build.leaving_out import left_out
from dataprep.build.lock import Lease
from dataprep.build.manifest import describe_info
from dataprep.build.request import Request
from dataprep.build.shard_counts import choose_shard_count, explain_shard_count
from dataprep.build.summary import SplitSummary, Summary, choose_images
from dataprep.build.workspace import Workspace
from dataprep.datasets import Dataset
from dataprep.images import codec_versions
from dataprep.plugins import load_sink
from dataprep.sinks import DatasetInfo
from dataprep.system.messages import counted, sized
from dataprep.system.state_files import to_json

if TYPE_CHECKING:  # they load a database, which a run that has nothing to order need not
    from dataprep.index.images import Images
    from dataprep.index.order import Shuffle


def plan(
    request: Request,
    workspace: Workspace,
    found: Summary,
    images: Images,
    digests: Mapping[str, str],
    lease: Lease,
    *,
    dataset: Dataset,
    index: Path,
    official: Mapping[str, int],
    report: Callable[[str], None],
) -> tuple[ImageJob, Mapping[str, object]]:
    """Decide the shards, check that the directory is this job's, and order the images.

    Args:
        request: what the user asked for.
        workspace: the output directory, held by ``lease``.
        found: what the index says as a whole.
        images: the index's images.
        digests: of every piece of the input.
        lease: what workers need to go on.
        dataset: what is prepared.
        index: the directory of the index.
        official: how many images each split of the complete data set has, where known.
        report: takes one line for the user.

    Returns:
        The job, and its identity: everything that shapes the bytes of the output.

    Raises:
        UsageError: the shard counts do not fit, or the format cannot hold such a data set.
        DatasetError: the directory is being made in another way, or holds foreign shards.
    """
    output = _output(request, describe_examples(found.classes, request.recipe, dataset), report)
    splits = tuple(_plan_split(request, name, found.images[name], output) for name in found.splits)
    for split in splits:
        report(_describe(request, split, official.get(split.name), output))
    identity = _identity(request, dataset, found, splits, output)
    job = ImageJob(output, splits, lease, request.raw.absolute(), index, request.recipe)
    # Only now, when nothing that was asked for can be refused any more.
    claim(job, identity, digests, overwrite=request.overwrite)
    # The identity is the same for every raw layout; the order says where the bytes are.
    token = hashlib.sha256(to_json([identity, digests])).hexdigest()
    _order(workspace, found, images, splits, token, dataset, request)
    return job, identity


def _order(
    workspace: Workspace,
    found: Summary,
    images: Images,
    splits: Sequence[SplitJob],
    token: str,
    dataset: Dataset,
    request: Request,
) -> None:
    """Put the images of those splits in order whose order is not there."""
    # Imported late: a run that is resumed has nothing to order.
    from dataprep.index.order import order_is_current, write_order

    stale = [split for split in splits if not order_is_current(workspace.order, split.name, token)]
    if stale and not images.has_chosen:
        choose_images(images, found.splits, found.classes, dataset, request)
    for split in stale:
        write_order(
            workspace.order,
            images,
            split=split.name,
            images=split.images,
            shards=split.shards,
            shuffle=cast("Shuffle", split.shuffle),
            seed=request.seed,
            token=token,
        )


def _output(request: Request, info: DatasetInfo, report: Callable[[str], None]) -> Output:
    sink = load_sink(request.sink, request.sink_options)
    sink.check(info)
    kept, lines = left_out(info, sink)
    for line in lines:
        report(line)
    return Output(
        workspace=Workspace(request.out.absolute()),
        sink=request.sink,
        sink_options=request.sink_options,
        layout=request.layout,
        info=kept,
        attributes=info.attributes,
        build_dir=request.build_dir and request.build_dir.absolute(),
    )


def _plan_split(request: Request, name: str, summary: SplitSummary, output: Output) -> SplitJob:
    return SplitJob(
        name=name,
        shards=choose_shard_count(name, summary.images, request.num_shards, output),
        shuffle=request.shuffle or ("stratified" if name == "train" else "none"),
        images=summary.images,
        source_bytes=summary.source_bytes,
        digest=summary.digest,
    )


def _describe(request: Request, split: SplitJob, official: int | None, output: Output) -> str:
    text = f"{split.name}: {counted(split.images, 'image')}"
    if official is not None and official != split.images:
        text += f" of the official {official:,}"
    text += f", {sized(split.source_bytes)}, in {counted(split.shards, 'shard')}"
    text += explain_shard_count(split.name, split.shards, request.num_shards, output)
    return f"{text}, shuffle {split.shuffle}"


def _identity(
    request: Request,
    dataset: Dataset,
    found: Summary,
    splits: Sequence[SplitJob],
    output: Output,
) -> dict[str, object]:
    """Everything that shapes the bytes of the output, and nothing of this machine."""
    sink = output.load_sink()
    return {
        "dataset": request.dataset,
        "dataset_config": dict(dataset.config()),
        "seed": request.seed,
        "limit": request.limit,
        "shuffle": {split.name: split.shuffle for split in splits},
        "num_shards": {split.name: split.shards for split in splits},
        "image": request.recipe.config(),
        "sink": {"name": sink.name, "config": dict(sink.config())},
        "examples": describe_info(output.info),
        "classes_sha256": hashlib.sha256(to_json(output.info.classes)).hexdigest(),
        "layout": request.layout,
        "unmatched": asdict(found.unmatched),
        "counts": dict(found.counts),
        "input": {
            split.name: {
                "images": split.images,
                "bytes": split.source_bytes,
                "digest": split.digest,
            }
            for split in splits
        },
        "versions": {"dataprep": __version__, **codec_versions(), **sink.versions()},
    }
