"""The order: properties over random inputs, and one golden vector that must never change."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.deal import (
    Hashes,
    Shuffle,
    as_hashes,
    deal,
    default_shard_count,
    digest,
    new_game,
    sample,
)
from dataprep.errors import UsageError

SHUFFLES: list[Shuffle] = ["stratified", "global", "none"]


@st.composite
def hands(draw: st.DrawFn) -> tuple[list[str], list[int], int]:
    """Unique keys, a category for each, and a shard count that leaves no shard empty."""
    keys = draw(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=120, unique=True))
    categories = draw(st.lists(st.integers(0, 6), min_size=len(keys), max_size=len(keys)))
    return keys, categories, draw(st.integers(1, len(keys)))


def names(
    keys: list[str], categories: list[int], shards: int, shuffle: Shuffle, seed: int = 0
) -> list[list[str]]:
    """Deal as the program does: in key order, whatever order the examples were found in."""
    pairs = sorted(zip(keys, categories, strict=True))
    ordered = [key for key, _ in pairs]
    labels = np.asarray([label for _, label in pairs], dtype=np.int32)
    deck = deal(hashes(ordered, seed=seed), labels, shards, split="train", shuffle=shuffle)
    return [[ordered[position] for position in deck.shard(number)] for number in range(shards)]


def hashes(keys: list[str], *, seed: int = 0, split: str = "train") -> Hashes:
    game = new_game(seed=seed, split=split)
    return as_hashes(b"".join(digest(key, game) for key in keys))


@given(hands(), st.sampled_from(SHUFFLES))
def test_every_example_is_dealt_exactly_once(
    hand: tuple[list[str], list[int], int], shuffle: Shuffle
) -> None:
    keys, categories, shards = hand
    dealt = [key for shard in names(keys, categories, shards, shuffle) for key in shard]
    assert sorted(dealt) == sorted(keys)


@given(hands(), st.sampled_from(SHUFFLES))
def test_shard_sizes_differ_by_at_most_one_and_none_is_empty(
    hand: tuple[list[str], list[int], int], shuffle: Shuffle
) -> None:
    keys, categories, shards = hand
    sizes = [len(shard) for shard in names(keys, categories, shards, shuffle)]
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= 1


@given(hands())
def test_every_category_differs_by_at_most_one_between_any_two_shards(
    hand: tuple[list[str], list[int], int],
) -> None:
    keys, categories, shards = hand
    category_of = dict(zip(keys, categories, strict=True))
    counts = [
        Counter(category_of[key] for key in shard)
        for shard in names(keys, categories, shards, "stratified")
    ]
    for category in set(categories):
        found = [count[category] for count in counts]
        assert max(found) - min(found) <= 1


@given(hands(), st.sampled_from(SHUFFLES), st.randoms(use_true_random=False))
def test_the_order_in_which_examples_were_found_does_not_matter(
    hand: tuple[list[str], list[int], int], shuffle: Shuffle, generator: random.Random
) -> None:
    keys, categories, shards = hand
    pairs = list(zip(keys, categories, strict=True))
    generator.shuffle(pairs)
    other_keys, other_categories = [key for key, _ in pairs], [label for _, label in pairs]
    assert names(keys, categories, shards, shuffle) == names(
        other_keys, other_categories, shards, shuffle
    )


@given(hands())
def test_none_is_sorted_consecutive_runs(hand: tuple[list[str], list[int], int]) -> None:
    keys, categories, shards = hand
    dealt = [key for shard in names(keys, categories, shards, "none") for key in shard]
    assert dealt == sorted(keys)


def test_another_seed_or_split_is_another_order() -> None:
    keys = [f"{number:03d}" for number in range(200)]
    categories = [number % 5 for number in range(200)]
    first = names(keys, categories, 4, "stratified", seed=0)
    assert first != names(keys, categories, 4, "stratified", seed=1)
    assert not np.array_equal(hashes(keys), hashes(keys, split="validation"))


def test_golden_vector() -> None:
    # Made by this code, version "dataprep.deal.v1", and frozen: a change of these values means
    # that every data set in the world would be dealt anew, and needs a new version string.
    keys = [f"n{category:08d}/{number}.JPEG" for category in range(3) for number in range(4)]
    categories = [category for category in range(3) for _ in range(4)]
    labels = np.asarray(categories, dtype=np.int32)
    deck = deal(hashes(keys, seed=7), labels, 3, split="train", shuffle="stratified")
    assert deck.order.tolist() == GOLDEN_ORDER
    assert deck.starts.tolist() == [0, 4, 8, 12]
    assert hashes(["a"]).tolist() == GOLDEN_DIGEST


GOLDEN_ORDER = [3, 5, 9, 0, 4, 7, 11, 2, 1, 8, 6, 10]
GOLDEN_DIGEST = [[2720769465531493824, 718933856418456358]]


def test_the_hash_is_blake2b_as_documented() -> None:
    game = hashlib.blake2b(b"0\0train", digest_size=32).digest()
    expected = hashlib.blake2b(b"a", digest_size=16, key=game, person=b"dataprep.deal.v1").digest()
    assert digest("a", new_game(seed=0, split="train")) == expected


@pytest.mark.parametrize("hash_seed", ["0", "1"])
def test_salted_string_hashes_do_not_matter(hash_seed: str) -> None:
    program = (
        "from dataprep.deal import digest, new_game; "
        "print([digest(key, new_game(seed=0, split='train')).hex() for key in 'abcdefgh'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    ours = [digest(key, new_game(seed=0, split="train")).hex() for key in "abcdefgh"]
    assert done.stdout.strip() == str(ours)


def test_surrogates_in_names_can_be_dealt() -> None:
    assert names(["a\udcff.JPEG", "b"], [0, 0], 1, "stratified")


@pytest.mark.parametrize(("shards", "fix"), [(4, "use at most train=3"), (0, "at least 1")])
def test_an_empty_shard_is_refused_with_the_fix(shards: int, fix: str) -> None:
    with pytest.raises(UsageError, match=fix):
        names(["a", "b", "c"], [0, 0, 0], shards, "none")


@pytest.mark.parametrize(
    ("count", "preferred", "expected"),
    [
        (1_281_167, 1024, 1024),
        (50_000, 128, 128),
        (102_400, 1024, 1024),
        (102_399, 1024, 512),
        (400, 1024, 4),
        (399, 1024, 2),
        (100, 128, 1),
        (3, 128, 1),
    ],
)
def test_default_shard_count(count: int, preferred: int, expected: int) -> None:
    assert default_shard_count(count, preferred) == expected


@given(st.lists(st.text(max_size=5), min_size=1, max_size=50, unique=True), st.integers(1, 60))
def test_sample_is_a_prefix_of_a_fixed_order(keys: list[str], limit: int) -> None:
    small = set(sample(hashes(keys), limit).tolist())
    large = set(sample(hashes(keys), limit + 5).tolist())
    assert len(small) == min(limit, len(keys))
    assert small <= large
