"""The leak check: it finds every group that is in two splits, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.assembly.groups import check_groups
from dataprep.assembly.split_index import SplitIndex
from dataprep.errors import SourceError
from dataprep.index import Row
from dataprep.keys import KEY_HASH, key_hash


@contextmanager
def indexed(path: Path, groups: Sequence[str]) -> Iterator[SplitIndex]:
    """A split whose image number n, named after the file, is of the n-th group."""
    rows = [
        Row(f"{path.name}-{number}.png", "c.tar", 0, 1, 0, (0,), group=group)
        for number, group in enumerate(groups)
    ]
    lines = [row.to_json().encode() + b"\n" for row in rows]
    path.write_bytes(b"".join(lines))
    lengths = np.asarray([len(line) for line in lines], dtype=np.int32)
    hashed = b"".join(key_hash(group) if group else bytes(16) for group in groups)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield SplitIndex(
            descriptor=descriptor,
            offsets=np.cumsum(lengths, dtype=np.int64) - lengths,
            lengths=lengths,
            hashes=np.zeros((len(rows), 2), dtype=np.uint64),
            classes=np.zeros(len(rows), dtype=np.int32),
            groups=np.frombuffer(hashed, dtype=KEY_HASH) if any(groups) else None,
            sizes=np.ones(len(rows), dtype=np.int64),
            input_sha256="",
        )
    finally:
        os.close(descriptor)


def check(directory: Path, splits: Mapping[str, Sequence[str]], word: str = "patient") -> None:
    with ExitStack() as stack:
        indexes = {
            split: stack.enter_context(indexed(directory / split, groups))
            for split, groups in splits.items()
        }
        check_groups(indexes, word)


def complaint(directory: Path, splits: Mapping[str, Sequence[str]], word: str = "patient") -> str:
    with pytest.raises(SourceError) as caught:
        check(directory, splits, word)
    return str(caught.value)


@pytest.mark.parametrize(
    "splits",
    [
        pytest.param({"train": ["1", "1", "2"], "test": ["3", "4"]}, id="apart"),
        pytest.param({"train": ["1", ""], "test": ["", "2"]}, id="no group is no group"),
        pytest.param({"train": ["", ""], "test": [""]}, id="no groups"),
        pytest.param({"train": ["1"], "test": [""]}, id="groups in one split"),
        pytest.param({"train": ["1", "1"]}, id="one split"),
        pytest.param({}, id="no split"),
    ],
)
def test_splits_that_share_no_group_are_good(tmp_path, splits) -> None:
    check(tmp_path, splits)


def test_the_group_is_named_with_an_image_of_each_split(tmp_path) -> None:
    splits = {"train": ["9", "10007", "10007"], "test": ["8", "8", "10007"]}
    assert complaint(tmp_path, splits) == (
        "patient 10007 is in train (train-1.png) and test (test-2.png); a patient must be in one "
        "split only: give all images of a patient the same split, or let dataprep make the "
        "splits, and run again"
    )


def test_a_group_may_be_in_three_splits(tmp_path) -> None:
    splits = {"train": ["a"], "validation": ["", "a"], "test": ["a", "b"]}
    found = complaint(tmp_path, splits, "scene")
    assert found.startswith(
        "scene a is in train (train-0.png), validation (validation-1.png) and test (test-0.png); "
        "a scene must be"
    )


def test_the_first_three_groups_are_named_and_the_others_counted(tmp_path) -> None:
    shared = [str(number) for number in range(5)]
    found = complaint(tmp_path, {"train": shared, "test": ["x", *reversed(shared)]})
    named = "patient 0 is in train (train-0.png) and test (test-5.png), patient 1 is in "
    assert found.startswith(named)
    assert "patient 2 is in train (train-2.png) and test (test-3.png), and 2 more; " in found
    assert "patient 3" not in found


def test_what_the_raw_data_calls_a_group_stays_one_printable_line(tmp_path) -> None:
    found = complaint(tmp_path, {"train": ["a\nb\x1b"], "test": ["a\nb\x1b"]})
    assert found.startswith("patient a\\nb\\x1b is in")


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["", *"12345678"])), max_size=12))
def test_it_complains_exactly_where_a_group_is_in_two_splits(tmp_path_factory, images) -> None:
    splits: dict[str, list[str]] = {}
    where: dict[str, set[str]] = {}
    for split, group in images:
        splits.setdefault(split, []).append(group)
        where.setdefault(group, set()).add(split)
    leaks = sum(len(found) > 1 for group, found in where.items() if group)
    directory = tmp_path_factory.mktemp("splits")
    if not leaks:
        check(directory, splits)
        return
    found = complaint(directory, splits)
    assert found.count(" is in ") == min(leaks, 3)
    assert (f"and {leaks - 3} more" in found) == (leaks > 3)
