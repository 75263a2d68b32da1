"""Planning: from a request and an index to a job and its decks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import cast

from dataprep import __version__
from dataprep.assembly.claim import claim
from dataprep.assembly.deck import deck_is_current, write_deck
from dataprep.assembly.fitting import describe_examples
from dataprep.assembly.groups import check_groups
from dataprep.assembly.image_job import ImageJob
from dataprep.assembly.job import Output, SplitJob
from dataprep.assembly.leaving_out import left_out
from dataprep.assembly.lock import Lease
from dataprep.assembly.request import Request
from dataprep.assembly.shard_counts import choose_shard_count, explain_shard_count
from dataprep.assembly.split_index import SplitIndex, open_index
from dataprep.assembly.split_summary import (
    SplitSummary,
    keep_summaries,
    read_summaries,
    summarize,
    summary_key,
)
from dataprep.assembly.survey import Survey
from dataprep.assembly.workspace import UNMATCHED, Workspace
from dataprep.canonical import to_json
from dataprep.deal import Shuffle, sample
from dataprep.images import codec_versions
from dataprep.manifest import describe_info
from dataprep.plugins import load_sink
from dataprep.sinks import DatasetInfo
from dataprep.sources import Dataset
from dataprep.sources.split_names import in_usual_order
from dataprep.wording import counted, sized


def plan(
    request: Request,
    workspace: Workspace,
    found: Survey,
    lease: Lease,
    *,
    dataset: Dataset,
    index: Path,
    official: Mapping[str, int],
    report: Callable[[str], None],
) -> tuple[ImageJob, Mapping[str, object]]:
    """Decide the shards, check that the directory is this job's, and deal.

    Args:
        request: what the user asked for.
        workspace: the output directory, held by ``lease``.
        found: the current index.
        lease: what workers need to go on.
        dataset: what is prepared.
        index: the directory of the index.
        official: how many images each split of the complete data set has, where known.
        report: takes one line for the user.

    Returns:
        The job, and its identity: everything that shapes the bytes of the output.

    Raises:
        UsageError: the shard counts do not fit, or the format cannot hold such a data set.
        SourceError: a group is in two splits.
        DatasetError: the directory is being made in another way, or holds foreign shards.
    """
    output = _output(request, describe_examples(found.classes, request.recipe, dataset), report)
    key = summary_key(request, found)
    with ExitStack() as stack:

        def merged(names: Iterable[str]) -> dict[str, SplitIndex]:
            return {
                name: stack.enter_context(_open(request, workspace, found, dataset, name))
                for name in names
            }

        indexes: dict[str, SplitIndex] = {}
        summaries = read_summaries(workspace, key)
        if summaries is None:
            whole = merged(found.splits)
            grouped = any(index.groups is not None for index in whole.values())
            everywhere = {**whole, **merged(found.others if grouped else ())}
            in_order = {name: everywhere[name] for name in in_usual_order(everywhere)}
            check_groups(in_order, dataset.group)
            indexes = {name: _limited(request, index) for name, index in whole.items()}
            summaries = {name: summarize(index) for name, index in indexes.items()}
        splits = tuple(_plan_split(request, name, summaries[name], output) for name in found.splits)
        for split in splits:
            report(_describe(request, split, official.get(split.name), output))
        identity = _identity(request, dataset, found, splits, output)
        job = ImageJob(output, splits, lease, request.raw.absolute(), index, request.recipe)
        # Only now, when nothing that was asked for can be refused any more.
        listed = [UNMATCHED] if found.unmatched.number else []
        claim(job, identity, found.digests, overwrite=request.overwrite, others=listed)
        # The identity is the same for every raw layout; the deck says where the bytes are.
        token = hashlib.sha256(to_json([identity, found.digests])).hexdigest()
        for split in splits:
            if not deck_is_current(workspace, split.name, token):
                rows = indexes.get(split.name)
                if rows is None:
                    rows = _limited(request, merged([split.name])[split.name])
                _deal(workspace, rows, split, token)
        if indexes:
            keep_summaries(workspace, key, summaries)
    return job, identity


def _open(
    request: Request, workspace: Workspace, found: Survey, dataset: Dataset, split: str
) -> AbstractContextManager[SplitIndex]:
    return open_index(
        found.part_paths(),
        workspace.deck,
        seed=request.seed,
        split=split,
        classes=found.names,
        multilabel=dataset.multilabel,
    )


def _limited(request: Request, index: SplitIndex) -> SplitIndex:
    if request.limit is None or request.limit >= len(index):
        return index
    return index.take(sample(index.hashes, request.limit))


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
        build_dir=request.build_dir and request.build_dir.absolute(),
    )


def _deal(workspace: Workspace, rows: SplitIndex, split: SplitJob, token: str) -> None:
    write_deck(
        workspace,
        rows,
        split=split.name,
        shards=split.shards,
        shuffle=cast("Shuffle", split.shuffle),
        token=token,
    )


def _plan_split(request: Request, name: str, summary: SplitSummary, output: Output) -> SplitJob:
    return SplitJob(
        name=name,
        shards=choose_shard_count(name, summary.images, request.num_shards, output),
        shuffle=request.shuffle or ("stratified" if name == "train" else "none"),
        images=summary.images,
        source_bytes=summary.source_bytes,
        input_sha256=summary.input_sha256,
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
    found: Survey,
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
        "unmatched": found.unmatched.describe(),
        "counts": dict(found.counts),
        "input": {
            split.name: {
                "images": split.images,
                "bytes": split.source_bytes,
                "sha256": split.input_sha256,
            }
            for split in splits
        },
        "versions": {"dataprep": __version__, **codec_versions(), **sink.versions()},
    }
