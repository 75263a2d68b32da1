"""From the index to the deck: which rows, in which order, in which shard; on disk.

``deck/<split>.jsonl`` holds every row in writing order, so that a worker reads its shard as
one contiguous slice and never more than that; ``deck/<split>.json`` says where the slices are.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from dataprep.assembly.index_parts import read_lines
from dataprep.assembly.workspace import Workspace, partial_path, write_durably
from dataprep.canonical import to_json
from dataprep.deal import Shuffle, deal, sample
from dataprep.errors import SourceError
from dataprep.index import Box, Row
from dataprep.sinks import ShardName


@dataclass(slots=True)
class SplitIndex:
    """Every row of a split in key order, one line each, about 300 bytes an image in all."""

    lines: list[bytes] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    classes: array[int] = field(default_factory=lambda: array("q"))
    sizes: array[int] = field(default_factory=lambda: array("q"))

    def add(self, line: bytes) -> None:
        """Append one row."""
        row = Row.from_json(line)
        self.lines.append(line)
        self.keys.append(row.key)
        self.classes.append(row.class_index)
        self.sizes.append(row.size)

    def take(self, positions: Iterable[int]) -> SplitIndex:
        """The rows at ``positions``, in that order."""
        chosen = list(positions)
        return SplitIndex(
            [self.lines[position] for position in chosen],
            [self.keys[position] for position in chosen],
            array("q", (self.classes[position] for position in chosen)),
            array("q", (self.sizes[position] for position in chosen)),
        )

    def input_sha256(self) -> str:
        """One hash over every (key, size, class index): the same for every raw layout."""
        digest = hashlib.sha256()
        for key, size, class_index in zip(self.keys, self.sizes, self.classes, strict=True):
            digest.update(f"{key}\0{size}\0{class_index}\n".encode("utf-8", "surrogateescape"))
        return digest.hexdigest()


def load_index(parts: Iterable[Path], *, split: str) -> SplitIndex:
    """Every row of the parts, sorted by key.

    Raises:
        SourceError: two rows have the same key, or there are no rows at all.
    """
    index = SplitIndex()
    for part in parts:
        for line in read_lines(part):
            index.add(line)
    if not index.keys:
        raise SourceError(f"{split}: no images found; nothing to do")
    # Parts come in name order, so this rarely moves anything.
    order = sorted(range(len(index.keys)), key=index.keys.__getitem__)
    if any(position != place for place, position in enumerate(order)):
        index = index.take(order)
    for before, after in zip(index.keys, index.keys[1:], strict=False):
        if before == after:
            raise SourceError(f"{split}: two images have the same name, {after!r}; rename one")
    return index


def limited(index: SplitIndex, limit: int | None, *, seed: int, split: str) -> SplitIndex:
    """A seeded sample of at most ``limit`` rows, still in key order."""
    if limit is None or limit >= len(index.keys):
        return index
    return index.take(sample(index.keys, limit, seed=seed, split=split).tolist())


def write_deck(
    workspace: Workspace,
    index: SplitIndex,
    *,
    split: str,
    shards: int,
    seed: int,
    shuffle: Shuffle,
    boxes: Mapping[str, tuple[Box, ...]],
    token: str,
) -> None:
    """Deal the rows and write them in order.

    Args:
        workspace: the output directory.
        index: the rows of the split.
        split: its name, part of the hash.
        shards: how many shards to deal to.
        seed: any integer.
        shuffle: how to deal.
        boxes: bounding boxes by file name; may be empty.
        token: identifies what the deck was made from; see `deck_is_current`.
    """
    deck = deal(
        index.keys, np.asarray(index.classes), shards, seed=seed, split=split, shuffle=shuffle
    )
    offsets = [0]
    path = workspace.deck / f"{split}.jsonl"
    temporary = partial_path(path)
    try:
        with temporary.open("xb") as file:
            for number in range(shards):
                for position in deck.shard(number).tolist():
                    line = index.lines[position]
                    file.write(_with_boxes(line, boxes) if boxes else line)
                offsets.append(file.tell())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    counts = np.diff(deck.starts).tolist()
    sizes = np.add.reduceat(np.asarray(index.sizes)[deck.order], deck.starts[:-1]).tolist()
    write_durably(
        workspace.deck / f"{split}.json",
        to_json({"token": token, "offsets": offsets, "images": counts, "source_bytes": sizes}),
    )


@dataclass(frozen=True, slots=True)
class Slices:
    """Where each shard's rows are in the deck, and how much they stand for."""

    token: str
    offsets: list[int]
    images: list[int]
    source_bytes: list[int]


def deck_is_current(workspace: Workspace, split: str, token: str) -> bool:
    """Whether the deck on disk is whole and was made with this token."""
    try:
        slices = read_slices(workspace, split)
        size = (workspace.deck / f"{split}.jsonl").stat().st_size
    except (OSError, ValueError, TypeError):
        return False
    return slices.token == token and size == slices.offsets[-1]


def read_slices(workspace: Workspace, split: str) -> Slices:
    """The table of a split's deck."""
    return Slices(**json.loads((workspace.deck / f"{split}.json").read_bytes()))


def read_shard(workspace: Workspace, shard: ShardName, slices: Slices | None = None) -> list[Row]:
    """The rows of one shard, in writing order."""
    offsets = (slices or read_slices(workspace, shard.split)).offsets
    start, stop = offsets[shard.number : shard.number + 2]
    with (workspace.deck / f"{shard.split}.jsonl").open("rb") as file:
        file.seek(start)
        lines = file.read(stop - start).splitlines()
    return [Row.from_json(line) for line in lines]


def _with_boxes(line: bytes, boxes: Mapping[str, tuple[Box, ...]]) -> bytes:
    row = Row.from_json(line)
    found = boxes.get(row.key.rpartition("/")[2])
    return replace(row, boxes=found).to_json().encode() + b"\n" if found else line
