"""Planning: from a request and an index to a job and its decks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dataprep import __version__
from dataprep.assembly.bounding_boxes import read_bounding_boxes
from dataprep.assembly.deck import deck_is_current, write_deck
from dataprep.assembly.index_parts import IndexPart, read_header
from dataprep.assembly.job import Job, SplitJob, check_identity, store_identity
from dataprep.assembly.lock import Lease
from dataprep.assembly.overwrite import check_foreign_files, remove_built_files
from dataprep.assembly.request import Request
from dataprep.assembly.split_index import SplitIndex, open_index
from dataprep.assembly.workspace import Workspace
from dataprep.canonical import to_json
from dataprep.deal import check_shard_count, default_shard_count, sample
from dataprep.errors import SourceError
from dataprep.hashing import file_sha256
from dataprep.images import codec_versions
from dataprep.index import Box
from dataprep.plugins import load_sink
from dataprep.wording import counted, sized

# The counts of Google's imagenet_to_gcs, which tensorflow/models' reader insists on.
_PREFERRED_SHARDS = {"train": 1024}
_OTHER_SHARDS = 128


def plan(
    request: Request,
    workspace: Workspace,
    parts: Sequence[IndexPart],
    lease: Lease,
    *,
    official: Mapping[str, int],
    report: Callable[[str], None],
) -> tuple[Job, Mapping[str, object]]:
    """Decide the shards, check that the directory is this job's, and deal.

    Args:
        request: what the user asked for.
        workspace: the output directory, held by ``lease``.
        parts: the current index.
        lease: what workers need to go on.
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
        splits = tuple(_plan_split(request, name, index) for name, index in indexes.items())
        for split in splits:
            report(_describe(request, split, official.get(split.name)))
        identity = _identity(request, splits)
        job = _job(request, splits, lease)
        units = {part.unit.name: read_header(part.path).digest for part in parts}
        boxes = read_bounding_boxes(request.bbox_csv) if request.bbox_csv else {}
        if request.overwrite:  # only now, when nothing that was asked for can be refused any more
            remove_built_files(workspace)
        fresh = check_identity(workspace, identity, units)
        check_foreign_files(job, fresh=fresh)
        if fresh:
            store_identity(workspace, identity, units)
        _write_decks(workspace, splits, indexes, identity, boxes)
    return job, identity


def _job(request: Request, splits: tuple[SplitJob, ...], lease: Lease) -> Job:
    return Job(
        dataset=request.dataset,
        raw=request.raw.absolute(),
        workspace=Workspace(request.out.absolute()),
        splits=splits,
        recipe=request.recipe,
        sink=request.sink,
        layout=request.layout,
        lease=lease,
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
            shuffle=split.shuffle,
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


def _plan_split(request: Request, name: str, index: SplitIndex) -> SplitJob:
    images = len(index)
    shards = (request.num_shards or {}).get(name)
    if shards is None:
        shards = default_shard_count(images, _PREFERRED_SHARDS.get(name, _OTHER_SHARDS))
    check_shard_count(images, shards, name)
    return SplitJob(
        name=name,
        shards=shards,
        shuffle=request.shuffle or ("stratified" if name == "train" else "none"),
        images=images,
        source_bytes=int(index.sizes.sum()),
        input_sha256=index.input_sha256,
    )


def _describe(request: Request, split: SplitJob, official: int | None) -> str:
    text = f"{split.name}: {split.images:,} images"
    if official is not None and official != split.images:
        text += f" of the official {official:,}"
    text += f", {sized(split.source_bytes)}, in {counted(split.shards, 'shard')}"
    preferred = _PREFERRED_SHARDS.get(split.name, _OTHER_SHARDS)
    if split.name not in (request.num_shards or {}) and split.shards != preferred:
        text += f" ({preferred} would hold fewer than 100 each)"
    return f"{text}, shuffle {split.shuffle}"


def _identity(request: Request, splits: Sequence[SplitJob]) -> dict[str, object]:
    """Everything that shapes the bytes of the output, and nothing of this machine."""
    return {
        "dataset": request.dataset,
        "seed": request.seed,
        "limit": request.limit,
        "shuffle": {split.name: split.shuffle for split in splits},
        "num_shards": {split.name: split.shards for split in splits},
        "image": request.recipe.config(),
        "sink": {"name": request.sink, "config": dict(load_sink(request.sink).config())},
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
        "versions": {"dataprep": __version__, **codec_versions()},
    }


def _boxes_sha256(path: Path) -> str:
    try:
        return file_sha256(path)
    except OSError as error:
        raise SourceError(f"--bbox_csv {path}: {error.strerror}") from error
