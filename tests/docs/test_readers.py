"""docs/readers.md has a line for every reader; that each is true is seen in tests/interop."""

from __future__ import annotations

import re

import pytest

from dataprep.plugins import SINKS, installed
from tests.docs.pages import ROOT
from tests.interop.foreign import READERS
from tests.interop.readers_page import HEADINGS, PAGE, missing, standing, turned


def test_every_format_has_a_reader() -> None:
    assert {form for form, _ in READERS} >= {*installed(SINKS)} - {"mds", "lmdb-torch"}


@pytest.mark.parametrize(("form", "reader"), READERS, ids="-".join)
def test_every_reader_has_its_lines(form: str, reader: str) -> None:
    text = PAGE.read_text("utf-8")
    line, number = (found[1] for found in standing(text, form, reader))
    assert (line.count(" |"), number.count(" |")) == (HEADINGS, 4)


def test_no_line_is_of_a_reader_that_is_gone() -> None:
    numbers = PAGE.read_text("utf-8").partition("## What stands")[2]
    lines = re.findall(r"^\| ([a-z0-9-]+) \| ([^|]+) \|", numbers, re.MULTILINE)[1:]
    assert sorted(it for it in lines if it[0] != "---") == sorted(READERS)


def test_every_script_that_is_named_is_there() -> None:
    named = re.findall(r"`(findings/[a-z_]+\.sh)`", PAGE.read_text("utf-8"))
    assert named
    assert all((ROOT / name).is_file() for name in named)


@pytest.mark.parametrize(
    ("ours", "theirs", "word"),
    [
        (3, 3, "yes"),
        (3, 4, "1 more"),
        (3, 5, "**another**"),
        (3, 3.0, "float"),
        (3, [3.0], "in a list, float"),
        (3, None, "**no**"),
        ("PA", {"bytes": "PA"}, "bytes"),
        ("PA", {"bytes": "AP"}, "bytes, **another**"),
        ([1, 3], [0, 1, 0, 1], "0 or 1 a class"),
        ([1, 3], [0, 1, 1, 0], "0 or 1 a class, **another**"),
        ([], [], "yes"),
        ([[0.5, 0.5, 1.0, 1.0]], [], "**no**"),
        (["A.", "B."], {"uint8s": [65, 46]}, "uint8s, **only the first**"),
    ],
)
def test_what_became_of_a_value_is_said(ours: object, theirs: object, word: str) -> None:
    assert turned(ours, theirs) == word


def test_what_stands_for_nothing_is_said() -> None:
    found = [missing({"view": it}, "view") for it in (None, "", "None", 74, {"bytes": "none"})]
    unset = "**not the default asked**"
    assert found == ["null", "`''`", "**`'None'`**", unset, "the default asked"]
    assert missing({}, "view") == "no key"
