"""Keyed permutations and random numbers: bijective, well mixed, the same for ever."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.training.order import key, permuted, uniforms
from tests.conftest import everyday


def whole(count: int, *words: int, tweak: int = 0) -> list[int]:
    places = np.arange(count, dtype=np.uint64)
    found: list[int] = permuted(places, one(count), key(*words), one(tweak)).tolist()
    return found


def one(number: int) -> np.ndarray:
    return np.array([number], np.uint64)


@given(st.integers(1, 3000), st.integers(), st.integers(0, 2**64 - 1))
def test_every_number_comes_once(count: int, seed: int, tweak: int) -> None:
    assert sorted(whole(count, seed, tweak=tweak)) == list(range(count))


@given(st.lists(st.integers(1, 2**50), min_size=1, max_size=9), st.data())
def test_each_position_may_be_of_another_permutation(
    counts: list[int], data: st.DataObject
) -> None:
    places = [data.draw(st.integers(0, count - 1)) for count in counts]
    both = np.array([places, counts], np.uint64)
    tweaks = np.arange(len(counts), dtype=np.uint64)
    together = permuted(both[0], both[1], key(1), tweaks)
    for at, count in enumerate(counts):
        alone = permuted(both[0][at : at + 1], one(count), key(1), one(at))
        assert together[at] == alone[0] < count


def test_vectors_of_other_machines_and_versions() -> None:
    """As they came out on x86-64 with numpy 2.4 in November 2026; never to change."""
    assert whole(10, 0) == [5, 2, 6, 3, 0, 1, 9, 4, 8, 7]
    large = permuted(np.arange(4, dtype=np.uint64), one(10**9), key("global", 7, 1), one(0))
    assert large.tolist() == [792325058, 583671831, 289424341, 157370943]
    found = uniforms(np.arange(2, dtype=np.uint64), key("crops", 0, 0), 2)
    assert found.tolist() == [
        [0.1968796316068706, 0.359310636692458],
        [0.5666508633179534, 0.22442912705819196],
    ]


def test_seed_and_epoch_are_both_hashed() -> None:
    """Of some loaders seed 1 in epoch 1 is seed 2 in epoch 0."""
    assert whole(100, 1, 1) != whole(100, 2, 0)
    assert whole(100, 11, 1) != whole(100, 1, 11)


def test_few_neighbours_stay_neighbours() -> None:
    """Two are expected of a random permutation; a network of two rounds keeps twenty."""
    kept = [int((np.abs(np.diff(np.array(whole(100_000, seed)))) == 1).sum()) for seed in range(20)]
    assert 20 < sum(kept) < 64  # 40 expected, with a deviation of 6.3


@pytest.mark.parametrize("count", everyday([3, 100], [2, 5, 12]))
def test_every_number_is_as_likely_at_every_position(count: int) -> None:
    seeds = 2000
    seen = np.zeros((count, count))
    for seed in range(seeds):
        seen[np.arange(count), whole(count, seed)] += 1
    expected = seeds / count
    freedom = (count - 1) ** 2
    assert ((seen - expected) ** 2 / expected).sum() < freedom + 6 * (2 * freedom) ** 0.5 + 6


def test_uniforms_are_uniform_and_of_each_position_its_own() -> None:
    found = uniforms(np.arange(20_000, dtype=np.uint64), key(3), 5)
    assert found.shape == (20_000, 5)
    assert ((found >= 0) & (found < 1)).all()
    assert abs(found.mean(axis=0) - 0.5).max() < 0.01
    assert np.abs(np.corrcoef(found.T) - np.eye(5)).max() < 0.04
    assert (uniforms(np.array([77], np.uint64), key(3), 5)[0] == found[77]).all()
