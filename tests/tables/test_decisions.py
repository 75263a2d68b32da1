"""The decisions file: what is written is read again; several files, and what contradicts."""

from __future__ import annotations

import csv
from dataclasses import astuple, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from dataprep.errors import UsageError
from dataprep.tables.decisions import (
    COLUMNS,
    KINDS,
    Decision,
    check_agreed,
    conflicts,
    read_decisions,
    write_decisions,
)

_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=9)
_TEXT |= st.sampled_from(["", ' "a", b\r\n', "=1+1", "class:x", "\ufeff", "a|b"])


@st.composite
def _decision(draw: st.DrawFn) -> Decision:
    kind = draw(st.sampled_from(KINDS))
    value = draw(_TEXT) if kind in ("label", "split") else ""
    value = value or ("v" if kind == "split" else "")
    key = draw(_TEXT.filter(bool))
    split = draw(_TEXT) or ("s" if key.startswith("class:") else "")
    return Decision(key, split, kind, value, draw(_TEXT), draw(_TEXT))


@given(st.lists(_decision()))
def test_what_is_written_is_read_again_as_csv_and_as_parquet(decisions: list[Decision]) -> None:
    by_name = {(one.key, one.split, one.decision, one.who): one for one in decisions}
    distinct = [*by_name.values()]
    with TemporaryDirectory() as directory:
        path = Path(directory, "decisions.csv")
        write_decisions(path, distinct)
        assert read_decisions([path]) == tuple(distinct)
        with path.open(newline="") as file:  # and by whoever reads CSV
            assert [*csv.reader(file)] == [[*COLUMNS], *([*astuple(one)] for one in distinct)]
        rows = [dict(zip(COLUMNS, astuple(one), strict=True)) for one in distinct]
        schema = pa.schema([(name, pa.string()) for name in COLUMNS])
        parquet.write_table(pa.Table.from_pylist(rows, schema), Path(directory, "b"))
        assert read_decisions([Path(directory, "b"), path]) == tuple(distinct)


def test_what_one_person_decides_again_counts_and_comes_last(tmp_path: Path) -> None:
    first = Decision("a.jpg", "train", "label", "cat", "mm")
    sure = Decision("b.jpg", "train", "sure", "", "mm")
    write_decisions(tmp_path / "a.csv", [first, sure, replace(first, value="dog")])
    assert read_decisions([tmp_path / "a.csv"]) == (sure, replace(first, value="dog"))


@given(st.lists(_decision(), max_size=20))
def test_no_conflict_is_of_one_and_no_order_hides_any(decisions: list[Decision]) -> None:
    found, turned = conflicts(decisions), conflicts(decisions[::-1])
    assert all(len({*conflict}) > 1 for conflict in found)
    assert bool(found) == bool(turned)
    assert {one.key for each in found for one in each} == {
        one.key for each in turned for one in each
    }


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        (("label", "cat"), ("label", "dog"), True),
        (("label", "cat|dog"), ("label", "dog| cat"), False),
        (("split", "test"), ("split", "train"), True),
        (("sure", ""), ("leave_out", ""), True),
        (("sure", ""), ("label", "cat"), True),
        (("sure", ""), ("split", "test"), False),
        (("leave_out", ""), ("label", "cat"), False),  # left out counts
        (("sure", ""), ("note", ""), False),
    ],
)
def test_which_decisions_contradict(
    one: tuple[str, str], other: tuple[str, str], clash: bool
) -> None:
    first, second = (Decision("a.jpg", split, *each) for split, each in (("", one), ("t", other)))  # type: ignore[arg-type]
    assert bool(conflicts([first, second])) == clash
    assert not conflicts([replace(first, split="u"), second])  # another image of that name


def test_a_conflict_says_who_said_what(tmp_path: Path) -> None:
    for name, label in (("mm", "cat"), ("jd", "dog")):
        write_decisions(tmp_path / name, [Decision("a\n.jpg", "t", "label", label, name)])
    found = read_decisions([tmp_path / "mm", tmp_path / "jd"])
    with pytest.raises(UsageError) as raised:
        check_agreed(found, "--decisions")
    assert str(raised.value) == (
        r"--decisions: 1 conflict: t/a\n.jpg: label cat (mm), label dog (jd); agree, and keep one "
        "line of each"
    )


_HEADER = "key,split,decision,value,who,note\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "found the columns nothing, expected key, split"),
        ("key,split\n", "found the columns key, split, expected key, split, decision"),
        (f"{_HEADER}a,b\n", "line 2 has 2 cells, expected 6"),
        (f"{_HEADER}a,,drop,,,\n", "line 2: found 'drop', expected one of leave_out, label"),
        (f"{_HEADER}\n,,sure,,,\n", "line 3: found an empty key"),
        (f"{_HEADER}a,,sure,x,,\n", "line 2: found the value 'x' of sure, expected none"),
        (f"{_HEADER}a,,split,,,\n", "line 2: found no value, expected the split"),
        (f"{_HEADER}class:a,,sure,,,\n", "line 2: found sure of a class, expected label or note"),
        (f'{_HEADER}"a,,sure,,,\n', "unexpected end of data"),
        (f"{_HEADER}\udcff,,sure,,,\n", "can't decode byte 0xff"),
        ("PAR1", "expected decisions"),
    ],
)
def test_what_is_odd_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "decisions.csv"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError, match=f"^{path}") as raised:
        read_decisions([path])
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    with pytest.raises(UsageError, match="cannot be used"):
        read_decisions([tmp_path])
