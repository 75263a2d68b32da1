"""Planning: from a request and an index to a job and its decks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import cast

from dataprep import __version__
from dataprep.assembly.bounding_boxes import read_bounding_boxes
from dataprep.assembly.claim import claim
from dataprep.assembly.deck import deck_is_current, write_deck
from dataprep.assembly.image_job import ImageJob
from dataprep.assembly.index_parts import IndexPart, read_header
from dataprep.assembly.job import Output, SplitJob
from dataprep.assembly.lock import Lease
from dataprep.assembly.request import Request
from dataprep.assembly.shard_counts import choose_shard_count, explain_shard_count
from dataprep.assembly.split_index import SplitIndex, open_index
from dataprep.assembly.workspace import Workspace
from dataprep.canonical import to_json
from dataprep.deal import Shuffle, sample
from dataprep.errors import SourceError
from dataprep.hashing import file_sha256
from dataprep.images import codec_versions
from dataprep.index import Box
from dataprep.manifest import describe_info
from dataprep.sinks import DatasetInfo
from dataprep.wording import counted, sized


def plan(
    request: Request,
    workspace: Workspace,
    parts: Sequence[IndexPart],
    lease: Lease,
    *,
    info: DatasetInfo,
    official: Mapping[str, int],
    report: Callable[[str], None],
) -> tuple[ImageJob, Mapping[str, object]]:
    """Decide the shards, check that the directory is this job's, and deal.

    Args:
        request: what the user asked for.
        workspace: the output directory, held by ``lease``.
        parts: the current index.
        lease: what workers need to go on.
        info: what is true of every example.
        official: how many images each split of the complete data set has, where known.
        report: takes one line for the user.

    Returns:
        The job, and its identity: everything that shapes the bytes of the output.

    Raises:
        UsageError: the shard counts do not fit.
        DatasetError: the directory is being made in another way, or holds foreign shards.
    """
    by_split = _parts_by_split(parts)
    with ExitStack() as stack:
        indexes = {
            split: stack.enter_context(_open_limited(request, workspace, split, paths))
            for split, paths in by_split.items()
        }
        output = _output(request, info)
        splits = tuple(_plan_split(request, name, index, output) for name, index in indexes.items())
        for split in splits:
            report(_describe(request, split, official.get(split.name), output))
        identity = _identity(request, splits, output)
        job = ImageJob(
            output, splits, lease, request.dataset, request.raw.absolute(), request.recipe
        )
        units = {part.unit.name: read_header(part.path).digest for part in parts}
        boxes = read_bounding_boxes(request.bbox_csv) if request.bbox_csv else {}
        # Only now, when nothing that was asked for can be refused any more.
        claim(job, identity, units, overwrite=request.overwrite)
        _write_decks(workspace, splits, indexes, identity, boxes)
    return job, identity


def _output(request: Request, info: DatasetInfo) -> Output:
    return Output(
        workspace=Workspace(request.out.absolute()),
        sink=request.sink,
        sink_options=request.sink_options,
        layout=request.layout,
        info=info,
        build_dir=request.build_dir and request.build_dir.absolute(),
    )


def _write_decks(
    workspace: Workspace,
    splits: Sequence[SplitJob],
    indexes: Mapping[str, SplitIndex],
    identity: Mapping[str, object],
    boxes: Mapping[str, tuple[Box, ...]],
) -> None:
    token = hashlib.sha256(to_json(identity)).hexdigest()
    stale = [split for split in splits if not deck_is_current(workspace, split.name, token)]
    for split in stale:
        write_deck(
            workspace,
            indexes[split.name],
            split=split.name,
            shards=split.shards,
            shuffle=cast("Shuffle", split.shuffle),
            boxes=boxes,
            token=token,
        )


def _parts_by_split(parts: Sequence[IndexPart]) -> dict[str, list[Path]]:
    by_split: dict[str, list[Path]] = {}
    for part in parts:
        by_split.setdefault(part.unit.split, []).append(part.path)
    return by_split


@contextmanager
def _open_limited(
    request: Request, workspace: Workspace, split: str, parts: Sequence[Path]
) -> Iterator[SplitIndex]:
    with open_index(parts, workspace.deck, seed=request.seed, split=split) as index:
        if request.limit is not None and request.limit < len(index):
            yield index.take(sample(index.hashes, request.limit))
        else:
            yield index


def _plan_split(request: Request, name: str, index: SplitIndex, output: Output) -> SplitJob:
    images = len(index)
    return SplitJob(
        name=name,
        shards=choose_shard_count(name, images, request.num_shards, output),
        shuffle=request.shuffle or ("stratified" if name == "train" else "none"),
        images=images,
        source_bytes=int(index.sizes.sum()),
        input_sha256=index.input_sha256,
    )


def _describe(request: Request, split: SplitJob, official: int | None, output: Output) -> str:
    text = f"{split.name}: {split.images:,} images"
    if official is not None and official != split.images:
        text += f" of the official {official:,}"
    text += f", {sized(split.source_bytes)}, in {counted(split.shards, 'shard')}"
    text += explain_shard_count(split.name, split.shards, request.num_shards, output)
    return f"{text}, shuffle {split.shuffle}"


def _identity(request: Request, splits: Sequence[SplitJob], output: Output) -> dict[str, object]:
    """Everything that shapes the bytes of the output, and nothing of this machine."""
    sink = output.load_sink()
    return {
        "dataset": request.dataset,
        "seed": request.seed,
        "limit": request.limit,
        "shuffle": {split.name: split.shuffle for split in splits},
        "num_shards": {split.name: split.shards for split in splits},
        "image": request.recipe.config(),
        "sink": {"name": sink.name, "config": dict(sink.config())},
        "examples": describe_info(output.info),
        "layout": request.layout,
        "bbox_sha256": _boxes_sha256(request.bbox_csv) if request.bbox_csv else None,
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


def _boxes_sha256(path: Path) -> str:
    try:
        return file_sha256(path)
    except OSError as error:
        raise SourceError(f"--bbox_csv {path}: {error.strerror}") from error
