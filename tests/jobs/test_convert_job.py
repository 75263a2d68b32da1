"""Cutting a data set's examples into new shards."""

from __future__ import annotations

from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from dataprep.jobs.convert_job import run_of
from dataprep.sinks import ShardName


def runs(ends: list[int], count: int) -> list[tuple[int, int]]:
    return [run_of(ShardName("train", number, count), ends) for number in range(count)]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=9), st.integers(1, 9))
def test_runs_are_consecutive_and_even_or_as_before(sizes: list[int], count: int) -> None:
    ends = list(accumulate(sizes))
    found = runs(ends, count)
    assert found[0][0] == 0
    assert found[-1][1] == ends[-1]
    assert all(before[1] == after[0] for before, after in pairwise(found))
    lengths = [stop - start for start, stop in found]
    if count == len(sizes):
        assert lengths == sizes
    else:
        assert max(lengths) - min(lengths) <= 1
        assert lengths == sorted(lengths, reverse=True)
