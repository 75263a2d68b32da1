"""Cuts: which split a group is in depends on its name, the seed and its own split's share only."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataprep.datasets.splits import Cut, is_held_out, parse_share

GROUPS = [str(number) for number in range(1, 200)]
shares = st.fractions(0, Fraction(1, 2), max_denominator=100)
seeds = st.integers(-3, 3)


def cut(seed: int, *named: tuple[str, Fraction], rest: str = "train") -> dict[str, set[str]]:
    """The groups of each split."""
    made = Cut(seed, tuple((split, Fraction(share)) for split, share in named), rest)
    found: dict[str, set[str]] = {}
    for group in GROUPS:
        found.setdefault(made.split_of(group), set()).add(group)
    return found


def of(found: dict[str, set[str]], split: str) -> set[str]:
    return found.get(split, set())


@settings(max_examples=25)
@given(seeds, shares, shares, shares)
def test_changing_the_share_of_one_split_leaves_the_other_as_it_was(
    seed: int, test: Fraction, validation: Fraction, other: Fraction
) -> None:
    before = cut(seed, ("test", test), ("validation", validation))
    other_test = cut(seed, ("test", other), ("validation", validation))
    other_validation = cut(seed, ("test", test), ("validation", other))
    assert of(other_test, "validation") == of(before, "validation")
    assert of(other_validation, "test") == of(before, "test")


@settings(max_examples=25)
@given(seeds, shares, shares, shares)
def test_a_larger_share_only_adds_groups(
    seed: int, test: Fraction, small: Fraction, large: Fraction
) -> None:
    small, large = sorted((small, large))
    for split, other in (("test", "validation"), ("validation", "test")):
        fewer, more = (cut(seed, (split, share), (other, test)) for share in (small, large))
        assert of(fewer, split) <= of(more, split)


@settings(max_examples=25)
@given(seeds, shares, shares, st.sampled_from(["train", "validation", "other"]))
def test_any_number_of_splits_gets_about_its_share(
    seed: int, first: Fraction, third: Fraction, rest: str
) -> None:
    second = (1 - first - third) / 2
    named = (("a", first), ("validation", second), ("test", third))
    found = cut(seed, *[(split, share) for split, share in named if split != rest], rest=rest)
    expected = {split: float(share) for split, share in named}
    expected[rest] = 1 - sum(float(share) for split, share in named if split != rest)
    assert set(found) <= set(expected)
    for split, share in expected.items():
        assert abs(len(of(found, split)) / len(GROUPS) - share) < 0.15


def test_who_is_where_stays_so_for_good() -> None:
    """Values once computed: a change would move patients of sets that people have trained on."""
    made = Cut(0, (("test", Fraction(1, 5)), ("validation", Fraction(1, 10))), "train")
    found: dict[str, list[int]] = {split: [] for split in ("test", "validation", "train")}
    for group in GROUPS[:30]:
        found[made.split_of(group)].append(int(group))
    assert found["test"] == [1, 8, 14, 29]
    assert found["validation"] == [24, 26]


@given(seeds, shares, shares, st.lists(st.text(max_size=20), min_size=1))
def test_sql_says_the_same(
    seed: int, test: Fraction, validation: Fraction, groups: list[str]
) -> None:
    made = Cut(seed, (("test", test), ("validation", validation)), "train")
    table = pa.table({"name": pa.array(groups, pa.string())})
    with duckdb.connect() as database:
        database.register("groups", table)
        query, values = made.split_sql("name")
        found = database.execute(f"select {query} from groups", values).fetchall()
    assert [split for (split,) in found] == [made.split_of(group) for group in groups]


def test_shares_are_exact() -> None:
    assert parse_share("0.1") == parse_share("1/10") == Fraction(1, 10)
    assert parse_share("12.3456789%") == Fraction(123456789, 10**9)


@pytest.mark.parametrize("text", ["", "x", "-0.1", "1", "1/0", "nan", "100%", "1e999"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a number from 0 to below 1"):
        parse_share(text)


def test_names_say_what_is_there_to_evaluate_on() -> None:
    for name in ("validation", "test", "val2017", "test-dev", "dev", "val_loss", "eval"):
        assert is_held_out(name)
    for name in ("train", "trainval", "train-val", "all", "fold0", "contest", "unlabelled"):
        assert not is_held_out(name)
