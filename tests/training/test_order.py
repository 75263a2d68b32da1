"""Which record comes when: every one as often as it should, computed anywhere alike."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.errors import UsageError
from dataprep.training.order import (
    InBlocks,
    InOrder,
    InProportion,
    Order,
    Shuffled,
    Weighted,
    whole_shares,
)


def epoch_of(order: Order, epoch: int = 0) -> list[int]:
    found: list[int] = order.numbers(epoch, np.arange(order.count, dtype=np.uint64)).tolist()
    return found


def every_order() -> dict[str, Order]:
    members = np.arange(100)[::-1].copy()
    return {
        "none": InOrder(100, 5, {}),
        "global": Shuffled(100, 5, {}),
        "blocks": InBlocks(5, {}, [10, 0, 11, 29, 50], 2),
        "weights": Weighted(5, {}, np.arange(100, dtype=np.float64)),
        "proportion": InProportion(5, {}, members, [60, 30, 10], [1, 1, 2]),
    }


@pytest.mark.parametrize("name", every_order())
def test_any_positions_give_what_all_give(name: str) -> None:
    order = every_order()[name]
    for epoch in (0, 1, 7):
        everything = epoch_of(order, epoch)
        places = [99, 3, 3, 0, 57]
        some = order.numbers(epoch, np.array(places, np.uint64))
        assert some.tolist() == [everything[place] for place in places]
        for start in range(0, 100, 7):
            part = order.numbers(epoch, np.arange(start, min(start + 7, 100), dtype=np.uint64))
            assert part.tolist() == everything[start : start + 7]


@given(st.lists(st.integers(0, 40), min_size=1, max_size=30), st.integers(1, 40), st.integers(0, 9))
def test_blocks_keep_to_their_windows(sizes: list[int], window: int, epoch: int) -> None:
    if not sum(sizes):
        sizes = [*sizes, 1]
    found = epoch_of(InBlocks(1, {}, sizes, window), epoch)
    assert sorted(found) == list(range(sum(sizes)))
    shard = np.repeat(np.arange(len(sizes)), sizes)[found]
    # Nowhere are more shards begun and not yet done than a window has.
    first = {one: int(np.flatnonzero(shard == one)[0]) for one in set(shard.tolist())}
    last = {one: int(np.flatnonzero(shard == one)[-1]) for one in first}
    for place in range(len(found)):
        assert sum(first[one] <= place <= last[one] for one in first) <= window


def test_blocks_come_in_another_order_in_every_epoch() -> None:
    order = InBlocks(1, {}, [10] * 20, 4)
    assert epoch_of(order, 0) != epoch_of(order, 1)
    assert epoch_of(order, 0) == epoch_of(InBlocks(1, {}, [10] * 20, 4), 0)


@given(
    st.lists(st.floats(0, 1e6, allow_subnormal=False), min_size=1, max_size=60).filter(
        lambda found: sum(found) > 0
    ),
    st.integers(0, 5),
)
def test_weights_are_kept_to_one_in_each_epoch(weights: list[float], epoch: int) -> None:
    given_ = np.array(weights)
    counts = np.bincount(epoch_of(Weighted(2, {}, given_), epoch), minlength=len(weights))
    wanted = given_ / given_.sum() * len(weights)
    assert (np.abs(counts - wanted) < 1 + 1e-6).all()
    assert not counts[given_ == 0].any()


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 12)), min_size=1, max_size=6),
    st.integers(1, 200),
)
def test_shares_hold_in_every_stretch(groups: list[tuple[int, int]], length: int) -> None:
    sizes, shares = [size for size, _ in groups], [share for _, share in groups]
    order = InProportion(3, {}, None, sizes, shares)
    epochs = -(-600 // order.count)
    found = np.concatenate([epoch_of(order, epoch) for epoch in range(epochs)])
    group = np.searchsorted(np.cumsum(sizes), found, "right")
    stretch = -(-sum(shares) // min(shares))
    for one, share in enumerate(shares):
        seen = np.concatenate([[0], np.cumsum(group == one)])
        in_stretch = seen[length:] - seen[:-length] - length * share / sum(shares)
        assert np.abs(in_stretch).max(initial=0) <= min(stretch, length) + 2
        # Where stretches end, nothing but rounding is left.
        ends = seen[::stretch]
        assert np.abs(ends - np.arange(len(ends)) * stretch * share / sum(shares)).max() < 1


def test_of_each_group_all_are_drawn_before_any_is_drawn_again() -> None:
    order = InProportion(3, {}, None, [7, 50], [1, 1])
    found = [number for epoch in range(40) for number in epoch_of(order, epoch)]
    small = Counter(number for number in found if number < 7)
    large = Counter(number for number in found if number >= 7)
    assert max(small.values()) - min(small.values()) <= 1
    assert max(large.values()) - min(large.values()) <= 1
    assert abs(small.total() - large.total()) <= 1


def test_shares_are_exact_as_they_are_written() -> None:
    assert whole_shares([0.7, 0.2, 0.1], "abc") == [7, 2, 1]
    assert whole_shares([1281167, 50000], "ab") == [1281167, 50000]
    assert whole_shares([3.0, 1.5], "ab") == [2, 1]
    third = whole_shares([1 / 3, 2 / 3], "ab")
    assert abs(third[0] / sum(third) - 1 / 3) < 1e-7
    with pytest.raises(UsageError, match="the weight of b is 0, expected a number above 0"):
        whole_shares([1, 0], "ab")
    with pytest.raises(UsageError, match=r"the weight of b is nan"):
        whole_shares([1, float("nan")], "ab")
    with pytest.raises(UsageError, match="of b is below"):
        whole_shares([1, 1e-9], "ab")


def test_orders_never_change() -> None:
    """As they came out in November 2026: what is resumed was begun by an earlier version."""
    assert {name: epoch_of(it, 1)[:8] for name, it in every_order().items()} == {
        "none": [0, 1, 2, 3, 4, 5, 6, 7],
        "global": [36, 11, 42, 33, 51, 50, 73, 71],
        "blocks": [12, 8, 13, 14, 7, 0, 11, 16],
        "weights": [43, 41, 78, 86, 73, 67, 55, 87],
        "proportion": [8, 19, 4, 86, 88, 32, 6, 9],
    }
