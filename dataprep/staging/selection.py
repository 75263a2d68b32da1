"""Which of a source's files one node gets."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any

from dataprep.build.manifest import Part, part_json
from dataprep.errors import UsageError
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
        digest: SHA-256 (hex) of the inventory's digest and the paths selected; two selections of
            one source are the same if and only if this is.
        part: the text of ``part.json``, which says which shards are here; None if all are.
        notes: what the user should know, a line each, such as files that cannot be shared; the
            same on every node.
        records: how many this node gets; None in a plain directory.
    """

    files: tuple[SourceFile, ...]
    digest: str
    part: str | None
    notes: tuple[str, ...]
    records: int | None

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
        inventory: what there is.
        splits: only these; all if empty.
        share: only this node's part of their shards; all shards if None.

    Raises:
        UsageError: a split is not in the manifest, or there is no manifest that could tell; a
            share would leave a node without any shard of a split.
    """
    if share is not None:
        check_replicas(share.nodes, share.replicas)
        if not 0 <= share.node < share.nodes:
            raise UsageError(f"there is no node {share.node} of {share.nodes}; the first one is 0")
    whole = () if share is None else share.whole
    if inventory.manifest is not None:
        _check_splits(inventory, "--split", splits)
        _check_splits(inventory, "--whole", whole)
        return _of_data_set(inventory, inventory.manifest, splits, share)
    if splits or whole:
        raise UsageError(
            f"{'--split' if splits else '--whole'} {some_of(splits or whole)}: {inventory.source} "
            "has no manifest, so nothing is known of splits; name the directory of the split"
        )
    return _of_directory(inventory, share)


def _check_splits(inventory: Inventory, option: str, names: Collection[str]) -> None:
    known = (inventory.manifest or {})["splits"]
    if unknown := set(names) - set(known):
        raise UsageError(
            f"{option} {printable(min(unknown))}: {inventory.source} has no such split; "
            f"it has: {', '.join(known)}"
        )


def _of_directory(inventory: Inventory, share: Share | None) -> Selection:
    files: Sequence[SourceFile] = inventory.files
    if share is not None:
        if len(files) * share.replicas < share.nodes:
            raise _too_few(counted(len(files), "file"), len(files), share, "leave --share out")
        numbers, _ = _deal([file.bytes for file in files], share)
        files = [files[number] for number in numbers]
    return _selection(inventory, files, None, (), None)


def _of_data_set(
    inventory: Inventory, manifest: Mapping[str, Any], splits: Collection[str], share: Share | None
) -> Selection:
    known = manifest["splits"]
    hands = {
        name: _hand_of(name, split, share)
        for name, split in known.items()
        if name in splits or not splits
    }
    of_splits = {path for split in known.values() for path in _paths(split, split["shards"])}
    ours = {path for hand in hands.values() for path in hand.paths}
    files = [file for file in inventory.files if file.path in ours or file.path not in of_splits]
    part = None
    if ours != of_splits:
        part = Part(
            manifest_sha256=manifest["sha256"],
            splits={name: hand.numbers for name, hand in hands.items()},
            split_files=tuple(path for hand in hands.values() for path in hand.split_files),
            node=0 if share is None else share.node,
            nodes=1 if share is None else share.nodes,
            replicas=1 if share is None else share.replicas,
        )
    notes = [note for hand in hands.values() for note in hand.notes]
    return _selection(inventory, files, part, notes, sum(hand.records for hand in hands.values()))


@dataclass(frozen=True, slots=True)
class _Hand:
    """What a node gets of one split."""

    numbers: tuple[int, ...]
    paths: frozenset[str]
    split_files: tuple[str, ...]
    records: int
    notes: tuple[str, ...] = ()


def _hand_of(name: str, split: Mapping[str, Any], share: Share | None) -> _Hand:
    shards = split["shards"]
    own = tuple(file["path"] for file in split["files"])
    if share is None or name in share.whole or share.replicas == share.nodes:
        everything = tuple(range(len(shards)))
        return _Hand(everything, frozenset(_paths(split, shards)), own, split["records"])
    if len(shards) * share.replicas < share.nodes:
        having = f"{name} has {counted(len(shards), 'shard')}"
        raise _too_few(having, len(shards), share, f"stage it whole on every node (--whole {name})")
    numbers, totals = _deal([shard["records"] for shard in shards], share)
    notes = []
    if len(shards) * share.replicas % share.nodes:
        notes.append(
            f"{name}: {counted(len(shards), 'shard')} cannot be dealt evenly over {share.nodes} "
            f"nodes: these get {min(totals):,} to {max(totals):,} records"
        )
    if own:
        notes.append(
            f"{name}: left out {some_of(own)}, made once for all its shards; "
            f"--whole {name} stages all of it on every node"
        )
    dealt = [shards[number] for number in numbers]
    return _Hand(
        numbers=numbers,
        paths=frozenset(_paths({"files": ()}, dealt)),
        split_files=(),
        records=totals[share.node],
        notes=tuple(notes),
    )


def _paths(split: Mapping[str, Any], shards: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Of shards, and of the files that their split has besides."""
    for holder in (split, *shards):
        yield from (file["path"] for file in holder["files"])


