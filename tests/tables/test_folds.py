"""Folds: even in every label, whole groups, and kept when a data set grows."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dataprep.tables.folds import balanced

groups = st.lists(
    st.tuples(st.lists(st.integers(0, 5), max_size=6), st.integers(1, 4)), min_size=1, max_size=60
)


@settings(max_examples=60, deadline=None)
@given(groups, st.integers(2, 6))
def test_what_is_known_stays_and_what_is_new_fills(
    some: list[tuple[list[int], int]], folds: int
) -> None:
    labels, images = [one for one, _ in some], [size for _, size in some]
    found = balanced(labels, images, [None] * len(some), folds)
    assert all(0 <= fold < folds for fold in found)
    half = len(some) // 2
    known = [*found[:half], *[None] * (len(some) - half)]
    assert balanced(labels, images, known, folds)[:half] == found[:half]
    assert balanced(labels, images, known, folds) == found


def test_thousands_of_groups_are_even_in_every_label() -> None:
    random = np.random.default_rng(0)
    rates = np.array([0.2, 0.1, 0.05, 0.02, 0.01])
    sizes = sorted((1 + random.geometric(0.3, 5000)).tolist(), reverse=True)
    labels = [
        [int(label) for _ in range(size) for label in np.flatnonzero(random.random(5) < rates)]
        for size in sizes
    ]
    found = balanced(labels, sizes, [None] * len(sizes), 5)
    counts = np.zeros((5, 6))
    for fold, size, some in zip(found, sizes, labels, strict=True):
        counts[fold] += [*np.bincount(some, minlength=5), size]
    assert (np.abs(counts / counts.mean(axis=0) - 1)).max() < 0.02
