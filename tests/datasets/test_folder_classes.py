"""The folder data set: classes that could be lost or confused, lists of classes, options."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.datasets.folder.dataset import Folder
from dataprep.datasets.lists import in_order, load_class_list
from dataprep.errors import SourceError, UsageError
from dataprep.options import options_of
from tests.datasets.test_folder import scan_all, write_archive
from tests.datasets.test_folder import write_tree as write_files

WITHOUT = "class folders or archives without images"


def write_tree(raw: Path, *names: str) -> None:
    write_files(raw, dict.fromkeys(names, b"x"))


def write_tar(path: Path, *names: str) -> None:
    write_archive(path, dict.fromkeys(names, b"x"))


def classes_and_count(raw: Path, **options: str) -> tuple[list[str], int]:
    scans = scan_all(Folder(**options), raw)
    classes = sorted({name for scan in scans for name in scan.classes or ()})
    return classes, sum(scan.counts.get(WITHOUT, 0) for scan in scans)


# links that lead nowhere


@pytest.mark.parametrize("place", ["b", "train/b"])
def test_a_class_folder_that_is_a_dangling_link_is_refused(tmp_path: Path, place: str) -> None:
    write_tree(tmp_path, *(f"{place[:-1]}{name}/1.jpg" for name in "ac"))
    (tmp_path / place).symlink_to("gone/b")

    with pytest.raises(SourceError, match=f"cannot read {place}: No such file"):
        Folder().find(tmp_path, None)


# classes without images


@pytest.mark.parametrize("split", ["", "train/"])
def test_a_class_folder_without_images_keeps_its_number(tmp_path: Path, split: str) -> None:
    write_tree(tmp_path, f"{split}a/1.jpg", f"{split}d/1.jpg", f"{split}c/1.txt", f"{split}.e/1.x")
    (tmp_path / f"{split}b").mkdir()

    assert classes_and_count(tmp_path) == (["a", "b", "c", "d"], 2)


def test_a_class_archive_without_images_keeps_its_number(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", "1.jpg")
    write_tar(tmp_path / "b.tar")
    write_tar(tmp_path / "c.tar", "./1.txt")

    assert classes_and_count(tmp_path) == (["a", "b", "c"], 2)


def test_nothing_is_made_up_where_the_name_is_no_class(tmp_path: Path) -> None:
    write_tree(tmp_path / "deep", "a/x/1.jpg")
    (tmp_path / "deep/b").mkdir()
    write_tar(tmp_path / "inside/a.tar", "in/c/1.jpg")
    write_tar(tmp_path / "inside/b.tar")
    write_tar(tmp_path / "split/train.tar", "c/1.jpg")
    write_tar(tmp_path / "split/val.tar")

    assert classes_and_count(tmp_path / "deep", class_from="path") == (["a/x"], 0)
    assert classes_and_count(tmp_path / "inside", inside="in") == (["c"], 0)
    assert classes_and_count(tmp_path / "split") == (["c"], 0)
    (tmp_path / "classes").write_text("a\nc\n")
    assert classes_and_count(tmp_path / "deep", classes=str(tmp_path / "classes")) == ([], 0)


# lists of classes


@pytest.mark.parametrize(
    ("text", "classes"),
    [
        ("n01\ttench, Tinca\r\nn00\tgoldfish", [("n01", "tench, Tinca"), ("n00", "goldfish")]),
        ("polar bear\tbig\ncat\t", [("polar bear", "big"), ("cat", "cat")]),
        ("\ufeff/a/airfield\n/a/alley/\n", [(n, n) for n in ("a/airfield", "a/alley")]),
        ("10\n9\n", [("10", "10"), ("9", "9")]),
        ("boeing 747\ncessna\n", [("boeing 747", "boeing 747"), ("cessna", "cessna")]),
        ("boeing 747\t\r\nboeing 707\t\r\n", [(n, n) for n in ("boeing 747", "boeing 707")]),
        ("a\tclass 1\nb\tclass 2\n", [("a", "class 1"), ("b", "class 2")]),
    ],
)
def test_lists_of_classes_may_have_names(
    tmp_path: Path, text: str, classes: list[tuple[str, str]]
) -> None:
    (tmp_path / "list").write_text(text, encoding="utf-8", newline="")

    assert list(load_class_list(tmp_path / "list").classes) == classes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\n \n", "is empty"),
        ("a\n\nb\n/a\n", "line 4: class a is there already; expected each class once"),
        ("a\nb\tx\na\t2\n", "line 3: class a is there already"),
        ("/a/airfield 1\r\n\n/a/alley 0\r\n", "a number ends every line; .* put a TAB behind it"),
        ("apple pie\t1\nbread\t0", "a number ends every line; expected classes in the order"),
        ("caf\udce9", "is not UTF-8; save it as UTF-8"),
    ],
)
def test_lists_of_classes_that_make_no_sense_are_refused(
    tmp_path: Path, text: str, expected: str
) -> None:
    (tmp_path / "list").write_bytes(text.encode("utf-8", "surrogateescape"))

    with pytest.raises(SourceError, match=expected):
        load_class_list(tmp_path / "list")


@given(st.sets(st.integers(0, 10**30)))
def test_classes_that_are_numbers_are_in_numeric_order(numbers: set[int]) -> None:
    assert in_order(map(str, numbers)) == list(map(str, sorted(numbers)))


@pytest.mark.parametrize("thirds", [f"train={2 / 3},test={1 / 3}", "train=2/3,test=1/3"])
def test_thirds_are_shares(thirds: str, tmp_path: Path) -> None:
    write_tree(tmp_path, *(f"{at}.png" for at in range(9)))
    with pytest.raises(SourceError, match="outside a class folder"):
        Folder(fractions=thirds).find(tmp_path, None)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"fractions": "train=0.5,test=0.4"}, "add up to 0.9, expected 1"),
        ({"fractions": "train=0.3333333,test=0.6666666"}, "add up to 0.9999999, expected 1"),
        ({"fractions": "0.9,0.1"}, "'0.9' is no SPLIT=SHARE"),
        ({"fractions": "train=x,test=1"}, "expected a number from 0"),
        ({"split_seed": "x"}, "'--split_seed': 'x' is not a valid integer"),
        ({"split_name": "../x"}, "'--split_name': ../x: a split's name"),
        ({"inside": "../x"}, "'--inside': ../x: path with .."),
        ({"class_from": "bottom"}, "is not one of 'top', 'path'"),
        ({"group_by": "patient"}, "--group_by patient: without --listing"),
        ({"label_separator": "|"}, "--label_separator needs --listing"),
        ({"listing": "none", "attribute_columns": "all"}, "--attribute_columns needs --listing"),
        ({"listing": "x.dat"}, "expected a name that ends in .csv, .tsv"),
        ({"no_such": "x"}, "has no option 'no_such'"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    options: dict[str, str], expected: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as caught:
        Folder(**options).find(tmp_path, None)
    assert expected in str(caught.value)


def test_the_documented_commands_are_understood() -> None:
    page = Path(__file__).parents[2] / "docs/folder.md"
    commands = re.findall(r"^dataprep folder (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    own = {option.name: option.exists for option in options_of(Folder.Options)}  # a file must

    for command in commands:
        words = shlex.split(command)
        found: dict[str, Any] = {}
        for word, value in zip(words, [*words[1:], "--"], strict=True):
            if word.startswith("--"):  # with a value behind it, or a flag
                found[word.removeprefix("--")] = value.startswith("--") or value
        Folder(**{name: value for name, value in found.items() if own.get(name) is False})
        assert found.keys() - own.keys() == {"raw_data_dir", "local_scratch_dir"}
    assert len(commands) == 9
