"""Which of a source's files one node gets."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Any

from dataprep.errors import UsageError
from dataprep.sealed.manifest import Part, meant_split, part_json
from dataprep.staging.inventory import Inventory, SourceFile
from dataprep.system.messages import counted, printable, some_of


@dataclass(frozen=True, slots=True)
class Share:
    """That this node gets only its part of the shards.

    Attributes:
        node: 0-based.
        nodes: how many there are.
        replicas: how many nodes get each shard.
        whole: splits that every node gets whole all the same.
    """

    node: int
    nodes: int
    replicas: int = 1
    whole: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Selection:
    """What one node gets.

    Attributes:
        files: to be staged, in the order of their paths.
        digest: SHA-256 (hex) of the inventory's digest, the part and the paths selected; two
            selections of one source are the same if and only if this is.
        part: the text of ``part.json``, which says which shards are here; None if all are.
        notes: what the user should know, a line each, such as files that cannot be shared; the
            same on every node.
    """

    files: tuple[SourceFile, ...]
    digest: str
    part: str | None
    notes: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """Of all files together."""
        return sum(file.bytes for file in self.files)


def select(
    inventory: Inventory, *, splits: Collection[str] = (), share: Share | None = None
) -> Selection:
    """What a node gets.

    The shards of each split are dealt by their records, the files of a plain directory by their
    bytes. Files that are made once for a split, such as a mean image, are of all its shards, and
    do not come with a split that is shared.

    Args:
        splits: only these; all if empty.
        share: only this node's part of their shards; all shards if None.

    Raises:
        UsageError: a split is not in the manifest, or there is no manifest that could tell; a
            share would leave a node without any shard of a split.
    """
    if share is not None and not 1 <= share.replicas <= share.nodes:
        raise UsageError(
            f"--replicas {share.replicas}: each shard goes to 1 node at least, and to all at most, "
            f"of which there are {share.nodes}"
        )
    named = {*splits, *(share.whole if share else ())}
    if inventory.manifest is not None:
        known = inventory.manifest["splits"]
        meant = {name: meant_split(name, known) for name in named}
        if unknown := {*meant.values()} - {*known}:
            raise UsageError(
                f"{inventory.source} has no split {printable(min(unknown))}; it has: "
                f"{', '.join(known)}"
            )
        splits = {meant[name] for name in splits}
        if share is not None:
            share = replace(share, whole=frozenset(meant[name] for name in share.whole))
        return _of_data_set(inventory, inventory.manifest, splits, share)
    if named:
        raise UsageError(
            f"{inventory.source} has no manifest, so nothing is known of split {min(named)}; "
            "name the directory of the split"
        )
    files = inventory.files
    if share is not None:
        dealt = _deal("the directory", [file.bytes for file in files], share)
        files = tuple(files[number] for number in dealt)
    return _selection(inventory, files, None, ())


def _of_data_set(
    inventory: Inventory, manifest: Mapping[str, Any], splits: Collection[str], share: Share | None
) -> Selection:
    numbers: dict[str, tuple[int, ...]] = {}
    split_files: list[str] = []
    left_out: set[str] = set()
    notes = []
    for name, split in manifest["splits"].items():
        shards, own = split["shards"], [file["path"] for file in split["files"]]
        everything = range(len(shards))
        if splits and name not in splits:
            dealt: Sequence[int] = ()
        elif share is None or name in share.whole or share.replicas == share.nodes:
            dealt = everything
            split_files += own
        else:
            dealt = _deal(name, [shard["records"] for shard in shards], share)
            if own:
                notes.append(
                    f"{name}: left out {some_of(own)}, made once for all its shards; "
                    f"--whole {name} stages all of it on every node"
                )
        left_out.update({*own} - {*split_files})
        for number in {*everything} - {*dealt}:
            left_out.update(file["path"] for file in shards[number]["files"])
        if not splits or name in splits:
            numbers[name] = tuple(dealt)
    part = None
    if left_out:
        part = Part(
            manifest_sha256=manifest["sha256"],
            splits=numbers,
            split_files=tuple(split_files),
            node=0 if share is None else share.node,
            nodes=1 if share is None else share.nodes,
            replicas=1 if share is None else share.replicas,
        )
    files = [file for file in inventory.files if file.path not in left_out]
    return _selection(inventory, files, part, notes)


def _deal(name: str, sizes: Sequence[int], share: Share) -> tuple[int, ...]:
    """The numbers of this node's."""
    if len(sizes) * share.replicas < share.nodes:
        raise UsageError(
            f"{name} has {counted(len(sizes), 'shard')}, too few for {share.nodes} nodes to get "
            f"one each; use --replicas {-(-share.nodes // len(sizes))}, or stage it whole on every "
            f"node (--whole {name})"
        )
    dealt = deal_shards(sizes, share.nodes, share.replicas)
    return tuple(number for number, nodes in enumerate(dealt) if share.node in nodes)


def _selection(
    inventory: Inventory, files: Sequence[SourceFile], part: Part | None, notes: Sequence[str]
) -> Selection:
    # No path holds a NUL, so no two selections are the same text.
    text = None if part is None else part_json(part)
    named = "\0".join([inventory.digest, text or "", *(file.path for file in files)])
    return Selection(
        files=tuple(files),
        digest=hashlib.sha256(named.encode("utf-8", "surrogateescape")).hexdigest(),
        part=text,
        notes=tuple(notes),
    )


def deal_shards(sizes: Sequence[int], nodes: int, replicas: int = 1) -> Iterator[list[int]]:
    """Give every shard to the ``replicas`` nodes that have the least so far.

    Of nodes with equally much, the one with fewer shards comes first, then the one with the lower
    index; shards of one size thus go round and round, and no node gets a second shard while
    another has none.

    Totals never differ by more than the largest shard. They do not at the start; and if they do
    not before a shard, then not after it: of two nodes that both get it, or both do not, the
    difference stays, and if one alone gets it, that one had no more than the other and has now at
    most the shard more, or else the difference has only shrunk.

    Args:
        sizes: of every shard by number: records, or bytes where no records are known.
        replicas: how many nodes get each shard, at most all.

    Yields:
        For every shard in turn the indices of the nodes that get it.
    """
    least = [(0, 0, node) for node in range(nodes)]  # a heap: size, shards, node
    for size in sizes:
        chosen = [heappop(least) for _ in range(replicas)]
        for total, shards, node in chosen:
            heappush(least, (total + size, shards + 1, node))
        yield [node for _, _, node in chosen]
