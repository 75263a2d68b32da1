"""The rules that images must follow."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dataprep.errors import SourceError
from dataprep.rows import Scanned
from dataprep.tables.cut import StratifiedCut
from dataprep.tables.rules import check_groups, check_keys, check_splits_known
from tests.tables.conftest import Find, listed, member, row


def test_a_name_twice_in_a_split_is_refused_and_both_places_named(find: Find) -> None:
    check_keys(find(Scanned({"train": [row("x")], "test": [row("x")]})).database)
    images = find(
        Scanned({"train": [row("x"), row("y")], "test": [row("x")]}),
        Scanned({"train": [row("x", "b.tar")]}),
    )
    with pytest.raises(
        SourceError, match=r"train: two .* the same name, x, in a.tar and b.tar; re"
    ):
        check_keys(images.database)


def test_a_group_in_two_splits_is_named_with_an_image_of_each(find: Find) -> None:
    rows = {
        "test": [row("b", group="7"), row("e", group="9")],
        "train": [row("c", group="7"), row("a", group="7"), row("d", group="8")],
    }
    with pytest.raises(SourceError, match=r"^patient 7 is in train \(a\) and test \(b\); expected"):
        check_groups(find(Scanned(rows)).database, "patient")
    del rows["test"][0]
    check_groups(find(Scanned(rows)).database, "patient")


def test_a_listed_name_twice_is_refused(find: Find) -> None:
    images = find(
        listed({"key": "x", "split": "train", "line": 7}, {"key": "x", "split": "test", "line": 3})
    )
    with pytest.raises(SourceError, match=r"^list.csv lists x twice, lines 3 and 7; expected each"):
        images.splits()


@pytest.mark.parametrize("split", ["train", None])
def test_a_file_listed_twice_is_called_so_where_shares_cut_it_too(
    find: Find, split: str | None
) -> None:
    known = {"key": "x", "split": split, "status": "image", "reason": "list.csv"}
    images = find(listed(*[{**known, "line": line} for line in (7, 3)]))
    if split is None:
        images.cut = StratifiedCut(0, (("train", Fraction(1)),))
    with pytest.raises(SourceError, match=r"^list.csv lists x twice, lines 3 and 7; expected each"):
        check_keys(images.database)


def test_an_image_in_no_split_is_refused(find: Find) -> None:
    images = find(listed({"key": "x", "split": None}), Scanned(members=[member("x")]))
    with pytest.raises(SourceError, match=r"^1 image in no split: x; expected each in one of the"):
        check_splits_known(images.database)
