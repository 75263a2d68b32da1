"""Listings of every format: pieces, single records, quoting, and what is wrong with a line."""

from __future__ import annotations

import csv
import io
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from dataprep.errors import SourceError
from dataprep.sources.folder.listing_file import LineListing, open_listing
from dataprep.sources.folder.listing_formats import column_names, line_parser
from dataprep.sources.folder.listing_parquet import ParquetListing

CELL = st.text(st.characters(exclude_characters="\r\n\0", codec="utf-8"), max_size=8)
WORD = st.text("ab/ é", min_size=1, max_size=12).map(lambda word: word.strip() or "x")
END = st.sampled_from(["\n", "\r\n"])


def everything(listing, wanted):
    return [
        record
        for start, stop in listing.pieces()
        for record in listing.records(start, stop, wanted)
    ]


def read(path, form):
    listing = open_listing(path, form)
    return everything(listing, listing.columns)


def reference(text, delimiter):
    """What Python's own reader makes of the whole."""
    return [tuple(row) for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)]


@given(
    st.lists(st.tuples(WORD, WORD, WORD), max_size=20),
    END,
    st.booleans(),
    st.integers(1, 60),
    st.sampled_from(["", "\ufeff"]),
)
def test_pieces_together_are_the_whole(tmp_path_factory, rows, end, ends, piece, mark):
    path = tmp_path_factory.mktemp("l") / "list.csv"
    lines = ["path,label,split", *(",".join(row) for row in rows)]
    path.write_bytes((mark + end.join(lines) + end * ends).encode())

    listing = LineListing(path, "csv", piece)

    pieces = listing.pieces()
    assert all(start < stop for start, stop in pieces)
    assert [stop for _, stop in pieces[:-1]] == [start for start, _ in pieces[1:]]
    assert not pieces or pieces[-1][1] == path.stat().st_size
    assert list(listing.columns) == ["path", "label", "split"]
    found = everything(listing, ("split", "path"))
    assert [values for _, values in found] == [(split, key) for key, _, split in rows]
    positions = [position for position, _ in found]
    assert list(listing.records_at(positions[::2], ("split", "path"))) == found[::2]
    assert [listing.place(position) for position in positions] == [
        f"list.csv, line {number}" for number in range(2, len(rows) + 2)
    ]


@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=10), st.sampled_from([",", "\t"]), END)
def test_quoting_is_that_of_csv(tmp_path_factory, rows, delimiter, end):
    path = tmp_path_factory.mktemp("l") / "list"
    text = io.StringIO(newline="")
    rows = [(f"p{key}", label) for key, label in rows]  # a blank line is no row
    csv.writer(text, delimiter=delimiter, lineterminator=end).writerows([("path", "label"), *rows])
    path.write_bytes(text.getvalue().encode())

    found = everything(
        LineListing(path, {",": "csv", "\t": "tsv"}[delimiter], 16), ("path", "label")
    )

    assert [values for _, values in found] == reference(text.getvalue(), delimiter)[1:]


@given(
    st.lists(st.dictionaries(st.sampled_from(["path", "label", "n"]), st.integers() | CELL)), END
)
def test_json_lines_have_values_or_none(tmp_path_factory, objects, end):
    path = tmp_path_factory.mktemp("l") / "list.jsonl"
    lines = [json.dumps(value) for value in ({"path": "p", "label": 1}, *objects)]
    path.write_bytes(end.join(lines).encode())

    listing = LineListing(path, "jsonl", 16)

    assert listing.columns == ["path", "label"]
    assert [values for _, values in everything(listing, ("label", "path"))] == [
        (1, "p"),
        *((value.get("label"), value.get("path")) for value in objects),
    ]


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("/a/airfield/1.jpg 0", ("/a/airfield/1.jpg", "0")),
        ("polar bear.jpg 7", ("polar bear.jpg", "7")),
        ("x.jpg\t7", ("x.jpg", "7")),
        ("x.jpg  7", ("x.jpg", "7")),
        ("x.jpg ", ("x.jpg", "")),
    ],
)
def test_plain_lines_end_with_the_label(line, values):
    columns = column_names("txt", line)

    assert line_parser("txt", columns, ("path", "label"))(line) == values


