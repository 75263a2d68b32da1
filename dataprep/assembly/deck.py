"""From the index to the deck: which rows, in which order, in which shard; on disk.

``deck/<split>.jsonl`` holds every row in writing order, so that a worker reads its shard as
one contiguous slice and never more than that; ``deck/<split>.json`` says where the slices are.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

import numpy as np

from dataprep.assembly.split_index import SplitIndex
from dataprep.assembly.workspace import Workspace
from dataprep.canonical import to_json
from dataprep.deal import Shuffle, deal
from dataprep.durable_files import partial_path, write_durably
from dataprep.errors import SinkError
from dataprep.hashing import file_sha256
from dataprep.index import Row
from dataprep.sinks import ShardName


def write_deck(
    workspace: Workspace,
    index: SplitIndex,
    *,
    split: str,
    shards: int,
    shuffle: Shuffle,
    token: str,
) -> None:
    """Deal the rows and write them in order.

    Args:
        workspace: the output directory.
        index: the rows of the split.
        split: its name.
        shards: how many shards to deal to.
        shuffle: how to deal.
        token: identifies what the deck was made from; see `deck_is_current`.
    """
    deck = deal(index.hashes, index.classes, shards, split=split, shuffle=shuffle)
    offsets = [0]
    digest = hashlib.sha256()
    path = workspace.deck / f"{split}.jsonl"
    temporary = partial_path(path)
    try:
        with temporary.open("xb") as file:
            for number in range(shards):
                for line in index.lines(deck.shard(number).tolist()):
                    digest.update(line)
                    file.write(line)
                offsets.append(file.tell())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    counts = np.diff(deck.starts).tolist()
    sizes = np.add.reduceat(index.sizes[deck.order], deck.starts[:-1]).tolist()
    table = Slices(token, digest.hexdigest(), offsets, counts, sizes)
    write_durably(workspace.deck / f"{split}.json", to_json(asdict(table)))


@dataclass(frozen=True, slots=True)
class Slices:
    """Where each shard's rows are in the deck, and how much they stand for.

    Attributes:
        token: what the deck was made from.
        sha256: of the deck.
        offsets: shard s is the deck's bytes from ``offsets[s]`` to ``offsets[s + 1]``.
        images: rows, a shard.
        source_bytes: size of the images, a shard.
    """

    token: str
    sha256: str
    offsets: list[int]
    images: list[int]
    source_bytes: list[int]


def deck_is_current(workspace: Workspace, split: str, token: str) -> bool:
    """Whether the deck on disk is whole and was made with this token."""
    try:
        slices = read_slices(workspace, split)
        path = workspace.deck / f"{split}.jsonl"
        return slices.token == token and slices.sha256 == file_sha256(path)
    except (OSError, ValueError, TypeError):
        return False


def read_slices(workspace: Workspace, split: str) -> Slices:
    """The table of a split's deck."""
    return Slices(**json.loads((workspace.deck / f"{split}.json").read_bytes()))


def read_shard(workspace: Workspace, shard: ShardName) -> list[Row]:
    """The rows of one shard, in writing order.

    Raises:
        SinkError: the deck is shorter than its table says; a file system gave less than it has.
    """
    slices = read_slices(workspace, shard.split)
    start, stop = slices.offsets[shard.number : shard.number + 2]
    path = workspace.deck / f"{shard.split}.jsonl"
    with path.open("rb") as file:
        file.seek(start)
        lines = file.read(stop - start).splitlines()
    if len(lines) != slices.images[shard.number]:
        raise SinkError(
            f"{path}: {len(lines)} rows of {shard}, expected {slices.images[shard.number]}; "
            "run the same command again"
        )
    return [Row.from_json(line) for line in lines]
