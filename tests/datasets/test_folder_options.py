"""The folder data set's options and lists of classes, and the commands in its documentation."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.datasets.folder.class_list import load_class_list, numbers_in_order
from dataprep.datasets.folder.dataset import Folder
from dataprep.errors import SourceError, UsageError


@pytest.mark.parametrize(
    ("text", "classes"),
    [
        ("n01\ttench, Tinca\r\nn00\tgoldfish", [("n01", "tench, Tinca"), ("n00", "goldfish")]),
        ("polar bear\tbig\ncat\t", [("polar bear", "big"), ("cat", "cat")]),
        (
            "\ufeff/a/airfield 1\n/a/alley 0\n",
            [("a/alley", "a/alley"), ("a/airfield", "a/airfield")],
        ),
        ("polar bear 1\ncat 0", [("cat", "cat"), ("polar bear", "polar bear")]),
        ("10\n9\n", [("10", "10"), ("9", "9")]),
    ],
)
def test_lists_of_classes_have_names_or_numbers(tmp_path, text, classes):
    (tmp_path / "list").write_text(text, encoding="utf-8", newline="")

    assert list(load_class_list(tmp_path / "list").classes) == classes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\n \n", "is empty"),
        ("a\n\nb\na\n", "line 4: class a is already on line 1"),
        ("a 0\nb 2\n", "class numbers that are not 0 to 1"),
        ("a 0\nb 0\n", "class numbers that are not 0 to 1"),
        ("a\tx\n\ty\n/\tz", "line 3: no class"),
    ],
)
def test_lists_of_classes_that_make_no_sense_are_refused(tmp_path, text, expected):
    (tmp_path / "list").write_text(text)

    with pytest.raises(SourceError, match=expected):
        load_class_list(tmp_path / "list")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 0\n\n0 1\n", "line 1: class 1 is called like the number of the class on line 3"),
        ("a 0\n0 1\nb 2", "line 2: class 0 is called like the number of the class on line 1"),
        ("1\t0\nb\t1", "line 1: class 1 is called like the number of the class on line 2"),
    ],
)
def test_a_class_that_is_called_like_the_number_of_another_is_refused(tmp_path, text, expected):
    (tmp_path / "list").write_text(text)

    with pytest.raises(SourceError, match=expected):
        load_class_list(tmp_path / "list")


def test_a_class_may_be_called_like_its_own_number_or_like_no_number(tmp_path):
    (tmp_path / "list").write_text("1 1\n0 0\n00 2\n7 3\n")

    indices = load_class_list(tmp_path / "list").indices
    assert indices == {"0": 0, "1": 1, "00": 2, "7": 3, "2": 2, "3": 3}


def test_a_list_of_classes_that_is_gone_is_refused(tmp_path):
    with pytest.raises(SourceError, match="cannot read"):
        Folder(classes=str(tmp_path / "gone")).classes()


@given(st.sets(st.integers(0, 10**30)))
def test_classes_that_are_numbers_are_in_numeric_order(numbers):
    assert numbers_in_order(map(str, numbers)) == list(map(str, sorted(numbers)))


@given(st.sets(st.text(min_size=1), min_size=1))
def test_other_classes_are_in_the_order_of_their_names(names):
    names.add("x")
    assert numbers_in_order(names) == sorted(names)


def test_numbers_with_zeros_in_front_have_one_order():
    assert numbers_in_order(["10", "9", "09", "0", "00"]) == ["0", "00", "09", "9", "10"]
    assert [identifier for identifier, _ in Folder().order_classes(["2", "10"])] == ["2", "10"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"fractions": "train=0.5,test=0.4"}, "add up to 0.9; expected 1"),
        ({"fractions": "train=0.5,training=0.5"}, "train is named twice"),
        ({"fractions": "train"}, "expected a number from 0"),
        ({"fractions": "tr ain=1"}, "--fractions tr ain: a split's name"),
        ({"split_seed": "x"}, "--split_seed x: expected a whole number"),
        ({"split_name": "../x"}, "--split_name ../x: a split's name"),
        ({"inside": "../x"}, "--inside ../x: path with .."),
        ({"class_from": "bottom"}, "is not one of top, path"),
        ({"group_by": "patient"}, "--group_by patient: without --listing"),
        ({"group_by": "folder"}, "--group_by folder needs --fractions"),
        ({"label_separator": "|"}, "--label_separator needs --listing"),
        ({"listing": "x.dat"}, "say with --listing_format"),
        ({"listing": "x.csv", "label_separator": ""}, "--label_separator is empty"),
        ({"listing": "x.txt", "label_separator": " "}, "a space already ends the path"),
        ({"no_such": "x"}, "has no option 'no_such'"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, expected):
    with pytest.raises(UsageError) as caught:
        Folder(**options)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"fractions": "train=0.50,test=.5"}, {"fractions": " test=0.5,training=1/2"}),
        ({"fractions": "x=0.25,val=0.25,a=0.5"}, {"fractions": "a=0.5,valid=0.25,x=0.25"}),
        ({"inside": "./a//b/"}, {"inside": "/a/b"}),
        ({"inside": ""}, {}),
        ({"split_seed": "00"}, {}),
        ({"split_seed": "+1_0"}, {"split_seed": "10"}),
        ({"split_name": "Val"}, {"split_name": "validation"}),
        ({"split_name": "train"}, {}),
        ({"listing": "x.csv", "listing_format": "csv"}, {"listing": "x.csv"}),
        ({"listing": "x.ndjson", "listing_format": "jsonl"}, {"listing": "y/x.JSONL"}),
        (
            {"listing": "x.csv", "split_column": "split", "size_column": "size"},
            {"listing": "x.csv"},
        ),
    ],
)
def test_the_config_has_one_spelling(one, other):
    config = Folder(**one).config()

    assert config == Folder(**other).config()
    again = {name: value for name, value in config.items() if name in one or "listing" not in one}
    assert Folder(**{**one, **again}).config() == config


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"fractions": "train=0.5,test=0.5"}, {"fractions": "train=0.4,test=0.6"}),
        ({"fractions": "train=0.5,test=0.5"}, {"fractions": "train=0.5,x=0.5"}),
        ({"inside": "a"}, {"inside": "a/b"}),
        ({"split_seed": "1"}, {}),
        ({"listing": "x.csv", "split_column": "size"}, {"listing": "x.csv"}),
    ],
)
def test_the_config_tells_apart_what_differs(one, other):
    assert Folder(**one).config() != Folder(**other).config()


def test_the_config_is_written_as_people_write_it():
    assert Folder(fractions="x=1/3,test=0.10,train=17/30", inside="a/").config() == {
        "path_column": "path",
        "label_column": "label",
        "class_from": "top",
        "split_folders": "auto",
        "split_name": "train",
        "split_seed": "0",
        "group_by": "path",
        "inside": "a",
        "fractions": "train=17/30,test=0.1,x=1/3",
    }


def test_the_help_starts_with_a_sentence():
    assert Folder.summary.splitlines()[0].endswith(".")
    assert all(option.help for option in Folder.OPTIONS)


def test_the_documented_commands_are_understood():
    page = Path(__file__).parents[2] / "docs/folder.md"
    commands = re.findall(r"^dataprep folder (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    own = {option.name for option in Folder.OPTIONS}

    for command in commands:
        words = shlex.split(command)
        options = dict(zip(words[::2], words[1::2], strict=True))
        assert all(name.startswith("--") for name in options)
        given = {name.removeprefix("--"): value for name, value in options.items()}
        Folder(**{name: value for name, value in given.items() if name in own})
        assert given.keys() - own == {"raw_data_dir", "local_scratch_dir"}
    assert len(commands) == 4
