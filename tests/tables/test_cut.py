"""Stratified cuts: exact shares, of all units and of each class, and nothing assigned moves."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import floor

from hypothesis import given
from hypothesis import strategies as st

from dataprep.tables.cut import StratifiedCut, quotas

Sizes = dict[str | None, int]
SPLITS = ("test", "train", "validation")


@st.composite
def cuts(draw: st.DrawFn) -> StratifiedCut:
    weights = draw(st.lists(st.integers(0, 20), min_size=3, max_size=3).filter(any))
    shares = [Fraction(weight, sum(weights)) for weight in weights]
    return StratifiedCut(draw(st.integers(0, 9)), tuple(zip(SPLITS, shares, strict=True)))


sizes_of = st.dictionaries(st.text("abc", min_size=1, max_size=3) | st.none(), st.integers(0, 50))


@given(sizes_of, cuts())
def test_each_split_has_its_share_rounded_of_all_and_at_least_the_floor_of_each_class(
    sizes: Sizes, cut: StratifiedCut
) -> None:
    found = quotas(sizes, {}, cut)
    assert {name: sum(parts) for name, parts in found.items()} == sizes
    for at, (_, share) in enumerate(cut.shares):
        total = sum(parts[at] for parts in found.values())
        assert abs(total - share * sum(sizes.values())) < 1
        for name, parts in found.items():
            assert parts[at] >= floor(share * sizes[name])
    assert found == quotas(dict(reversed(sizes.items())), {}, cut)


@given(st.integers(1, 300), st.integers(1, 3), cuts())
def test_many_small_classes_get_their_share_together(
    classes: int, size: int, cut: StratifiedCut
) -> None:
    """Rounding a class at a time would give a thousand classes of four no validation image."""
    found = quotas({f"c{number}": size for number in range(classes)}, {}, cut)
    for at, (_, share) in enumerate(cut.shares):
        assert abs(sum(parts[at] for parts in found.values()) - share * size * classes) < 1


@given(sizes_of, sizes_of, cuts(), cuts())
def test_what_grows_fills_the_quotas_and_takes_nothing_away(
    sizes: Sizes, more: Sizes, before: StratifiedCut, cut: StratifiedCut
) -> None:
    first = quotas(sizes, {}, before)
    kept = {name: Counter(dict(zip(SPLITS, parts, strict=True))) for name, parts in first.items()}
    now = {name: sizes.get(name, 0) + more.get(name, 0) for name in {*sizes, *more}}
    added = quotas(now, kept, cut)
    assert {name: sum(parts) for name, parts in added.items()} == {
        name: more.get(name, 0) for name in now
    }
    assert all(part >= 0 for parts in added.values() for part in parts)


@given(sizes_of, cuts())
def test_what_is_assigned_as_it_would_be_needs_nothing(sizes: Sizes, cut: StratifiedCut) -> None:
    first = quotas(sizes, {}, cut)
    kept = {name: dict(zip(SPLITS, parts, strict=True)) for name, parts in first.items()}
    assert all(parts == [0, 0, 0] for parts in quotas(sizes, kept, cut).values())