@given(
    st.lists(st.lists(st.tuples(WORD, st.integers(0, 9)), max_size=7), max_size=4),
    st.integers(1, 5),
    st.data(),
)
def test_parquet_pieces_together_are_the_whole(tmp_path_factory, groups, rows, data):
    path = tmp_path_factory.mktemp("l") / "list.parquet"
    schema = pa.schema([("path", pa.string()), ("label", pa.int64())])
    with parquet.ParquetWriter(path, schema) as writer:
        for group in groups:
            columns = list(zip(*group, strict=True)) or [[], []]
            writer.write_table(pa.table(columns, schema))
    listing = ParquetListing(path, rows)

    found = everything(listing, ("label", "path"))

    expected = [row for group in groups for row in group]
    assert found == [(at, (label, key)) for at, (key, label) in enumerate(expected)]
    assert listing.end() == len(expected)
    assert all(stop - start <= rows for start, stop in listing.pieces())
    wanted = sorted(data.draw(st.sets(st.integers(0, max(0, len(expected) - 1)))))
    if expected:
        assert list(listing.records_at(wanted, ("label", "path"))) == [found[at] for at in wanted]
    assert listing.place(4) == "list.parquet, row 5"


def test_parquet_dictionaries_lists_and_nothing_are_plain_values(tmp_path):
    labels = pa.array(["a", None]).dictionary_encode()
    many = pa.array([["a", "b"], []])
    parquet.write_table(
        pa.table([["x", "y"], labels, many], ["path", "label", "many"]), tmp_path / "l"
    )

    listing = ParquetListing(tmp_path / "l")

    assert [values for _, values in listing.records(0, 2, ("many", "label"))] == [
        (["a", "b"], "a"),
        ([], None),
    ]


@pytest.mark.parametrize(
    ("form", "content", "expected"),
    [
        ("csv", b"", "list is empty or starts with an empty line; expected a header"),
        ("csv", b"\npath,label\n", "starts with an empty line"),
        ("csv", b'path,"label\n', "list, line 1: a quoted cell is not closed"),
        ("csv", b'path,label\na,b\nc,"d\ne"\n', "list, line 3: a quoted cell is not closed on its"),
        ("tsv", b'path\tlabel\na\t"b\nc"\n', "list, line 2: a quoted cell is not closed on its"),
        ("csv", b"path,label\na,b,c\n", "line 2: found 3 columns, expected 2 as in the header"),
        ("csv", b"path,label\n\na\n", "line 3: found 1 columns"),
        ("csv", b'path,label\na,"b"c\n', "line 2: .*RFC 4180"),
        ("csv", b"path,label\na,b\rc,d\n", "line 2: .*RFC 4180"),
        ("csv", b"path,label\na," + bytes([65]) * (1 << 20), "line 2: longer than 1048576 bytes"),
        ("jsonl", b"{}\n{", "line 2: not JSON"),
        ("jsonl", b"{}\n[1]", "line 2: found a JSON list, expected one object a line"),
        ("jsonl", b"{}\n" + b"[" * 100_000, "line 2: not JSON"),
        ("txt", b"a 1\n\nb\n", "line 3: found no space"),
        (
            "parquet",
            b"path,label\na,b\n",
            "list is damaged or not a Parquet file: .*--listing_format",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path, form, content, expected):
    (tmp_path / "list").write_bytes(content)

    with pytest.raises(SourceError, match=expected) as caught:
        read(tmp_path / "list", form)
    assert "\n" not in str(caught.value)


def test_a_line_too_long_is_found_while_cutting(tmp_path):
    (tmp_path / "list").write_bytes(b"path,label\n" + b"x" * (3 << 20))

    with pytest.raises(SourceError, match="a line longer than 1048576 bytes"):
        LineListing(tmp_path / "list", "csv", 1 << 20).pieces()


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_listing_that_is_gone_is_refused(tmp_path, form):
    with pytest.raises(SourceError, match="cannot read"):
        open_listing(tmp_path / "gone", form)


def test_damaged_parquet_rows_are_refused(tmp_path):
    path = tmp_path / "list"
    parquet.write_table(pa.table([["x" * 50] * 100], ["path"]), path, compression="gzip")
    content = bytearray(path.read_bytes())
    content[4:60] = bytes(56)
    path.write_bytes(content)
    listing = open_listing(path, "parquet")

    with pytest.raises(SourceError, match=r"list is damaged|cannot read"):
        everything(listing, ("path",))


def test_paths_that_are_no_utf8_survive(tmp_path):
    (tmp_path / "list").write_bytes(b"path,label\n\xff.jpg,b\n")

    listing = open_listing(tmp_path / "list", "csv")

    assert everything(listing, ("path",)) == [(11, ("\udcff.jpg",))]
