"""Names of classes: in which order, in which form, and what is said of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataprep.datasets.lists import ListFile, about_numbers, in_order, refuse_unknown
from dataprep.errors import SourceError


@pytest.mark.parametrize(
    ("names", "ordered"),
    [
        ("10 9 -1 0 2", "-1 0 2 9 10"),
        ("+3 3 -10 -9 01 1", "-10 -9 01 1 +3 3"),
        ("11 nan 2 1", "1 2 11 nan"),
        ("11 cat 2", "11 2 cat"),
        ("1.5 10 9", "1.5 10 9"),
        ("Cat cat", "Cat cat"),
        ("\u0661 1 0", "0 1 \u0661"),
    ],
)
def test_whole_numbers_are_ordered_by_their_value(names: str, ordered: str) -> None:
    assert in_order(names.split()) == ordered.split()


def test_a_name_that_python_reads_as_no_number_is_a_name() -> None:
    assert in_order(["9" * 5000, "10", "9"]) == ["10", "9", "9" * 5000]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("", ""),
        ("cat dog", ""),
        ("0 1 2", ""),
        ("0 1 3 7", "labels are numbers from 0 to 7, and 4 classes are numbered anew from 0; --cl"),
        ("1 2 10", "labels are numbers from 1 to 10, and 3 classes"),
        ("0 1 01", "labels are numbers from 0 to 1, and 3 classes"),
        ("-2 -1 0", "a class like any other: -1; labels are"),
        ("-1 1", "a class like any other: -1; labels are"),
        ("cat -1 NaN", "a class like any other: -1, NaN"),
    ],
)
def test_what_numbers_become_is_said(names: str, said: str) -> None:
    found = about_numbers(in_order(names.split()))
    assert found.startswith(said)
    assert bool(found) == bool(said)
    refuse_unknown(names.split())


@pytest.mark.parametrize("names", ["-1 0 1 10", "-1 1 2", "nan 0 1", "NaN 1", "-1 nan 3"])
def test_nobody_gets_a_class_of_what_nobody_knows(names: str) -> None:
    none = in_order(names.split())[0] if "-1" in names else names.split()[0]
    with pytest.raises(SourceError, match=f"^a label {none} beside .* --no_label {none}; if"):
        refuse_unknown(names.split())


@pytest.mark.parametrize(
    ("header", "column", "said"),
    [
        ("Path,Label", "path", "no columns path, expected one; it has Path, Label; did you mean P"),
        ("image,lable", "label", "it has image, lable; did you mean lable?; advice"),
        ('a,"Note, free"," b",', "Note", "a, 'Note, free', ' b', ''; did you mean 'Note, free'?"),
        ("path,x", "label", "it has path, x; advice"),
        ("path;label", "path", "path;label; are its cells separated by ; where commas are expec"),
        (
            "path,label,label",
            "label",
            "2 columns label, expected one; it has path, label, label; a",
        ),
    ],
)
def test_columns_that_are_not_there(tmp_path: Path, header: str, column: str, said: str) -> None:
    (tmp_path / "l.csv").write_text(f"{header}\n")
    with pytest.raises(SourceError) as caught:
        ListFile(tmp_path / "l.csv", "csv").require(column, "advice")
    assert said in str(caught.value)
