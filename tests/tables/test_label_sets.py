"""The order of label sets: the Gray code it is, and every bound it promises."""

from __future__ import annotations

from itertools import combinations, groupby, pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from dataprep.tables.label_sets import LabelSet, rank_label_sets

LABELS = 6

label_sets = st.sets(st.integers(0, LABELS - 1)).map(lambda labels: tuple(sorted(labels)))
countings = st.dictionaries(label_sets, st.integers(1, 8), min_size=1, max_size=24)


def in_order(counts: dict[LabelSet, int]) -> list[LabelSet]:
    ranks = rank_label_sets(counts)
    assert sorted(ranks.values()) == list(range(len(counts)))
    return sorted(counts, key=ranks.__getitem__)


def rarest_first(counts: dict[LabelSet, int]) -> list[int]:
    return sorted(range(LABELS), key=lambda label: (images_with(label, counts), label))


def images_with(label: int, counts: dict[LabelSet, int]) -> int:
    return sum(count for labels, count in counts.items() if label in labels)


def counts_per_shard(counts: dict[LabelSet, int], shards: int) -> list[list[LabelSet]]:
    """The label sets of each shard's images, which go to the shards in turn."""
    images = [labels for labels in in_order(counts) for _ in range(counts[labels])]
    return [images[number::shards] for number in range(shards)]


def runs(order: list[LabelSet], label: int) -> int:
    """How many stretches of consecutive label sets have the label."""
    return sum(key for key, _ in groupby(label in labels for labels in order))


def spread(numbers: list[int]) -> int:
    return max(numbers) - min(numbers)


def test_all_sets_of_four_labels_are_in_the_order_of_the_reflected_gray_code() -> None:
    # Label 3 is the rarest and 0 the most frequent, so a set reads as a binary number.
    every = [labels for size in range(5) for labels in combinations(range(4), size)]
    counts = dict.fromkeys(every, 1) | {(0,): 9, (1,): 6, (2,): 3}
    numbers = [sum(1 << label for label in labels) for labels in in_order(counts)]
    assert numbers == [rank ^ (rank >> 1) for rank in range(16)]


def test_neighbours_differ_in_one_label_where_all_sets_occur() -> None:
    every = [labels for size in range(6) for labels in combinations(range(5), size)]
    order = in_order({labels: 1 + sum(labels) for labels in every})
    assert all(len(set(one) ^ set(other)) == 1 for one, other in pairwise(order))


def test_thousands_of_classes_are_no_burden() -> None:
    order = in_order({(label, label + 50_000): 1 + label for label in range(1000)})
    assert order[-1] == (0, 50_000)  # the rarest is the last


@given(countings, st.randoms(use_true_random=False))
def test_the_order_in_which_sets_are_given_does_not_matter(
    counts: dict[LabelSet, int], generator: Random
) -> None:
    pairs = list(counts.items())
    generator.shuffle(pairs)
    assert in_order(dict(pairs)) == in_order(counts)


@given(countings)
def test_a_label_has_no_more_runs_than_promised(counts: dict[LabelSet, int]) -> None:
    order = in_order(counts)
    ranked = rarest_first(counts)
    for place, label in enumerate(ranked):
        rarer = {frozenset(labels) & set(ranked[:place]) for labels in order if label in labels}
        assert runs(order, label) <= min(max(1, 2 ** (place - 1)), len(rarer))


@given(countings, st.integers(1, 40))
def test_every_bound_holds_between_any_two_shards(counts: dict[LabelSet, int], wanted: int) -> None:
    shards = counts_per_shard(counts, min(wanted, sum(counts.values())))
    assert spread([len(images) for images in shards]) <= 1
    for labels in counts:
        assert spread([images.count(labels) for images in shards]) <= 1
    order = in_order(counts)
    for label in range(LABELS):
        found = [sum(label in labels for labels in images) for images in shards]
        assert spread(found) <= runs(order, label)
