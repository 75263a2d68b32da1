"""The rules that images must follow, the joins with lists, and what is kept of a table."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from dataprep.errors import SourceError
from dataprep.tables import Member, Row, Scanned
from dataprep.tables.arrow import index_tables, order_rows
from dataprep.tables.rules import check_groups, check_keys, check_splits_known
from dataprep_schemas.manifest import Unmatched
from dataprep_schemas.tables import schema_of


def row(key: str, container: str = "a.tar", labels: tuple[int, ...] = (0,), **more: Any) -> Row:
    return Row(key, container, 512, 9, 1, labels, **more)


def listed(*rows: dict[str, Any]) -> Scanned:
    """What a list says."""
    full = [{"status": "listed", "container": "list.csv", "labels": ["a"], **row} for row in rows]
    return Scanned(tables=[pa.Table.from_pylist(full)])


def member(key: str, alias: str = "") -> Member:
    return Member(key, "a.tar", 512, 9, 1, alias=alias)


AGES = pa.array([1])


@pytest.mark.parametrize(
    ("forge", "said"),
    [
        (lambda table: table.append_column('x"; copy', AGES), r'the column x"; copy of int64'),
        (lambda table: table.append_column("age", AGES), "columns of another data set's own"),
        (lambda table: table.append_column("KEY", AGES), "columns of the same name"),
        (lambda table: table.set_column(2, "key", AGES), "no column key of string in place 3"),
        (lambda table: table.drop(["labels"]), "no column labels of list"),
    ],
)
def test_a_forged_part_of_the_index_is_one_line(find, forge, said) -> None:
    images = find(Scanned({"train": [row("x")]}))
    (path,) = images.paths
    parquet.write_table(forge(parquet.read_table(path)), path)
    with pytest.raises(SourceError, match=f"^the index has {re.escape(said)}.*; start anew"):
        images.splits()
    path.write_bytes(b"PAR1")
    with pytest.raises(SourceError, match=r"^the index has [^\n]*; start anew"):
        images.splits()


def test_a_name_twice_in_a_split_is_refused_and_both_places_named(find) -> None:
    check_keys(find(Scanned({"train": [row("x")], "test": [row("x")]})).database)
    images = find(
        Scanned({"train": [row("x"), row("y")], "test": [row("x")]}),
        Scanned({"train": [row("x", "b.tar")]}),
    )
    with pytest.raises(
        SourceError, match=r"train: two .* the same name, x, in a.tar and b.tar; re"
    ):
        check_keys(images.database)


def test_a_group_in_two_splits_is_named_with_an_image_of_each(find) -> None:
    rows = {
        "test": [row("b", group="7"), row("e", group="9")],
        "train": [row("c", group="7"), row("a", group="7"), row("d", group="8")],
    }
    with pytest.raises(SourceError, match=r"^patient 7 is in train \(a\) and test \(b\); expected"):
        check_groups(find(Scanned(rows)).database, "patient")
    del rows["test"][0]
    check_groups(find(Scanned(rows)).database, "patient")


@pytest.mark.parametrize(
    ("labels", "multilabel", "complaint"),
    [
        ((), False, "train: x has 0 labels, expected exactly one"),
        ((0, 1), False, "train: x has 2 labels, expected exactly one"),
        ((2,), True, "train: x has the unknown class c; expected one of the list of classes"),
    ],
)
def test_labels_that_do_not_fit_are_refused(find, labels, multilabel, complaint) -> None:
    images = find(Scanned({"train": [row("x", labels=labels)]}))
    with pytest.raises(SourceError, match=complaint):
        images.choose(["train"], ["a", "b"], multilabel=multilabel, seed=0, limit=None)


def test_members_are_joined_by_key_or_alias_and_the_rest_is_named(find) -> None:
    images = find(
        listed(
            {"key": "d/x", "split": "train", "labels": ["b"], "group": "g"},
            {"key": "s/y", "split": "test"},
            {"key": "d/gone", "split": "test"},
            {"key": "d/other", "split": "unwanted"},
        ),
        Scanned(members=[member("d/x"), member("y", "s/y"), member("z", "s/z")]),
        wanted=["train", "test"],
    )
    assert images.rows(
        'select key, split, labels, "group", container from images order by key'
    ) == [
        ("d/x", "train", ["b"], "g", "a.tar"),
        ("s/y", "test", ["a"], None, "a.tar"),
    ]
    assert images.unmatched() == Unmatched(1, 1, {"missing": ("d/gone",), "unlisted": ("z",)})
    (table,) = images.unstored()
    assert sorted(zip(*table.select(["status", "key"]).to_pydict().values(), strict=True)) == [
        ("missing", "d/gone"),
        ("unlisted", "z"),
    ]


def test_a_list_of_bare_names_finds_files_in_any_folder(find) -> None:
    images = find(
        listed({"key": "x.png", "split": "train"}), Scanned(members=[member("deep/in/x.png")])
    )
    assert images.rows("select key from images") == [("x.png",)]


def test_a_listed_name_twice_is_refused(find) -> None:
    images = find(
        listed({"key": "x", "split": "train", "line": 7}, {"key": "x", "split": "test", "line": 3})
    )
    with pytest.raises(SourceError, match=r"^list.csv lists x twice, lines 3 and 7; expected each"):
        images.splits()


def test_an_image_in_no_split_is_refused(find) -> None:
    images = find(listed({"key": "x", "split": None}), Scanned(members=[member("x")]))
    with pytest.raises(SourceError, match=r"^1 image in no split: x; expected each in one of the"):
        check_splits_known(images.database)


@pytest.mark.parametrize("limit", [5, "12.5%", "10.1%"])  # a share is rounded up
def test_a_limit_takes_those_with_the_smallest_hashes(find, limit: int | str) -> None:
    keys = [f"{number:02d}" for number in range(40)]
    images = find(Scanned({"train": [row(key) for key in keys]}))
    images.choose(["train"], ["a"], multilabel=False, seed=3, limit=limit)
    smallest = sorted(
        keys,
        key=lambda key: int.from_bytes(hashlib.md5(f"3\0train\0{key}".encode()).digest(), "little"),
    )
    assert images.rows("select key from chosen order by key") == [
        (k,) for k in sorted(smallest[:5])
    ]


def test_the_digest_is_of_what_shapes_the_output_and_not_of_where_it_lies(find) -> None:
    def digest_of(*rows: Row) -> str:
        images = find(Scanned({"train": rows}), attributes=(("age", "int"),))
        images.choose(["train"], ["a", "b"], multilabel=False, seed=0, limit=None)
        found = images.summaries()["train"]
        assert (found.images, found.bytes) == (len(rows), sum(each.size for each in rows))
        digest: str = found.digest
        return digest

    rows = [row("x", attributes={"age": 5}), row("y", boxes=((0.1, 0.2, 0.3, 0.4),))]
    moved = [
        Row("y", "y", 0, 9, 77, (0,), rows[1].boxes),
        Row("x", "b", 1, 9, 2, (0,), attributes={"age": 5}),
    ]
    first = digest_of(*rows)
    assert digest_of(*moved) == first
    for change in (
        row("x", attributes={"age": 6}),
        row("z", attributes={"age": 5}),
        row("x", labels=(1,), attributes={"age": 5}),
        row("x"),
    ):
        assert digest_of(change, rows[1]) != first


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6)
# Of places below the raw directory, the only ones that scans name.
INSIDE = NAMES.filter(lambda name: name[0] != "/" and ".." not in name.split("/"))
BOXES = st.tuples(*[st.floats(0, 1)] * 4)
ROWS = st.builds(
    Row,
    key=NAMES,
    container=INSIDE,
    offset=st.integers(0, 2**60),
    size=st.integers(0, 2**60),
    modified=st.integers(-(2**40), 2**40),
    labels=st.sets(st.integers(0, 4)).map(lambda found: tuple(sorted(found))),
    boxes=st.lists(BOXES, max_size=2).map(tuple),
    box_labels=st.lists(st.integers(0, 4), max_size=2).map(tuple),
    attributes=st.fixed_dictionaries({}, optional={"age": st.integers(0, 99), "view": NAMES}),
    packing=st.sampled_from([(), ("gzip", "r"), ("stored", 2**32 - 1), ("deflate", 8, 0)]),
)


@given(st.lists(ROWS, min_size=1, max_size=8))
def test_a_row_survives_being_written_and_read(rows: list[Row]) -> None:
    attributes = (("age", "int"), ("view", "text"))
    classes = [str(number) for number in range(5)]
    (table,) = index_tables(Scanned({"train": rows}), classes, attributes)  # type: ignore[arg-type]  # literals
    assert table.schema == schema_of("index", attributes)  # type: ignore[arg-type]  # literals
    numbers = {
        name: [
            None if cell is None else [int(label) for label in cell]
            for cell in table.column(name).to_pylist()
        ]
        for name in ("labels", "box_labels")
    }
    order = schema_of("order", attributes)  # type: ignore[arg-type]  # literals
    columns = {name: table.column(name) for name in order.names if name not in ("shard", *numbers)}
    found = (
        pa.table({"shard": [0] * len(rows), **columns, **numbers}).select(order.names).cast(order)
    )
    assert [*order_rows(found)] == sorted(rows, key=lambda row: row.key)


def test_a_name_that_is_not_utf_8_is_refused_in_a_line() -> None:
    scanned = Scanned({"train": [row("caf\udce9.jpg")]})
    with pytest.raises(SourceError, match=r"^a name is not UTF-8: caf\\udce9.jpg; rename the file"):
        [*index_tables(scanned, ["a"], ())]


@pytest.mark.parametrize("field", ["labels", "box_labels"])
@pytest.mark.parametrize("label", [2, -1])
def test_a_label_that_no_class_has_is_refused_in_a_line(field: str, label: int) -> None:
    scanned = Scanned({"train": [replace(row("x.jpg"), **{field: (label,)})]})  # type: ignore[arg-type]
    said = rf"^x\.jpg has the label {label}, and the 2 classes count from 0; make labels"
    with pytest.raises(SourceError, match=said):
        [*index_tables(scanned, ["a", "b"], ())]
