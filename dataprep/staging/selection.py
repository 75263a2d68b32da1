"""Which of a source's files one node gets."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapreplace

from dataprep.errors import UsageError
from dataprep.sealed.set import meant_split
from dataprep.staging.source import Inventory, SourceFile
from dataprep.system.messages import counted, printable, some_of
from dataprep.system.state_files import encode
from dataprep_schemas.manifest import Manifest
from dataprep_schemas.state import Part


@dataclass(frozen=True, slots=True)
class Share:
    """That this node gets only its part of the shards."""

    node: int  # 0-based
    nodes: int  # how many there are


@dataclass(frozen=True, slots=True)
class Selection:
    """What one node gets."""

    files: tuple[SourceFile, ...]  # to be staged, in the order of their paths
    # SHA-256 (hex) of the inventory's digest, the part and the paths selected; two selections of
    # one source are the same if and only if this is.
    digest: str
    part: Part | None  # what ``part.json`` says; None if everything is here
    notes: tuple[str, ...]  # lines for the user, such as on files that cannot be shared; everywhere

    @property
    def bytes(self) -> int:
        """Of all files together."""
        return sum(file.bytes for file in self.files)


def select(
    inventory: Inventory, *, splits: Collection[str] = (), share: Share | None = None
) -> Selection:
    """What a node gets.

    The shards of each split are assigned by their records, the files of a plain directory by their
    bytes. Every node gets all of a split that has fewer shards than there are nodes. Files that are
    made once for a split, such as a mean image, are of all its shards, and come only with all.

    Args:
        splits: only these; all if empty.
        share: only this node's part of their shards; all shards if None.

    Raises:
        UsageError: a split is not in the manifest, or there is no manifest that could tell.
    """
    if share is not None and share.nodes == 1:
        share = None
    if inventory.manifest is not None:
        return _of_data_set(inventory, inventory.manifest, splits, share)
    if splits:
        raise UsageError(
            f"{inventory.source} has no manifest, so nothing is known of split {min(splits)}; "
            "name the directory of the split"
        )
    notes: list[str] = []
    sizes = [file.bytes for file in inventory.files]
    own = _own(sizes, share, "the directory", "file", notes)
    return _selection(inventory, [inventory.files[number] for number in own], None, notes)


def _of_data_set(
    inventory: Inventory, manifest: Manifest, splits: Collection[str], share: Share | None
) -> Selection:
    wanted = {meant_split(name, manifest.splits) for name in splits} or {*manifest.splits}
    if unknown := wanted - {*manifest.splits}:
        raise UsageError(
            f"{inventory.source} has no split {printable(min(unknown))}; it has: "
            f"{', '.join(manifest.splits)}"
        )
    numbers: dict[str, tuple[int, ...]] = {}
    split_files: list[str] = []
    left_out: set[str] = set()
    notes: list[str] = []
    for name, split in manifest.splits.items():
        here: Sequence[int] = ()
        if name in wanted:
            sizes = [shard.records for shard in split.shards]
            here = numbers[name] = _own(sizes, share, name, "shard", notes)
        absent = {*range(len(split.shards))}.difference(here)
        left_out.update(file.path for number in absent for file in split.shards[number].files)
        made_once = [file.path for file in split.files]
        if not absent:
            split_files += made_once
            continue
        left_out.update(made_once)
        if made_once and name in wanted:
            notes.append(
                f"{printable(name)}: left out {some_of(made_once)}, made once for all its shards; "
                "without --share they come along"
            )
    part = None
    if left_out:
        part = Part(
            manifest_sha256=manifest.sha256,
            splits=numbers,
            split_files=tuple(split_files),
            node=share.node if share else 0,
            nodes=share.nodes if share else 1,
        )
    files = [file for file in inventory.files if file.path not in left_out]
    return _selection(inventory, files, part, notes)


def _own(
    sizes: Sequence[int], share: Share | None, what: str, noun: str, notes: list[str]
) -> tuple[int, ...]:
    """The numbers of this node's: all where parts are not asked for, or not every node gets one."""
    if share is not None and len(sizes) < share.nodes:
        notes.append(
            f"{printable(what)}: {counted(len(sizes), noun)}, too few for {share.nodes} nodes, so "
            "all of it is staged on every node"
        )
    elif share is not None:
        nodes = assign_shards(sizes, share.nodes)
        return tuple(number for number, node in enumerate(nodes) if node == share.node)
    return tuple(range(len(sizes)))


def _selection(
    inventory: Inventory, files: Sequence[SourceFile], part: Part | None, notes: Sequence[str]
) -> Selection:
    text = "" if part is None else encode(part).decode()
    # No path holds a NUL, so no two selections are the same text.
    named = "\0".join([inventory.digest, text, *(file.path for file in files)])
    digest = hashlib.sha256(named.encode()).hexdigest()
    return Selection(tuple(files), digest, part, tuple(notes))


def assign_shards(sizes: Sequence[int], nodes: int) -> Iterator[int]:
    """Give every shard to the node that has the least so far.

    Of nodes with equally much, the one with fewer shards comes first, then the one with the lower
    index; shards of one size thus go round and round, and no node gets a second shard while
    another has none. Totals never differ by more than the largest shard: of two nodes, the one
    that gets a shard had no more than the other, and has now at most the shard more, or else the
    difference has only shrunk.

    Args:
        sizes: of every shard by number: records, or bytes where no records are known.

    Yields:
        For every shard in turn the index of the node that gets it.
    """
    least = [(0, 0, node) for node in range(nodes)]  # a heap: size, shards, node
    for size in sizes:
        total, shards, node = least[0]
        heapreplace(least, (total + size, shards + 1, node))
        yield node
