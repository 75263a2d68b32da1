"""The folder data set with a listing: every format, files and archives, and every wrong row."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pyarrow import parquet

import dataprep
from dataprep.archives.listing import clean_path
from dataprep.datasets.folder import listing as listing_module
from dataprep.datasets.folder.dataset import Folder
from dataprep.errors import SourceError, UsageError
from dataprep.system.messages import some_of
from dataprep.tables.arrow import index_tables
from tests.conftest import Cli, everyday, few
from tests.datasets.test_folder import write_archive, write_tree
from tests.fuzz.raw_readers import picture

IMAGES = {f"{c}/{n}.jpg": f"{c}{n}".encode() * n for c in "ab" for n in (1, 2, 3)}
ROWS = [
    {"path": path, "label": path[0], "split": "train" if path[2] < "3" else "Val"}
    for path in reversed(IMAGES)
]
FRACTIONS = "train=0.5,validation=0.25,test=0.25"
FORMATS = ["csv", "tsv", "jsonl", "parquet"]


def write_listing(path: Path, rows: Sequence[Mapping[str, object]]) -> str:
    """A listing of the format that its suffix says."""
    columns = list(rows[0])
    if path.suffix == ".parquet":
        arrays = [[row[name] for row in rows] for name in columns]
        parquet.write_table(pa.table(arrays, columns), path, row_group_size=4)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with path.open("w", newline="") as file:
            writer = csv.writer(file, delimiter={".csv": ",", ".tsv": "\t"}[path.suffix])
            writer.writerows([columns, *(row.values() for row in rows)])
    return str(path)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    write_tree(tmp_path / "raw", IMAGES)
    return tmp_path / "raw"


def index(raw: Path, listing: str | Path, **options: Any) -> dict[str, list[dict[str, Any]]]:
    """Every row of the index, by status."""
    dataset = Folder(listing=str(listing), **options)
    searched = dataset.find(raw, None)
    known = searched.classes
    found: dict[str, list[dict[str, Any]]] = {}
    for unit in searched.units:
        scanned = dataset.scan(raw, searched, unit)
        classes = [name for name, _ in known] if known else scanned.classes or ()
        for table in index_tables(scanned, classes, searched.fields):
            for row in table.to_pylist():
                found.setdefault(row["status"], []).append(row)
    return found


def told(rows: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, list[str]]]:
    """What a list tells."""
    return {row["key"]: (row["split"], row["labels"]) for row in rows}


def refusal(raw: Path, listing: str | Path, **options: Any) -> str:
    with pytest.raises(SourceError) as caught:
        index(raw, listing, **options)
    assert str(caught.value).isprintable()
    return str(caught.value)


def pixel() -> bytes:
    file = io.BytesIO()
    Image.new("L", (9, 9)).save(file, "JPEG")
    return file.getvalue()


EXPECTED = {
    path: ("train" if path[2] < "3" else "validation", [path[0]]) for path in reversed(IMAGES)
}


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format_tells_the_same_of_files_and_archives(
    tmp_path: Path, raw: Path, suffix: str
) -> None:
    listing = write_listing(tmp_path / f"list.{suffix}", ROWS)

    (status, files), *others = index(raw, listing).items()

    assert (status, others) == ("image", [])
    assert told(files) == EXPECTED
    for row in files:
        assert (row["container"], row["offset"], row["modified"]) == (row["key"], 0, 77)
        assert row["size"] == len(IMAGES[row["key"]])
        assert row["group"] == row["key"]  # no image may be listed in two splits
    write_archive(tmp_path / "packed/i.tar", IMAGES)
    found = index(tmp_path / "packed", listing)
    assert found.keys() == {"member", "listed"}
    assert told(found["listed"]) == EXPECTED
    assert {row["container"] for row in found["listed"]} == {f"list.{suffix}"}


def test_archives_and_folders_have_members(tmp_path: Path) -> None:
    write_archive(tmp_path / "raw/a.tar", {"1.jpg": b"1"})
    write_tree(tmp_path / "raw", {"b/2.jpg": b"22"})
    listing = write_listing(tmp_path / "list.csv", ROWS)

    members = index(tmp_path / "raw", listing)["member"]

    assert {row["key"]: (row["alias"], row["container"], row["size"]) for row in members} == {
        "1.jpg": ("a/1.jpg", "a.tar", 1),
        "b/2.jpg": (None, "b/2.jpg", 2),
    }
    with (tmp_path / "raw/a.tar").open("rb") as file:
        file.seek(members[0]["offset"])
        assert file.read(1) == b"1"


def test_plain_lines_as_caffe_and_places_have_them(tmp_path: Path, raw: Path) -> None:
    lines = "/a/1.jpg 10\r\n\n./polar bear.jpg\t9\na//3.jpg  10\n"
    (tmp_path / "list.txt").write_text(lines)

    found = index(raw, tmp_path / "list.txt", split_name="val")

    assert told(found["image"]) == {
        "a/1.jpg": ("validation", ["10"]),
        "a/3.jpg": ("validation", ["10"]),
    }
    assert [row["key"] for row in found["missing"]] == ["polar bear.jpg"]


# Each example opens a database, which takes as long as some fifty of others.
FEW = few(6)
CELL = st.text(st.characters(exclude_characters="\r\0", codec="utf-8"), max_size=8)


@FEW
@given(
    st.lists(st.tuples(CELL, CELL), min_size=1, max_size=10),
    st.sampled_from([("csv", ","), ("tsv", "\t")]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "\ufeff"]),
)
def test_quoting_is_that_of_csv(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str]],
    form: tuple[str, str],
    end: str,
    mark: str,
) -> None:
    suffix, delimiter = form
    path = tmp_path_factory.mktemp("l") / f"list.{suffix}"
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator=end)
    listed = [(f"p{at}", f"l{label}", 1, group) for at, (label, group) in enumerate(rows)]
    writer.writerows([("path", "label", "size", 'a "word"'), *listed])
    path.write_bytes((mark + text.getvalue()).encode())

    found = index(path.parent, path)["image"]

    assert told(found) == {
        key: ("train", [unicodedata.normalize("NFC", label.strip())]) for key, label, *_ in listed
    }


@FEW
@given(st.text("a.b/ \té\0\\", max_size=12).filter(lambda path: path.strip(" \t")[:1] != "/"))
def test_paths_are_cleaned_as_those_of_archives_are(
    tmp_path_factory: pytest.TempPathFactory, path: str
) -> None:
    raw = tmp_path_factory.mktemp("raw")
    listing = write_listing(raw / "list.parquet", [{"path": path, "label": "l", "size": 1}])
    try:
        there = path if "/" in path else path.replace("\\", "/")  # as Windows has them
        expected = clean_path(there.strip(" \t"))
    except ValueError:
        assert refusal(raw, listing).startswith("list.parquet, row 1: no usable path")
    else:
        assert [row["key"] for row in index(raw, listing)["image"]] == [expected]


def test_listed_sizes_are_trusted_and_nothing_is_looked_up(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    rows = [{"path": "gone.jpg", "label": 3, "size": "12.0"}]
    listing = write_listing(tmp_path / "list.csv", rows)

    (row,) = index(tmp_path / "raw", listing)["image"]

    assert (row["size"], row["modified"], row["container"]) == (12, 0, "gone.jpg")


def test_columns_may_have_other_names(tmp_path: Path, raw: Path) -> None:
    row = {"split": "?", "fi/le": "a/1.jpg", "ki~nd": "x", "pa rt": "Test", "label": "no"}
    names = {"path_column": "fi/le", "label_column": "ki~nd", "split_column": "pa rt"}
    for suffix in FORMATS:
        listing = write_listing(tmp_path / f"list.{suffix}", [row])
        assert told(index(raw, listing, **names)["image"]) == {"a/1.jpg": ("test", ["x"])}


BAR, NONE = {"label_separator": "|"}, {"no_label": "No Finding"}
CELLS: list[tuple[object, dict[str, str], list[str]]] = [
    ("dog|cat", BAR, ["cat", "dog"]),
    ("dog | ant", BAR, ["ant", "dog"]),
    ("", BAR, []),
    ("0|10.0|v1.0|1.5", BAR, ["0", "1.5", "10", "v1.0"]),
    ("[0, 1]", BAR, ["0", "1"]),
    ("['a', \"b\"]", BAR, ["a", "b"]),
    ("[]", BAR, []),
    (["b", "a"], BAR, ["a", "b"]),
    ([], BAR, []),
    ([True, False], BAR, ["false", "true"]),
    ("dog|cat", {}, ["dog|cat"]),
    ("2.0", {}, ["2"]),
    ("[unknown]", {}, ["[unknown]"]),
    (True, {}, ["true"]),
    ("No Finding", NONE, []),
    ("Mass|Edema", NONE, ["Mass|Edema"]),
    ("No Finding", BAR | NONE, []),
    ("Mass|Edema", BAR | NONE, ["Edema", "Mass"]),
    ("0.0", {"no_label": "0"}, []),
    ("0.0", {"no_label": "0.0"}, []),
]


def kind_of(cell: object) -> list[str]:
    """What a column may have beside it, in a Parquet file."""
    return [type(it).__name__ for it in (cell, *(cell if isinstance(cell, list) else ()))][:2]


@pytest.mark.parametrize("suffix", everyday(["csv", "parquet"], ["jsonl"]))
def test_cells_have_the_labels_that_the_options_say(tmp_path: Path, raw: Path, suffix: str) -> None:
    listing = tmp_path / f"l.{suffix}"
    cells = [it for it in CELLS if isinstance(it[0], str) or suffix != "csv"]
    for (options, _), group in groupby(cells, lambda it: (it[1], kind_of(it[0]))):
        some = [*group]
        write_listing(
            listing,
            [{"path": f"{at}.jpg", "label": it[0], "size": 1} for at, it in enumerate(some)],
        )
        searched = Folder(listing=str(listing), **options).find(raw, None)
        assert searched.multilabel == bool(options)
        found = index(raw, listing, **options)["image"]
        assert [row["labels"] for row in found] == [labels for *_, labels in some]


@pytest.mark.parametrize(
    ("cell", "options", "said"),
    [
        ("", {}, "empty label, expected a class; --label_separator allows"),
        ("x||y", BAR, "empty label, expected a class"),
        ("0|1|0", BAR, "a label twice in one cell"),
        ("2|2.0", BAR, "a label twice in one cell"),
        ("caf\u00e9|cafe\u0301", BAR, "a label twice in one cell"),
        ("Mass|No Finding", BAR | NONE, "No Finding, which means none, beside"),
        (["b", "a"], {}, "a list of labels, expected one label"),
        ("[0, 1]", {}, "a list of labels, expected one label"),
        ({}, {}, "a dict, expected text"),
    ],
)
def test_a_cell_that_has_no_labels_is_refused(
    tmp_path: Path, raw: Path, cell: object, options: dict[str, str], said: str
) -> None:
    suffixes = ["jsonl"] if cell == {} else ["jsonl", "parquet"]
    for suffix in [*suffixes, *(["csv"] if isinstance(cell, str) else [])]:
        listing = write_listing(tmp_path / f"l.{suffix}", [{"path": "a/1.jpg", "label": cell}])
        assert said in refusal(raw, listing, **options)


def test_labels_are_those_of_the_list_of_classes(tmp_path: Path, raw: Path) -> None:
    (tmp_path / "classes.txt").write_text("/x/one\n/x/zero\n")
    (tmp_path / "list.txt").write_text("a/1.jpg x/one\na/2.jpg /x/zero\n")
    options = {"listing": str(tmp_path / "list.txt"), "classes": str(tmp_path / "classes.txt")}

    assert told(index(raw, **options)["image"]) == {
        "a/1.jpg": ("train", ["x/one"]),
        "a/2.jpg": ("train", ["x/zero"]),
    }
    (tmp_path / "list.txt").write_text("a/1.jpg x/one\na/2.jpg 2\n")
    message = refusal(raw, **options)
    assert message.startswith("list.txt, line 2: label 2: unknown label 2, expected the classes")
    (tmp_path / "list.txt").write_text("a/1.jpg x/one|/x/one\n")
    assert "a label twice in one cell" in refusal(raw, **options, label_separator="|")
    (tmp_path / "classes.txt").write_text("1.0\n2\n")
    (tmp_path / "list.txt").write_text("a/1.jpg 1.0\na/2.jpg 2.0\n")
    found = index(raw, **options)["image"]
    assert [row["labels"] for row in found] == [["1.0"], ["2"]]


def test_what_is_missing_or_no_file_is_told(
    tmp_path: Path, raw: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (raw / "dir.jpg").mkdir()
    paths = ["a/1.jpg", "a/gone.jpg", "a/1.jpg/x.jpg", "dir.jpg"]
    rows = [{"path": path, "label": "l", "split": "val"} for path in paths]
    listing = write_listing(tmp_path / "list.csv", rows)
    monkeypatch.setattr(listing_module, "_ROWS", 2)

    found = index(raw, listing)

    assert [row["key"] for row in found["image"]] == ["a/1.jpg"]
    assert [(row["key"], row["container"], row["split"]) for row in found["missing"]] == [
        (path, "list.csv", "validation") for path in paths[1:]
    ]


def test_absolute_paths_are_taken_below_the_raw_directory_and_missing_elsewhere(
    tmp_path: Path, raw: Path
) -> None:
    (tmp_path / "link").symlink_to(raw)
    rows = [f"{tmp_path}/{top}/a/{n}.jpg,x" for n, top in ((1, "raw"), (2, "link"), (3, "gone"))]
    (tmp_path / "list.csv").write_text("\n".join(["path,label", *rows, "/a/3.jpg,x", ""]))

    found = index(tmp_path / "link", tmp_path / "list.csv")

    assert sorted(row["key"] for row in found["image"]) == ["a/1.jpg", "a/2.jpg", "a/3.jpg"]
    assert [row["key"] for row in found["missing"]] == [f"{tmp_path}/gone/a/3.jpg"[1:]]


@pytest.mark.parametrize("form", ["files", "tar"])
def test_listed_paths_start_inside(tmp_path: Path, form: str) -> None:
    files = {"data/large/a/1.jpg": b"1", "other/a/1.jpg": b"22"}
    raw = tmp_path / "raw"
    write_tree(raw, files) if form == "files" else write_archive(raw / "i.tar", files)
    (tmp_path / "list.txt").write_text("/a/1.jpg 0\n")

    found = index(raw, tmp_path / "list.txt", inside="data/large")

    (row,) = found["image" if form == "files" else "member"]
    assert (row["key"], row["size"]) == ("a/1.jpg", 1)


@FEW
@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["p 1", "p2", "é"])), max_size=30),
    st.sampled_from(["patient", "folder", "path"]),
)
def test_listed_images_are_cut_as_found_ones_are(
    tmp_path_factory: pytest.TempPathFactory, images: list[tuple[int, str]], group_by: str
) -> None:
    raw = tmp_path_factory.mktemp("raw")
    rows = [
        {"path": f"./{folder}/{at}.jpg", "label": "l", "patient": patient, "size": 1}
        for at, (folder, patient) in enumerate([*images, (0, "p2")])
    ]
    listing = write_listing(raw / "list.csv", rows)
    options = {"fractions": FRACTIONS, "group_by": group_by, "stratify": False}

    found = index(raw, listing, **options)["image"]

    cut = Folder(listing=listing, **options).options.cut
    assert cut is not None
    groups = {"patient": [row["patient"] for row in rows], "folder": [r["key"][0] for r in found]}
    expected = groups.get(group_by, [row["key"] for row in found])
    assert [row["split"] for row in found] == [cut.split_of(group) for group in expected]
    assert [row["group"] for row in found] == groups.get(group_by, [None] * len(found))


@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        ("file,label\n", {}, " has no columns path, expected one; it has file, .*--path_col"),
        ("path,label\n", {"group_by": "patient"}, " has no columns patient.*--group_by"),
        ("path,label\n", {"attribute_columns": "age"}, " has no columns age.*--attribute_columns"),
        ("path,label,label\n", {}, " has 2 columns label"),
        ("path,label,split\n", {"fractions": FRACTIONS}, " has a column split, and --fractions"),
        ("", {}, ", line 1: found nothing, expected a header"),
        ("path,label\n", {}, " lists no images; expected one image a line"),
        ("path,label\na/1.jpg,x\n,x\n", {}, ", line 3: no usable path"),
        ('path,label\n\n"a/1.jpg","x\ny"\n/./,x\n', {}, ", line 5: no usable path"),
        ("path;label\na/1.jpg;x\n", {}, " has no columns path, expected one; it has path;label"),
        ("path,label\r\na,b\r\nc,d\ne,f\r\n", {}, ": lines end in different ways; .*; correct"),
        ("path,label\ra,b\r", {}, ", line 1: new-line character seen"),
        ("path,label\n../../x.jpg,x\n", {}, ", line 2: no usable path; .* without .. in it"),
        ("path,label\na/1.jpg,\n", {}, ", line 2: label empty: .*--label_separator"),
        ("path,label,split\na/1.jpg,x,a b\n", {}, ", line 2: split a b: a split's name"),
        ("path,label,size\na/1.jpg,x,1.5\n", {}, ", line 2: no size .*; rename the column"),
        ("path,label,who\na/1.jpg,x, \n", {"group_by": "who"}, ", line 2: empty group"),
        ("path,label,who\na/1.jpg,x,NaN\n", {"group_by": "who"}, ", line 2: empty group, or NaN"),
        ("path,label\na,b\na,b,c\n", {}, ", line 3: Expected Number of Columns: 2 Found: 3"),
        ('path,label\na,b\nc,"d\n', {}, ", line 3: .*unterminated quote"),
        (b"path,label\na,b\nc,caf\xe9\n", {}, ", line 3 is not UTF-8; save it as UTF-8"),
        ("path,label\na,b\n".encode("utf-16"), {}, " is not UTF-8; save it as UTF-8"),
    ],
)
def test_wrong_rows_are_refused_with_their_line(
    tmp_path: Path, raw: Path, content: str | bytes, options: dict[str, str], expected: str
) -> None:
    content = content if isinstance(content, bytes) else content.encode()
    (tmp_path / "list.csv").write_bytes(content)

    assert re.match(f"list.csv{expected}", refusal(raw, tmp_path / "list.csv", **options))


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("l.jsonl", b'{"path":"a","label":1}\n\n{', "l.jsonl, line 3: no usable path"),
        ("l.jsonl", b"[1]", "l.jsonl, line 1: expected one JSON object a line"),
        ("l.jsonl", b'{"path":null,"label":1}', "line 1: no usable path"),
        ("l.txt", b"a 1\n\nb\n", "l.txt, line 3: no usable path; .* and a label"),
        ("l.txt", b"a 1\nb\xff 2\n", "l.txt, line 2 is not UTF-8; save it"),
        ("l.parquet", b"path,label\na,b\n", "l.parquet: .*; correct the list"),
    ],
)
def test_other_formats_are_refused_with_their_line(
    tmp_path: Path, raw: Path, name: str, content: bytes, expected: str
) -> None:
    (tmp_path / name).write_bytes(content)

    assert re.search(expected, refusal(raw, tmp_path / name))


def test_a_row_far_down_has_its_line(tmp_path: Path, raw: Path) -> None:
    lines = [f"{number},l,5" for number in range(150_000)]
    lines[129_999] = "x,l,?"  # far beyond the rows by which columns are guessed
    (tmp_path / "list.csv").write_text("\n".join(["path,label,size", *lines]))
    assert "line 130001: no size" in refusal(raw, tmp_path / "list.csv")


@pytest.mark.parametrize("suffix", FORMATS)
def test_names_of_listings_are_no_patterns(tmp_path: Path, raw: Path, suffix: str) -> None:
    directory = tmp_path / "split=test"
    directory.mkdir()
    write_listing(directory / f"l1.{suffix}", [{"path": "b/1.jpg", "label": "l"}])
    for name in ("l[1]", "l*", "l'"):
        listing = write_listing(directory / f"{name}.{suffix}", ROWS[:1])
        assert told(index(raw, listing)["image"]) == {"b/3.jpg": ("validation", ["b"])}


def test_a_listing_may_lie_in_the_raw_directory(
    tmp_path: Path, raw: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_listing(raw / "list.csv", ROWS)
    monkeypatch.chdir(tmp_path)

    assert told(index(raw, "list.csv")["image"]) == EXPECTED
    write_listing(tmp_path / "list.csv", ROWS[:1])  # one in the working directory comes first
    assert len(index(raw, "list.csv")["image"]) == 1


# Every reader gives columns, whatever becomes of the images.
FORMS = everyday(
    [("csv", False), ("jsonl", True), ("parquet", False)], [*product(FORMATS, (False, True))]
)


@pytest.mark.parametrize(("suffix", "packed"), FORMS)
def test_columns_become_attributes(tmp_path: Path, raw: Path, suffix: str, packed: bool) -> None:
    rows = [
        {"path": "a/1.jpg", "label": "x", "Patient Age": "58", "sex": "F", "note": ""},
        {"path": "a/2.jpg", "label": "x", "Patient Age": "", "sex": "", "note": "7"},
        {"path": "a/3.jpg", "label": "x", "Patient Age": "-1", "sex": "M", "note": "x"},
    ]
    listing = write_listing(tmp_path / f"list.{suffix}", rows)
    if packed:
        raw = tmp_path / "packed"
        write_archive(raw / "i.tar", IMAGES)

    found = index(raw, listing, attribute_columns="all")["listed" if packed else "image"]

    assert [row["Patient_Age"] for row in found] == [58, None, -1]
    assert [row["sex"] for row in found] == ["F", None, "M"]
    assert [row["note"] for row in found] == [None, "7", "x"]
    (some, *_) = index(raw, listing, attribute_columns=" sex")["listed" if packed else "image"]
    assert some["sex"] == "F"
    assert "Patient_Age" not in some
    listing = write_listing(tmp_path / f"list.{suffix}", [{**rows[0], "Key": "1"}])
    message = refusal(raw, listing, attribute_columns="all")
    assert f"list.{suffix}: --attribute_columns: Key cannot be an attribute, since" in message


@pytest.mark.parametrize(
    ("cells", "attributes", "groups"),
    [
        (["7", "12", "-3"], [7, 12, -3], ["7", "12", "-3"]),
        (["0007", "12", "0"], ["0007", "12", "0"], ["0007", "12", "0"]),
        (["01", "1", "1.0"], ["01", "1", "1.0"], ["01", "1", "1"]),
        ([12, 12.0, 7], [12, 12, 7], ["12", "12", "7"]),
    ],
)
def test_each_id_is_one_group_and_one_attribute(
    tmp_path: Path, raw: Path, cells: list[object], attributes: list[object], groups: list[str]
) -> None:
    for suffix in ("csv", "jsonl"):
        rows = [
            {"path": f"a/{at}.jpg", "label": "x", "id": cell} for at, cell in enumerate(cells, 1)
        ]
        listing = write_listing(tmp_path / f"list.{suffix}", rows)
        found = index(raw, listing, attribute_columns="id", group_by="id")["image"]
        assert [row["id"] for row in found] == attributes
        assert [row["group"] for row in found] == groups


@pytest.mark.parametrize(
    "names",
    [["Age", "age"], ["a b", "a_b"], [f"c{n}" for n in range(1001)], ["a" * 256], ["?"]],
    ids=["case", "letters", "many", "long", "empty"],
)
def test_attributes_that_no_table_could_be_read_with(
    raw: Path, tmp_path: Path, names: list[str]
) -> None:
    rows = [{**row, **dict.fromkeys(names, "1")} for row in ROWS]
    listing = write_listing(tmp_path / "list.csv", rows)
    said = f"list.csv: --attribute_columns {some_of(names)} cannot be attributes; expected 1,000 at"
    assert refusal(raw, listing, attribute_columns=",".join(names)).startswith(said)


@pytest.mark.parametrize(("suffix", "packed"), FORMS)
def test_captions_are_a_text_or_a_list(
    tmp_path: Path, raw: Path, suffix: str, packed: bool
) -> None:
    texts: list[object] = ["one", "", ' "two", 左\n']
    if suffix in ("jsonl", "parquet"):
        texts = [["one", " two "], None, [None, ""]] if packed else ["one", None, " "]
    rows = [
        {"path": f"a/{number}.jpg", "label": "x", "text": text}
        for number, text in enumerate(texts, 1)
    ]
    listing = write_listing(tmp_path / f"list.{suffix}", rows)
    if packed:
        raw = tmp_path / "packed"
        write_archive(raw / "i.tar", IMAGES)

    found = index(raw, listing, caption_column="text")["listed" if packed else "image"]

    expected: list[list[str] | None] = [["one"], None, ['"two", 左']]
    if suffix in ("jsonl", "parquet"):
        expected = [["one", "two"] if packed else ["one"], None, None]
    assert [row["captions"] for row in found] == expected


def test_spellings_of_one_label_are_said(tmp_path: Path, raw: Path) -> None:
    rows = "a/1.jpg,1\na/2.jpg,1.0\na/3.jpg,2\nb/1.jpg, 2\nb/2.jpg,01\nb/3.jpg,Cat\n"
    (tmp_path / "l.csv").write_text(f"path,label\n{rows}")
    dataset = Folder(listing=str(tmp_path / "l.csv"))
    found = dataset.find(raw, None)
    scanned = dataset.scan(raw, found, found.units[0])
    assert [row["labels"] for table in scanned.tables for row in table.to_pylist()] == [
        *(["1"], ["1"], ["2"], ["2"], ["01"], ["Cat"])
    ]
    assert scanned.counts == {
        "labels spelled in several ways, each one class, such as '1' and '1.0'": 2
    }


def test_numbers_and_forms_of_unicode_are_told_on_the_command_line(
    cli: Cli, tmp_path: Path
) -> None:
    write_tree(tmp_path / "raw", {f"{at}.jpg": pixel() for at in range(4)})

    def run(*labels: str) -> tuple[int, str]:
        rows = [{"path": f"{at}.jpg", "label": label} for at, label in enumerate(labels)]
        listing = write_listing(tmp_path / "l.csv", rows)
        words = ("--listing", listing, "--workers", "1", "--dry_run")
        result = cli("folder", "--raw", tmp_path / "raw", "--out", tmp_path / "out", *words)
        return result.code, result.out + result.err

    code, said = run("0", "1", "3", "7")
    assert code == 0
    assert "labels are numbers from 0 to 7, and 4 classes are numbered anew from 0; --cl" in said
    code, said = run("caf\u00e9", "cafe\u0301", "x", "y")
    assert code == 0
    assert "labels spelled in several ways, each one class" in said
    assert "3 classes" in said
    code, said = run("0", "10", "-1", "2")
    assert code == 1
    assert "a label -1 beside whole numbers up to 10; expected classes; if it means" in said


def test_labels_in_another_form_of_unicode_are_those_of_the_list_of_classes(
    tmp_path: Path, raw: Path
) -> None:
    (tmp_path / "classes.txt").write_text("cafe\u0301\n")
    (tmp_path / "list.csv").write_text("path,label\na/1.jpg,caf\u00e9\n")
    (row,) = index(raw, tmp_path / "list.csv", classes=str(tmp_path / "classes.txt"))["image"]
    assert row["labels"] == ["cafe\u0301"]


def test_paths_without_a_suffix_are_those_of_the_only_image_of_that_name(
    cli: Cli, tmp_path: Path
) -> None:
    names = ["img/ISIC_1.jpg", "img/a.b.JPG", "img/two.jpg", "img/two.png", "img/no.txt"]
    write_tree(tmp_path / "raw", dict.fromkeys(names, b"x"))
    paths = ["img/ISIC_1", "./img/a.b", "img/two", "img/no", "gone/x", "img"]
    listing = write_listing(tmp_path / "l.csv", [{"path": it, "label": "a"} for it in paths])

    found = index(tmp_path / "raw", listing)

    assert {row["key"]: row["container"] for row in found["image"]} == {
        "img/ISIC_1": "img/ISIC_1.jpg",
        "img/a.b": "img/a.b.JPG",
    }
    assert [row["key"] for row in found["missing"]] == ["img/two", "img/no", "gone/x", "img"]
    write_tree(tmp_path / "raw", {"0.jpg": pixel(), "1.jpg": pixel()})
    write_listing(tmp_path / "l.csv", [{"path": it, "label": it} for it in ("0", "1.jpg")])
    words = ("--listing", listing, "--workers", "1", "--dry_run")
    result = cli("folder", "--raw", tmp_path / "raw", "--out", tmp_path / "out", *words)
    assert "images listed without their suffix: 1 in the raw data" in result.out


@pytest.mark.parametrize(("column", "option"), [("Split", {}), ("Set", {"split_column": "Set"})])
def test_a_split_is_what_the_list_says(
    tmp_path: Path, raw: Path, column: str, option: dict[str, str]
) -> None:
    rows = [
        {"path": f"a/{at}.jpg", "label": "x", column: split}
        for at, split in enumerate(("Validation", "valid", " val"), 1)
    ]
    found = index(raw, write_listing(tmp_path / "l.csv", rows), **option)["image"]
    assert {row["split"] for row in found} == {"validation"}


def test_paths_of_images_in_hugging_faces_form(tmp_path: Path, raw: Path) -> None:
    rows = [{"image": {"bytes": None, "path": "a/1.jpg"}, "label": 0}]
    listing = write_listing(tmp_path / "l.parquet", rows)
    assert told(index(raw, listing, path_column="image")["image"]) == {"a/1.jpg": ("train", ["0"])}


def test_names_of_columns_may_have_commas(tmp_path: Path, raw: Path) -> None:
    rows = [{"path": "a/1.jpg", "label": "x", "Note, free": "y", "b": "z"}]
    listing = write_listing(tmp_path / "l.csv", rows)
    (row,) = index(raw, listing, attribute_columns='b, "Note, free"')["image"]
    assert (row["Note_free"], row["b"]) == ("y", "z")


@pytest.mark.parametrize("suffix", everyday(["csv", "parquet"], FORMATS))
def test_columns_of_1_and_minus_1_alone_are_asked_about(
    tmp_path: Path, raw: Path, suffix: str
) -> None:
    rows = [
        {"path": f"{it}.jpg", "yes or no": (1, -1)[it % 2], "A": it % 2, "unsure": -(it < 9)}
        for it in range(20)
    ]
    listing = write_listing(tmp_path / f"l.{suffix}", rows)
    columns = {"label_columns": "A,yes or no,unsure"}
    assert re.match(
        rf"l.{suffix}: yes or no has -1, and hardly any 0 or empty cell; .* --uncertain negative",
        refusal(raw, listing, **columns),
    )
    for uncertain, labels in (("negative", ["A"]), ("positive", ["A", "unsure", "yes or no"])):
        found = index(raw, listing, uncertain=uncertain, **columns)["missing"]
        assert len(found) == 20
        write_tree(raw, {"1.jpg": b"x"})
        (row,) = index(raw, listing, uncertain=uncertain, **columns)["image"]
        assert sorted(row["labels"]) == labels
        (raw / "1.jpg").unlink()
    (row, *_) = index(raw, listing, uncertain="keep", **columns)["missing"]
    assert row["key"] == "0.jpg"


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_columns_of_true_and_false_are_classes(tmp_path: Path, raw: Path, suffix: str) -> None:
    rows = [{"path": "a/1.jpg", "A": True, "B": False}, {"path": "a/2.jpg", "A": False, "B": None}]
    listing = write_listing(tmp_path / f"l.{suffix}", rows)
    found = index(raw, listing, label_columns="A,B")["image"]
    assert [row["labels"] for row in found] == [["A"], []]


MARKS = ["1.0", "0", "", "-1.0", "1", "0.0", "-1", " 1 "]


@pytest.mark.parametrize("suffix", everyday(["tsv", "jsonl"], FORMATS))
def test_columns_that_are_classes(tmp_path: Path, suffix: str) -> None:
    write_tree(tmp_path / "raw", {f"{number}.jpg": b"x" for number in range(8)})
    numbers = [float(mark) if mark.strip() else None for mark in MARKS]
    marks = numbers if suffix in ("jsonl", "parquet") else MARKS
    rows = [
        {"path": f"{number}.jpg", "B c": mark, "A": marks[-1 - number], "age": number}
        for number, mark in enumerate(marks)
    ]
    listing = write_listing(tmp_path / f"list.{suffix}", rows)
    columns = {"label_columns": "B c, A", "attribute_columns": "all"}
    searched = Folder(listing=listing, **columns).find(tmp_path / "raw", None)
    assert searched.classes == (("B c", "B c"), ("A", "A"))
    said = {
        "B c": [1, 0, 0, -1, 1, 0, -1, 1],
        "A": [1, -1, 0, 1, -1, 0, 0, 1],
    }

    def labels(*meant: int) -> list[list[str]]:
        return [[name for name in said if said[name][at] in meant] for at in range(8)]

    found = index(tmp_path / "raw", listing, **columns)["image"]
    assert [row["labels"] for row in found] == labels(1)
    doubtful = ["|".join(names) or None for names in labels(-1)]
    assert [row["uncertain_labels"] for row in found] == doubtful
    assert {"age", "uncertain_labels"} < found[0].keys()
    assert not {"B_c", "A"} & found[0].keys()
    for uncertain, meant in (("positive", (1, -1)), ("negative", (1,))):
        found = index(tmp_path / "raw", listing, uncertain=uncertain, **columns)["image"]
        assert [row["labels"] for row in found] == labels(*meant)
        assert "uncertain_labels" not in found[0]
    by_status = index(tmp_path / "raw", listing, uncertain="exclude", **columns)
    for status, unsure in (("image", False), ("excluded", True)):
        keys = [f"{at}.jpg" for at in range(8) if bool(labels(-1)[at]) == unsure]
        assert [row["key"] for row in by_status[status]] == keys
    assert {row["reason"] for row in by_status["excluded"]} == {
        "a label is uncertain (--uncertain exclude)"
    }
    certain = write_listing(tmp_path / f"some.{suffix}", rows[:1])
    assert "uncertain_labels" not in index(tmp_path / "raw", certain, **columns)["image"][0]


@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        ("path,A\nx,1\n\ny,2\n", {}, ", line 4: A 2: expected 1, 0, -1 or nothing; correct"),
        ("path,A\nx,yes\n", {}, ", line 2: A yes: expected 1, 0, -1 or nothing; correct"),
        ("path,B\nx,1\n", {}, " has no columns A, expected one; .*--label_columns"),
        (
            "path,A,uncertain_labels\nx,-1,1\n",
            {"attribute_columns": "all", "uncertain": "keep"},
            ": --attribute_columns: uncertain_labels cannot be an attribute",
        ),
    ],
)
def test_cells_that_are_no_marks_are_refused_with_their_line(
    tmp_path: Path, raw: Path, content: str, options: dict[str, str], expected: str
) -> None:
    (tmp_path / "list.csv").write_text(content)
    said = refusal(raw, tmp_path / "list.csv", label_columns="A", **options)
    assert re.match(f"list.csv{expected}", said)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"uncertain": "keep"}, "--uncertain needs --label_columns"),
        ({"label_columns": "A", "no_label": "x"}, "--no_label with --label_columns, which are"),
        ({"label_columns": "A", "unlabelled": True}, "--unlabelled with --label_columns, which"),
        ({"label_columns": "A", "label_column": "x"}, "--label_column with --label_columns"),
        ({"label_columns": "A,B,A"}, r"--label_columns A,B,A: expected each column once"),
        (
            {"label_columns": "A,B,a"},
            r"--label_columns A,B,a: expected each column once, in whatever case",
        ),
        ({"label_columns": "A|B"}, r"--label_columns A\|B: expected each column once, .*without"),
        (
            {"label_columns": "A", "uncertain": "maybe"},
            "'--uncertain': 'maybe' is not one of 'keep', ",
        ),
    ],
)
def test_options_that_contradict_label_columns(
    options: dict[str, str], expected: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=f"^{expected}"):
        Folder(listing="list.csv", **options)
    with pytest.raises(UsageError, match=r"^--label_columns needs --listing"):
        Folder(label_columns="A").find(tmp_path, None)


def test_images_are_found_below_where_a_list_names_no_folder(tmp_path: Path) -> None:
    """As HAM10000, APTOS and ISIC have them: ids, and images in one or several folders."""
    raw = tmp_path / "raw"
    for number, name in enumerate(("part_1/a.jpg", "part_2/b.jpg", "part_1/c.jpg", "part_2/c.jpg")):
        (raw / name).parent.mkdir(parents=True, exist_ok=True)
        (raw / name).write_bytes(picture(number))
    (raw / "list.csv").write_text("image_id,dx\na,nv\nb.jpg,mel\nc,nv\n")
    told: list[dataprep.Progress] = []
    dataprep.folder(
        raw,
        tmp_path / "out",
        listing="list.csv",
        path_column="image_id",
        label_column="dx",
        max_bad=1,
        progress=told.append,
    )
    with dataprep.open(tmp_path / "out") as records:
        assert {it.key: it.encoded for it in records} == {
            "a": picture(0),
            "b.jpg": picture(1),  # of c there are two, and neither is more likely
        }
    expected = "images listed without their folder: 2 in the raw data"
    assert expected in [it.message for it in told]


def test_a_list_a_split_of_paths_whose_folders_are_the_labels(tmp_path: Path) -> None:
    """As Food-101 has it: no suffixes either."""
    raw = tmp_path / "raw"
    for number in range(6):
        place = raw / "images" / ("pie", "waffles")[number % 2] / f"{number}.jpg"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(picture(number))
    (raw / "meta").mkdir()
    (raw / "meta" / "train.txt").write_text("pie/0\nwaffles/1\npie/2\nwaffles/3\n")
    (raw / "meta" / "test.txt").write_text("pie/4\nwaffles/5\n")
    told: list[dataprep.Progress] = []
    dataprep.folder(
        raw,
        tmp_path / "out",
        listing=f"{raw}/meta/train.txt,meta/test.txt",
        inside="images",
        progress=told.append,
    )
    found = {}
    for split in ("train", "test"):
        with dataprep.open(tmp_path / "out", split) as records:
            found[split] = {(it.key, it.synset, it.encoded) for it in records}
    assert found["test"] == {("pie/4", "pie", picture(4)), ("waffles/5", "waffles", picture(5))}
    assert {it[:2] for it in found["train"]} == {
        *(("pie/0", "pie"), ("waffles/1", "waffles")),
        *(("pie/2", "pie"), ("waffles/3", "waffles")),
    }
    said = {it.message for it in told}
    assert "train.txt has no labels: the first folder of each path is it" in said


@pytest.mark.parametrize("names", ["a.csv,b.csv", "train.csv,training.csv", "train.csv,x.csv"])
def test_several_lists_are_of_different_splits(names: str, raw: Path) -> None:
    for name in names.split(","):
        write_listing(raw / name, ROWS)
    with pytest.raises(UsageError, match=r"several lists are one of each split; expected names"):
        Folder(listing=names).find(raw, None)