def _deal(sizes: Sequence[int], share: Share) -> tuple[tuple[int, ...], list[int]]:
    """The numbers of this node's, and the total of every node."""
    numbers = []
    totals = [0] * share.nodes
    for number, nodes in deal_shards(sizes, share.nodes, share.replicas):
        if share.node in nodes:
            numbers.append(number)
        for node in nodes:
            totals[node] += sizes[number]
    return tuple(numbers), totals


def _too_few(having: str, count: int, share: Share, instead: str) -> UsageError:
    return UsageError(
        f"{having}, too few for {share.nodes} nodes to get one each"
        f"{'' if share.replicas == 1 else f' with --replicas {share.replicas}'}; use "
        f"--replicas {least_replicas(count, share.nodes)}, or {instead}"
    )


def _selection(
    inventory: Inventory,
    files: Sequence[SourceFile],
    part: Part | None,
    notes: Sequence[str],
    records: int | None,
) -> Selection:
    # No path holds a NUL, so no two selections are the same text.
    named = "\0".join([inventory.digest, *(file.path for file in files)])
    return Selection(
        files=tuple(files),
        digest=hashlib.sha256(named.encode("utf-8", "surrogateescape")).hexdigest(),
        part=None if part is None else part_json(part),
        notes=tuple(notes),
        records=records,
    )


def check_replicas(nodes: int, replicas: int) -> None:
    """Refuse more copies than nodes.

    Raises:
        UsageError: there are fewer nodes than replicas, or none of either.
    """
    if not 1 <= replicas <= nodes:
        raise UsageError(
            f"--replicas {replicas}: there {'is' if nodes == 1 else 'are'} "
            f"{counted(nodes, 'node')}, and each shard goes to 1 of them at least, to all at most"
        )


def deal_shards(
    sizes: Sequence[int], nodes: int, replicas: int = 1
) -> Iterator[tuple[int, Collection[int]]]:
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
        nodes: how many there are.
        replicas: how many nodes get each shard.

    Yields:
        The number of every shard in turn, with the indices of the nodes that get it.

    Raises:
        UsageError: there are fewer nodes than replicas, or none of either.
    """
    check_replicas(nodes, replicas)
    if replicas == nodes:
        yield from ((shard, range(nodes)) for shard in range(len(sizes)))
        return
    # Bytes or records, then shards, then the index, in one number: heaps of tuples take thrice
    # as long.
    most = len(sizes) + 1
    least = list(range(nodes))
    heapify(least)
    for shard, size in enumerate(sizes):
        more = (size * most + 1) * nodes
        if replicas == 1:
            yield shard, (heapreplace(least, least[0] + more) % nodes,)
            continue
        chosen = [heappop(least) for _ in range(replicas)]
        for node in chosen:
            heappush(least, node + more)
        yield shard, [node % nodes for node in chosen]


def least_replicas(shards: int, nodes: int) -> int:
    """The smallest number of replicas with which every node gets a shard."""
    return -(-nodes // shards)
