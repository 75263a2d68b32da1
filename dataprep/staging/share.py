"""Dealing shards over nodes, so that every node has about as much."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from heapq import heapify, heappop, heappush, heapreplace

from dataprep.errors import UsageError
from dataprep.system.messages import counted


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
