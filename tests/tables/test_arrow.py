"""Rows that become tables of the index and come back; and tables that no scan wrote."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from dataprep.errors import SourceError
from dataprep.rows import Row, Scanned
from dataprep.tables.arrow import index_tables, order_rows
from dataprep_schemas.fields import BOX_LABELS, BOXES, CAPTIONS, Field
from dataprep_schemas.tables import schema_of
from tests.tables.conftest import Find, row

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
def test_a_forged_part_of_the_index_is_one_line(
    find: Find, forge: Callable[[pa.Table], pa.Table], said: str
) -> None:
    images = find(Scanned({"train": [row("x")]}))
    (path,) = images.paths
    parquet.write_table(forge(parquet.read_table(path)), path)
    with pytest.raises(SourceError, match=f"^the index has {re.escape(said)}.*; start anew"):
        images.splits()
    path.write_bytes(b"PAR1")
    with pytest.raises(SourceError, match=r"^the index has [^\n]*; start anew"):
        images.splits()


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6)
# Of places below the raw directory, the only ones that scans name.
INSIDE = NAMES.filter(lambda name: name[0] != "/" and ".." not in name.split("/"))
SIDES = st.tuples(*[st.floats(0, 1)] * 4)
ROWS = st.builds(
    Row,
    key=NAMES,
    container=INSIDE,
    offset=st.integers(0, 2**60),
    size=st.integers(0, 2**60),
    modified=st.integers(-(2**40), 2**40),
    labels=st.sets(st.integers(0, 4)).map(lambda found: tuple(sorted(found))),
    fields=st.fixed_dictionaries(
        {},
        optional={
            "boxes": st.lists(SIDES, min_size=1, max_size=2).map(tuple),
            "box_labels": st.lists(st.integers(0, 4), min_size=1, max_size=2).map(tuple),
            "captions": st.lists(NAMES, min_size=1, max_size=2).map(tuple),
            "age": st.integers(0, 99),
            "view": NAMES,
        },
    ),
    packing=st.sampled_from([(), ("gzip", "r"), ("stored", 2**32 - 1), ("deflate", 8, 0)]),
)


DECLARED = (BOXES, BOX_LABELS, CAPTIONS)


@given(st.lists(ROWS, min_size=1, max_size=8))
def test_a_row_survives_being_written_and_read(rows: list[Row]) -> None:
    fields = (*DECLARED, Field("age", "int"), Field("view", "text"))
    classes = [str(number) for number in range(5)]
    (table,) = index_tables(Scanned({"train": rows}), classes, fields)
    assert table.schema == schema_of("index", fields)
    numbers = {
        name: [
            None if cell is None else [int(label) for label in cell]
            for cell in table.column(name).to_pylist()
        ]
        for name in ("labels", "box_labels")
    }
    order = schema_of("order", fields)
    columns = {name: table.column(name) for name in order.names if name not in ("shard", *numbers)}
    found = (
        pa.table({"shard": [0] * len(rows), **columns, **numbers}).select(order.names).cast(order)
    )
    assert [*order_rows(found)] == sorted(rows, key=lambda row: row.key)


def test_a_name_that_is_not_utf_8_is_refused_in_a_line() -> None:
    scanned = Scanned({"train": [row("caf\udce9.jpg")]})
    with pytest.raises(SourceError, match=r"^a name is not UTF-8: caf\\udce9.jpg; rename the file"):
        [*index_tables(scanned, ["a"], ())]


def test_a_field_that_a_set_does_not_declare_is_refused_in_a_line() -> None:
    scanned = Scanned({"train": [row("x.jpg", fields={"captions": ("a cat",)})]})
    with pytest.raises(SourceError, match=r"^x\.jpg has captions, .* declare all in `fields`$"):
        [*index_tables(scanned, ["a"], ())]


@pytest.mark.parametrize("field", ["labels", "box_labels"])
@pytest.mark.parametrize("label", [2, -1])
def test_a_label_that_no_class_has_is_refused_in_a_line(field: str, label: int) -> None:
    change = {field: (label,)} if field == "labels" else {"fields": {field: (label,)}}
    scanned = Scanned({"train": [msgspec.structs.replace(row("x.jpg"), **change)]})
    said = rf"^x\.jpg has the label {label}, and the 2 classes count from 0; make labels"
    with pytest.raises(SourceError, match=said):
        [*index_tables(scanned, ["a", "b"], DECLARED)]
