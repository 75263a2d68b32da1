"""Dealing shards over nodes: everybody equally much, everything somewhere, always the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.errors import UsageError
from dataprep.staging.selection import deal_shards, least_replicas


def hands(sizes: list[int], nodes: int, replicas: int = 1) -> list[list[int]]:
    """The shards of every node."""
    dealt: list[list[int]] = [[] for _ in range(nodes)]
    for shard, holders in deal_shards(sizes, nodes, replicas):
        for node in holders:
            dealt[node].append(shard)
    return dealt


def totals(sizes: list[int], nodes: int, replicas: int) -> list[int]:
    return [sum(sizes[shard] for shard in hand) for hand in hands(sizes, nodes, replicas)]


@st.composite
def deals(draw: st.DrawFn) -> tuple[list[int], int, int]:
    """Sizes of shards, some of nothing and some huge; nodes, and replicas that fit them."""
    size = st.one_of(st.integers(0, 3), st.integers(0, 1300), st.integers(0, 1 << 45))
    nodes = draw(st.integers(1, 12))
    return draw(st.lists(size, max_size=60)), nodes, draw(st.integers(1, nodes))


@given(deals())
def test_every_shard_is_on_as_many_nodes_as_asked(deal: tuple[list[int], int, int]) -> None:
    sizes, nodes, replicas = deal
    dealt = list(deal_shards(sizes, nodes, replicas))
    assert [shard for shard, _ in dealt] == [*range(len(sizes))]
    for _, holders in dealt:
        assert len(holders) == len({*holders}) == replicas
        assert {*holders} <= {*range(nodes)}


@given(deals())
def test_no_two_nodes_differ_by_more_than_the_largest_shard(
    deal: tuple[list[int], int, int],
) -> None:
    sizes, nodes, replicas = deal
    found = totals(sizes, nodes, replicas)
    assert sum(found) == replicas * sum(sizes)
    assert max(found) - min(found) <= max(sizes, default=0)


@given(deals())
def test_no_node_has_two_shards_while_another_has_none(deal: tuple[list[int], int, int]) -> None:
    sizes, nodes, replicas = deal
    found = [len(hand) for hand in hands(sizes, nodes, replicas)]
    assert min(found) > 0 or max(found) <= 1
    assert (min(found) > 0) == (len(sizes) * replicas >= nodes)


@given(st.integers(0, 60), st.integers(1, 12), st.data())
def test_shards_of_one_size_go_round(shards: int, nodes: int, data: st.DataObject) -> None:
    replicas = data.draw(st.integers(1, nodes))
    size = data.draw(st.integers(1, 2000))
    for shard, holders in deal_shards([size] * shards, nodes, replicas):
        assert {*holders} == {(shard * replicas + each) % nodes for each in range(replicas)}


@given(st.integers(1, 2000), st.integers(1, 2000))
def test_the_least_replicas_are_the_least_with_which_every_node_gets_one(
    shards: int, nodes: int
) -> None:
    least = least_replicas(shards, nodes)
    assert shards * (least - 1) < nodes <= shards * least
    assert 1 <= least <= nodes


def test_a_deal_never_changes() -> None:
    assert hands([5, 3, 3, 8, 1, 1, 2, 4], 3) == [[0, 6], [1, 3], [2, 4, 5, 7]]
    assert hands([5, 3, 3, 8, 1], 3, 2) == [[0, 1, 3], [0, 2, 4], [1, 2, 3, 4]]


@pytest.mark.parametrize(("shards", "nodes"), [(1024, 1000), (100_000, 1536)])
def test_many_shards_over_many_nodes(shards: int, nodes: int) -> None:
    sizes = [1251 + shard % 2 for shard in range(shards)]
    found = totals(sizes, nodes, 2)
    assert sum(found) == 2 * sum(sizes)
    assert max(found) - min(found) <= 1252


@pytest.mark.parametrize(("nodes", "replicas"), [(2, 3), (1, 2), (4, 0), (4, -1), (0, 1)])
def test_more_replicas_than_nodes_are_refused(nodes: int, replicas: int) -> None:
    with pytest.raises(UsageError, match=f"--replicas {replicas}: there (is|are) {nodes} node"):
        list(deal_shards([1], nodes, replicas))
