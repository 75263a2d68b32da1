"""Rows that SQL chooses, against a filter in plain Python; and SQL that wants more than that."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from dataprep.errors import DatasetError, UsageError
from dataprep.system.state_files import file_sha256
from dataprep.tables import questions
from dataprep.tables.questions import answer, chosen_rows
from dataprep.tables.records import parquet_writer
from dataprep_schemas.fields import Field
from dataprep_schemas.manifest import RecordsFile
from dataprep_schemas.tables import schema_of
from tests.conftest import few

SCHEMA = schema_of("records", (Field("view", "text"), Field("age", "int")))
SHARES = tuple(map(Fraction, ("1/1000", "0.05", "0.1", "0.25", "1/3", "0.5", "0.9", "1")))
MARK = "what no query may print"

# None of these is a condition on columns; {given} is the table, {other} a file, {new} none.
ATTACKS = (
    *("true) --", "true) /*", "true); drop view records; --", "true; drop table records", ""),
    *("true union select 1", "true limit 1", "true from records", "true, true", "*", "("),
    "exists (select 1 from read_text('{other}'))",
    "exists (from read_csv('{other}'))",
    "exists (from '{other}')",
    "key in (from glob('{other}'))",
    "exists (from parquet_metadata('{other}'))",
    "exists (from query('from read_text(''{other}'')'))",
    "copy (select 1) to '{new}'",
    "attach '{new}'",
    "install httpfs",
    "true; copy (select 1) to '{new}'",
    "exists (copy (select 1) to '{new}')",
    # A query at the top may hold a COPY, which would write what may be read: the table itself.
    "exists (with a as (copy (select 1) to '{given}' (use_tmp_file false)) from a)",
    "exists (from query('with a as (copy (select 1) to ''{given}'' (use_tmp_file 0)) from a'))",
    "exists (from enable_logging(storage='file', storage_path='{given}'))",
    *("key = $1", "count(*) > 0", "row_number() over () = 1"),
)


def sealed(place: Path, rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> RecordsFile:
    place.mkdir(exist_ok=True)
    path = place / "records.parquet"
    with path.open("wb") as file, parquet_writer(file, schema) as writer:
        writer.write_table(pa.Table.from_pylist(rows, schema=schema), row_group_size=64)
    return RecordsFile("records.parquet", path.stat().st_size, file_sha256(path), len(rows))


def ask(sets: questions.Sets, query: str) -> pa.Table:
    return answer(questions.ask(sets, query))


def row(number: int, label: int, split: str = "train") -> dict[str, Any]:
    place = {"split": split, "shard": number // 16, "position": number % 16, "status": "stored"}
    known = {"view": "PA" if number % 3 else None, "age": number % 90}
    return {"key": f"{number:04d}.png", **place, "labels": [label] * (label >= 0), **known}


def chosen(place: Path, file: RecordsFile, rows: range, **how: Any) -> list[int]:
    all_of_it: Mapping[str, Any] = {"where": None, "sample": None, "stratify": False, "seed": 7}
    return [int(found) for found in chosen_rows(place, file, rows, **{**all_of_it, **how})]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RecordsFile]:
    """200 images to train with, 50 for a test, and one that was rejected."""
    place = tmp_path_factory.mktemp("table")
    rows = [row(number, number % 7, "test") for number in range(50)]
    rows += [row(number, number % 5 % 4) for number in range(200)]
    return place, sealed(place, [*rows, {"key": "bad", "split": "train", "status": "rejected"}])


@few(8)
@given(
    least=st.integers(-1, 95),
    view=st.sampled_from(["view = 'PA'", "view is null", "true"]),
    split=st.sampled_from([range(50), range(50, 250)]),
)
def test_a_condition_leaves_what_plain_python_leaves(
    table: tuple[Path, RecordsFile], least: int, view: str, split: range
) -> None:
    rows = parquet.read_table(table[0] / "records.parquet").to_pylist()
    conditions: dict[str, Callable[[dict[str, Any]], bool]] = {
        "view = 'PA'": lambda row: row["view"] == "PA",
        "view is null": lambda row: row["view"] is None,
        "true": lambda row: True,
    }
    holds = conditions[view]
    expected = [at for at in split if rows[at]["age"] >= least and holds(rows[at])]
    assert chosen(*table, split, where=f"{view} and age >= {least} -- a comment") == expected


def test_a_share_has_the_lowest_hashes_and_smaller_ones_are_part_of_larger_ones(
    table: tuple[Path, RecordsFile],
) -> None:
    split = range(50, 250)
    keys = parquet.read_table(table[0] / "records.parquet")["key"].to_pylist()

    def hashed(at: int) -> int:
        return int.from_bytes(hashlib.md5(b"7\0train\0" + keys[at].encode()).digest(), "little")

    order = sorted(split, key=hashed)
    shares = [chosen(*table, split, sample=share) for share in SHARES]
    assert shares == [sorted(order[: ceil(share * 200)]) for share in SHARES]
    assert all({*small} <= {*large} for small, large in pairwise(shares))
    young = chosen(*table, split, where="age < 10", sample=Fraction(1, 2))
    assert (len(young), {*young} <= {*chosen(*table, split, where="age < 10")}) == (15, True)
    assert chosen(*table, split, where="false", sample=Fraction(1, 2)) == []


def test_a_stratified_share_has_that_share_of_every_label_and_is_nested(
    table: tuple[Path, RecordsFile],
) -> None:
    split = range(50, 250)
    labels = parquet.read_table(table[0] / "records.parquet")["labels"].to_pylist()
    everywhere = Counter(str(labels[at]) for at in split)
    before = set[int]()
    for size in (*range(1, 12, 3), *range(12, 201, 27)):
        found = chosen(*table, split, sample=Fraction(size, 200), stratify=True)
        assert (len(found), len({*found})) == (size, size)
        assert before <= {*found}
        before = {*found}
        have = Counter(str(labels[at]) for at in found)
        # There is one share of which each label has its part, within one image.
        most = min((have[one] + 1) / many for one, many in everywhere.items())
        assert all((have[one] - 1) / many <= most for one, many in everywhere.items())


def test_a_share_does_not_depend_on_where_images_lie(tmp_path: Path) -> None:
    rows = [row(number, number % 3) for number in range(90)]
    found = []
    for name, some in (("a", rows), ("b", rows[::-1])):
        file = sealed(tmp_path / name, some)
        for stratify in (False, True):
            at = chosen(tmp_path / name, file, range(90), sample=Fraction(1, 5), stratify=stratify)
            found.append({some[number]["key"] for number in at})
    assert found[:2] == found[2:]


def test_an_answer_has_a_bound(
    table: tuple[Path, RecordsFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "MEMORY", 1 << 20)
    assert ask({"records": table}, "from range(100000)").num_rows == 100_000
    with pytest.raises(UsageError, match="or as an answer; ask for less: fewer rows"):
        ask({"records": table}, "from range(200000)")


# None of these only selects.
OTHER_STATEMENTS = (
    *("", "-- nothing", "select 1; select 2", "drop view records", "create table a (b int)"),
    *("set threads = 1", "pragma database_list", "explain select 1", "call pragma_version()"),
    *("copy records to '{new}'", "attach '{new}'", "install httpfs", "load httpfs"),
    *(
        "insert into records values (1)",
        "delete from records",
        "begin",
        "select 1; drop view a",
    ),
    *("from read_text('{other}')", "from read_csv('{other}')", "from '{other}'"),
    *("select * frm records", "from nothing", "select nope(1)", "select 'a'::int"),
    "with a as (from read_parquet('{other}')) from a",
    "with a as (copy (select 1) to '{given}' (use_tmp_file false)) from a",
    "with a as materialized (copy (select 1) to '{given}' (use_tmp_file false)) from a",
    "from (with a as (copy (select 1) to '{given}' (use_tmp_file false)) from a)",
    "from query('with a as (copy (select 1) to ''{given}'' (use_tmp_file 0)) from a')",
    "with a as (insert into records values (1) returning *) from a",
    "from enable_logging(storage='file', storage_path='{given}')",
)


@pytest.mark.parametrize(
    ("text", "is_condition"),
    [*((text, True) for text in ATTACKS), *((text, False) for text in OTHER_STATEMENTS)],
)
def test_a_condition_is_one_and_a_question_selects_and_both_reach_nothing(
    table: tuple[Path, RecordsFile], tmp_path: Path, text: str, *, is_condition: bool
) -> None:
    given = table[0] / "records.parquet"
    before = given.read_bytes()
    places = {"given": given, "other": tmp_path / "other", "new": tmp_path / "new"}
    places["other"].write_text(f"{MARK}\n")
    text = text.format(**places)
    with pytest.raises(UsageError) as raised:
        chosen(*table, range(250), where=text) if is_condition else ask({"records": table}, text)
    assert MARK not in str(raised.value)
    assert str(raised.value).isprintable()
    assert [*tmp_path.iterdir()] == [places["other"]]
    assert given.read_bytes() == before


def test_a_column_that_is_not_there_names_those_that_are(table: tuple[Path, RecordsFile]) -> None:
    line = r"^there is no column 'Vew'; did you mean view\? expected one of key, split, .*, age$"
    with pytest.raises(UsageError, match=line):
        chosen(*table, range(50), where="Vew = 'PA'")
    with pytest.raises(UsageError, match=line):
        ask({"records": table}, "select r.Vew from records as r")
    with pytest.raises(UsageError, match=r"^there is no column 'xyzzy'; expected one of key, "):
        ask({"records": table}, "select xyzzy from records")


def test_several_tables_and_sums_of_plain_integers(
    table: tuple[Path, RecordsFile], tmp_path: Path
) -> None:
    few = sealed(tmp_path, [row(number, 0) for number in range(190, 230)])
    joined = "select count(*) as n, sum(a.age) as age from a join b using (split, key)"
    found = ask({"a": table, "b": (tmp_path, few)}, joined)
    assert found.to_pylist() == [{"n": 10, "age": sum(at % 90 for at in range(190, 200))}]
    assert found.schema.types == [pa.int64(), pa.int64()]
    for names in ({}, {"a": table, "A": table}, {'a" as from x; --': table}, {"": table}):
        with pytest.raises(UsageError, match=r"cannot be names of tables"):
            ask(names, "select 1")


def test_a_table_with_forged_columns_is_refused_before_any_sql(tmp_path: Path) -> None:
    forged = SCHEMA.append(pa.field("a\" from read_text('x'); --", pa.string()))
    file = sealed(tmp_path, [row(0, 0)], forged)
    for run in (
        lambda: chosen(tmp_path, file, range(1), where="true"),
        lambda: ask({"records": (tmp_path, file)}, "select 1"),
    ):
        with pytest.raises(DatasetError, match=r"has the column a\" from read_text"):
            run()
