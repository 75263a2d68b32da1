"""The folder data set with a listing: files, archives, splits, groups, and every wrong entry."""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from dataprep.errors import SourceError
from dataprep.index import Unmatched
from dataprep.sources.folder import listing_file, listing_join
from dataprep.sources.folder.dataset import Folder
from dataprep.sources.folder.listing_join import Table

IMAGES = {f"{c}/{n}.jpg": f"{c}{n}".encode() * n for c in "ab" for n in (1, 2, 3)}
ROWS = [
    {"path": path, "label": path[0], "split": "train" if path[2] < "3" else "val"}
    for path in reversed(IMAGES)
]


def write_tar(path: Path, files: dict[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(content), 77
            tar.addfile(info, io.BytesIO(content))


def write_tree(raw: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (raw / name).parent.mkdir(parents=True, exist_ok=True)
        (raw / name).write_bytes(content)
        os.utime(raw / name, (77, 77))


def write_listing(path: Path, rows: list[dict[str, object]]) -> str:
    """A listing of the format that its suffix says."""
    columns = list(rows[0])
    if path.suffix == ".parquet":
        arrays = [[row[name] for row in rows] for name in columns]
        parquet.write_table(pa.table(arrays, columns), path, row_group_size=4)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        delimiter = {".csv": ",", ".tsv": "\t"}[path.suffix]
        lines = [columns, *(map(str, row.values()) for row in rows)]
        path.write_text("".join(delimiter.join(line) + "\n" for line in lines))
    return str(path)


@pytest.fixture
def raw(tmp_path):
    write_tree(tmp_path / "raw", IMAGES)
    return tmp_path / "raw"


def scan_all(dataset, raw):
    return [dataset.scan(raw, unit) for unit in dataset.find(raw, None).units]


def labels_of(raw, **options):
    found = {}
    for scan in scan_all(Folder(**options), raw):
        for split, rows in scan.rows.items():
            assert [row.key for row in rows] == sorted(row.key for row in rows)
            for row in rows:
                assert row.key not in found.setdefault(split, {})
                found[split][row.key] = tuple(scan.classes[label] for label in row.labels)
    return found


def refusal(raw, listing, **options):
    with pytest.raises(SourceError) as caught:
        scan_all(Folder(listing=str(listing), **options), raw)
    assert "\n" not in str(caught.value)
    return str(caught.value)


EXPECTED = {
    "train": {f"{c}/{n}.jpg": (c,) for c in "ab" for n in (1, 2)},
    "validation": {f"{c}/3.jpg": (c,) for c in "ab"},
}


def as_files(raw):
    write_tree(raw, IMAGES)


def as_one_tar(raw):
    write_tar(raw / "images.tar", IMAGES)


def as_class_tars(raw):
    for name in "ab":
        own = {key[2:]: content for key, content in IMAGES.items() if key[0] == name}
        write_tar(raw / f"{name}.tar", own)


def as_tar_and_folder(raw):
    write_tar(raw / "some.tar", {key: data for key, data in IMAGES.items() if key[0] == "a"})
    write_tree(raw, {key: data for key, data in IMAGES.items() if key[0] == "b"})


LAYOUTS = [as_files, as_one_tar, as_class_tars, as_tar_and_folder]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_format_and_layout_give_the_same(tmp_path, suffix, layout):
    layout(tmp_path / "raw")
    listing = write_listing(tmp_path / f"list.{suffix}", ROWS)

    assert labels_of(tmp_path / "raw", listing=listing) == EXPECTED


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_say_where_the_bytes_are(tmp_path, layout):
    layout(tmp_path / "raw")
    listing = write_listing(tmp_path / "list.csv", ROWS)

    for scan in scan_all(Folder(listing=listing), tmp_path / "raw"):
        for row in (*scan.rows.get("train", ()), *scan.rows.get("validation", ())):
            with (tmp_path / "raw" / row.container).open("rb") as file:
                file.seek(row.offset)
                assert file.read(row.size) == IMAGES[row.key]
            assert row.modified == 77
            assert row.group == row.key  # no image may be listed in two splits


def test_a_listing_is_scanned_in_pieces(tmp_path, raw, monkeypatch):
    listing = write_listing(tmp_path / "list.csv", ROWS)
    monkeypatch.setattr(listing_file, "PIECE", 20)
    monkeypatch.setattr(listing_file.LineListing.__init__, "__defaults__", (20,))
    dataset = Folder(listing=listing)

    found = dataset.find(raw, None)

    assert len(found.units) > 3
    assert len({unit.name for unit in found.units}) == len(found.units)
    assert labels_of(raw, listing=listing) == EXPECTED


def test_plain_lines_as_caffe_and_places_have_them(tmp_path, raw):
    (tmp_path / "list.txt").write_text("/a/1.jpg 10\n./b/2.jpg 9\na//3.jpg 10\n")

    assert labels_of(raw, listing=str(tmp_path / "list.txt"), split_name="val") == {
        "validation": {"a/1.jpg": ("10",), "a/3.jpg": ("10",), "b/2.jpg": ("9",)}
    }


def test_listed_sizes_are_trusted_and_nothing_is_looked_up(tmp_path):
    (tmp_path / "raw").mkdir()
    rows = [{"path": "gone.jpg", "label": 3, "bytes": 12, "size": 99}]
    listing = write_listing(tmp_path / "list.csv", rows)

    (scan,) = scan_all(Folder(listing=listing, size_column="bytes"), tmp_path / "raw")
    (row,) = scan.rows["train"]
    assert (row.size, row.modified, row.container) == (12, 0, "gone.jpg")
    (scan,) = scan_all(Folder(listing=listing), tmp_path / "raw")
    assert scan.rows["train"][0].size == 99


def test_columns_may_have_other_names(tmp_path, raw):
    rows = [{"split": "?", "file": "a/1.jpg", "kind": "x", "part": "Test", "label": "no"}]
    listing = write_listing(tmp_path / "list.csv", rows)

    assert labels_of(
        raw, listing=listing, path_column="file", label_column="kind", split_column="part"
    ) == {"test": {"a/1.jpg": ("x",)}}


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_separator_makes_it_multi_label(tmp_path, raw, suffix):
    rows = [
        {"path": "a/1.jpg", "label": "cat|dog"},
        {"path": "a/2.jpg", "label": ""},
        {"path": "a/3.jpg", "label": "dog | ant"},
    ]
    listing = write_listing(tmp_path / f"list.{suffix}", rows)
    dataset = Folder(listing=listing, label_separator="|")

    (scan,) = scan_all(dataset, raw)

    assert dataset.multilabel
    assert scan.classes == ["ant", "cat", "dog"]
    assert {row.key: row.labels for row in scan.rows["train"]} == {
        "a/1.jpg": (1, 2),
        "a/2.jpg": (),
        "a/3.jpg": (0, 2),
    }
    if suffix == "csv":
        assert not Folder(listing=listing).multilabel
        assert "empty label" in refusal(raw, listing)


def test_several_labels_without_a_separator_are_one(tmp_path, raw):
    listing = write_listing(tmp_path / "list.csv", [{"path": "a/1.jpg", "label": "cat|dog"}])

    assert labels_of(raw, listing=listing) == {"train": {"a/1.jpg": ("cat|dog",)}}


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_lists_of_labels_need_the_option(tmp_path, raw, suffix):
    rows = [{"path": "a/1.jpg", "label": ["b", "a"]}, {"path": "a/2.jpg", "label": []}]
    listing = write_listing(tmp_path / f"list.{suffix}", rows)

    assert labels_of(raw, listing=listing, label_separator=",") == {
        "train": {"a/1.jpg": ("a", "b"), "a/2.jpg": ()}
    }
    assert "found a list of labels" in refusal(raw, listing)


def test_labels_may_be_identifiers_or_numbers_of_the_list_of_classes(tmp_path, raw):
    (tmp_path / "classes.txt").write_text("/x/one 1\n/x/zero 0\n")
    (tmp_path / "list.txt").write_text("a/1.jpg 1\na/2.jpg /x/zero\na/3.jpg x/one\n")
    options = {"listing": str(tmp_path / "list.txt"), "classes": str(tmp_path / "classes.txt")}

    (scan,) = scan_all(Folder(**options), raw)

    assert scan.classes is None
    assert [row.labels for row in scan.rows["train"]] == [(1,), (0,), (1,)]
    (tmp_path / "list.txt").write_text("a/1.jpg 1\na/2.jpg 2\n")
    message = refusal(raw, **options)
    assert message.startswith("list.txt, line 2: unknown label 2, expected the classes of ")


def test_places_as_published_has_the_same_labels_in_both_splits(tmp_path):
    files = {"data/a/airfield/1.jpg": b"1", "data/b/beach/house/1.jpg": b"2"}
    write_tar(tmp_path / "t/large.tar", files)
    write_tar(tmp_path / "v/val.tar", {"val/P_1.jpg": b"1", "val/P_2.jpg": b"2"})
    (tmp_path / "classes.txt").write_text("/a/airfield 0\n/a/alley 1\n/b/beach/house 2\n")
    (tmp_path / "val.txt").write_text("P_1.jpg 2\nP_2.jpg 1\n")
    classes = str(tmp_path / "classes.txt")
    train = Folder(inside="data", class_from="path", classes=classes)
    validation = Folder(
        inside="val", listing=str(tmp_path / "val.txt"), classes=classes, split_name="validation"
    )

    (trained,) = scan_all(train, tmp_path / "t")
    (validated,) = scan_all(validation, tmp_path / "v")

    assert [(row.key, row.labels) for row in trained.rows["train"]] == [
        ("a/airfield/1.jpg", (0,)),
        ("b/beach/house/1.jpg", (2,)),
    ]
    assert [(row.key, row.labels) for row in validated.rows["validation"]] == [
        ("P_1.jpg", (2,)),
        ("P_2.jpg", (1,)),
    ]
    assert train.classes() == validation.classes()
    assert not validated.unmatched


def test_what_is_missing_or_no_image_is_told(tmp_path, raw):
    (raw / "a/note.txt").touch()
    (raw / "dir.jpg").mkdir()
    paths = ["a/1.jpg", "a/gone.jpg", "a/1.jpg/x.jpg", "a/note.txt", "dir.jpg"]
    rows = [{"path": path, "label": "l", "split": "val"} for path in paths]
    listing = write_listing(tmp_path / "list.csv", rows)

    (scan,) = scan_all(Folder(listing=listing), raw)

    assert [row.key for row in scan.rows["validation"]] == ["a/1.jpg", "a/note.txt"]
    assert scan.unmatched == [
        Unmatched("missing", "a/gone.jpg", "list.csv", "validation"),
        Unmatched("missing", "a/1.jpg/x.jpg", "list.csv", "validation"),
    ]
    assert [(entry.name, entry.reason[:12]) for entry in scan.ignored] == [
        ("dir.jpg", "not a regula"),
    ]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_archives_and_listing_are_told_apart_where_they_differ(tmp_path, suffix):
    write_tar(tmp_path / "raw/i.tar", {"a/1.jpg": b"1", "a/2.jpg": b"2"})
    paths = {"a/1.jpg": "train", "a/9.jpg": "train", "a/8.jpg": "test"}
    rows = [{"path": path, "label": "l", "split": split} for path, split in paths.items()]
    dataset = Folder(listing=write_listing(tmp_path / f"list.{suffix}", rows))

    (scan,) = scan_all(dataset, tmp_path / "raw")
    present = [row.key for row in scan.rows["train"]]

    assert present == ["a/1.jpg"]
    assert scan.unmatched == [Unmatched("unlisted", "a/2.jpg", "i.tar")]
    where = f"list.{suffix}"
    absent = list(dataset.missing(tmp_path / "raw", None, iter(present)))
    assert absent == [
        Unmatched("missing", "a/9.jpg", where, "train"),
        Unmatched("missing", "a/8.jpg", where, "test"),
    ]
    assert list(dataset.missing(tmp_path / "raw", ["test"], iter(present))) == absent[1:]


def test_missing_files_are_not_told_twice(tmp_path, raw):
    listing = write_listing(tmp_path / "list.csv", [{"path": "gone.jpg", "label": "l"}])

    assert list(Folder(listing=listing).missing(raw, None, iter(()))) == []


def test_bare_names_match_wherever_an_image_lies(tmp_path):
    write_tar(tmp_path / "raw/i.tar", {"deep/down/1.jpg": b"1", "2.jpg": b"2"})
    rows = [{"path": "1.jpg", "label": "x"}, {"path": "2.jpg", "label": "y"}]
    listing = write_listing(tmp_path / "list.csv", rows)

    assert labels_of(tmp_path / "raw", listing=listing) == {
        "train": {"1.jpg": ("x",), "2.jpg": ("y",)}
    }


def test_two_images_of_one_entry_are_refused(tmp_path):
    write_tar(tmp_path / "raw/i.tar", {"a/1.jpg": b"1", "b/1.jpg": b"2"})
    listing = write_listing(tmp_path / "list.csv", [{"path": "1.jpg", "label": "x"}])

    assert "two images have the same name, 1.jpg" in refusal(tmp_path / "raw", listing)


@pytest.mark.parametrize("form", ["files", "tar"])
def test_listed_paths_start_inside(tmp_path, form):
    files = {"data/large/a/1.jpg": b"1", "other/a/1.jpg": b"2"}
    raw = tmp_path / "raw"
    write_tree(raw, files) if form == "files" else write_tar(raw / "i.tar", files)
    (tmp_path / "list.txt").write_text("/a/1.jpg 0\n")

    (scan,) = scan_all(Folder(listing=str(tmp_path / "list.txt"), inside="data/large"), raw)

    (row,) = scan.rows["train"]
    assert (row.key, row.size) == ("a/1.jpg", 1)
    assert not scan.unmatched


FRACTIONS = "train=0.5,validation=0.25,test=0.25"


@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["p 1", "p2", "é"])), max_size=30),
    st.sampled_from(["patient", "folder"]),
)
def test_a_group_is_never_in_two_splits(tmp_path_factory, images, group_by):
    raw = tmp_path_factory.mktemp("raw")
    rows = [
        {"path": f"{folder}/{at}.jpg", "label": "l", "patient": patient, "size": 1}
        for at, (folder, patient) in enumerate([*images, (0, "p2")])
    ]
    listing = write_listing(raw / "list.csv", rows)

    splits: dict[str, set[str]] = {}
    for scan in scan_all(Folder(listing=listing, fractions=FRACTIONS, group_by=group_by), raw):
        for split, found in scan.rows.items():
            for row in found:
                splits.setdefault(row.group, set()).add(split)
    assert all(len(places) == 1 for places in splits.values())
    if group_by == "patient":
        assert splits.keys() == {row["patient"] for row in rows}


def test_groups_are_kept_for_checking_where_the_listing_tells_the_splits(tmp_path, raw):
    rows = [{"path": "a/1.jpg", "label": "l", "split": "dev-2", "patient": 7}]
    listing = write_listing(tmp_path / "list.jsonl", rows)

    (scan,) = scan_all(Folder(listing=listing, group_by="patient"), raw)

    assert [row.group for row in scan.rows["dev-2"]] == ["7"]


@pytest.mark.parametrize("layout", [as_files, as_one_tar])
def test_files_and_archives_are_cut_alike(tmp_path, layout):
    layout(tmp_path / "raw")
    as_files(tmp_path / "other")
    rows = [{"path": row["path"], "label": row["label"]} for row in ROWS]
    listing = write_listing(tmp_path / "list.csv", rows)
    options = {"listing": listing, "fractions": FRACTIONS}

    found = labels_of(tmp_path / "raw", **options)

    assert found == labels_of(tmp_path / "other", **options)
    assert Folder(**options).find(tmp_path / "raw", None).splits == ("train", "validation", "test")


@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        (
            "file,label\n",
            {},
            "has no column path, expected one; it has file, label; name the right",
        ),
        ("path,kind\n", {}, "no column label, expected one; .*--label_column"),
        ("path,label\n", {"split_column": "part"}, "no column part.*--split_column"),
        ("path,label\n", {"size_column": "bytes"}, "no column bytes.*--size_column"),
        ("path,label\n", {"group_by": "patient"}, "no column patient.*--group_by"),
        ("path,label,label\n", {}, "has 2 columns label"),
        ("path,label,split\n", {"fractions": FRACTIONS}, "has a column split, and --fractions"),
        ("path,label\na/1.jpg,x\n,x\n", {}, "list.csv, line 3: empty path"),
        ("path,label\na/1.jpg,x\n/./,x\n", {}, "list.csv, line 3: empty path"),
        ("path,label\n../../x.jpg,x\n", {}, "line 2: path with .. in it"),
        ("path,label\na/1.jpg,\n", {}, "line 2: empty label.*--label_separator"),
        ("path,label\na/1.jpg,x||y\n", {"label_separator": "|"}, "line 2: empty label"),
        ("path,label,split\na/1.jpg,x,\n", {}, "line 2: empty split"),
        ("path,label,split\na/1.jpg,x,a b\n", {}, "line 2: split a b: a split's name"),
        ("path,label,size\na/1.jpg,x,1.5\n", {}, "line 2: size 1.5, expected a number of bytes"),
        ("path,label,size\na/1.jpg,x,\n", {}, "line 2: size missing"),
        ("path,label,who\na/1.jpg,x, \n", {"group_by": "who"}, "line 2: empty who"),
        ("path,label\na/1.jpg,x\nb/1.jpg,x\n./a/1.jpg,y\n", {}, "line 4: a/1.jpg is already .* 2;"),
    ],
)
@pytest.mark.parametrize("layout", [as_files, as_one_tar])
def test_wrong_entries_are_refused_with_their_line(tmp_path, layout, content, options, expected):
    layout(tmp_path / "raw")
    (tmp_path / "list.csv").write_text(content)

    message = refusal(tmp_path / "raw", tmp_path / "list.csv", **options)

    assert message.startswith("list.csv")
    assert re.search(expected, message)


def test_a_listing_of_nothing_is_refused(tmp_path, raw):
    (tmp_path / "list.csv").write_text("path,label\n")

    assert "list.csv lists no images" in refusal(raw, tmp_path / "list.csv")


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"path": 7, "label": 1}, "line 1: found a path of type int"),
        ({"path": "a/1.jpg", "label": True}, "found True of type bool"),
        ({"path": "a/1.jpg", "label": 1.5}, "found 1.5 of type float"),
        ({"path": "a/1.jpg", "label": {}}, "of type dict"),
        ({"path": "a/1.jpg", "label": None}, "empty label"),
        ({"path": "a/\0.jpg", "label": 1}, "path with a NUL character"),
        ({"path": "a/1.jpg", "label": [["x"]]}, "of type list"),
    ],
)
def test_values_that_are_no_text_are_refused(tmp_path, raw, row, expected):
    listing = write_listing(tmp_path / "list.jsonl", [row])
    separator = {"label_separator": "|"} if row["label"] == [["x"]] else {}

    assert expected in refusal(raw, listing, **separator)


@pytest.mark.parametrize(
    ("row", "options"),
    [
        ({"path": "0\ud800.jpg", "label": "a"}, {}),
        ({"path": "0\udcc3\udca9.jpg", "label": "a"}, {}),  # as bytes it would be 0\xe9.jpg
        ({"path": "a/1.jpg", "label": "a\ud800"}, {}),
        ({"path": "a/1.jpg", "label": ["a", "\udfff"]}, {"label_separator": "|"}),
        ({"path": "a/1.jpg", "label": "a|\udfff"}, {"label_separator": "|"}),
        ({"path": "a/1.jpg", "label": "a", "split": "\ud800"}, {}),
        ({"path": "a/1.jpg", "label": "a", "who": "\ud800"}, {"group_by": "who"}),
    ],
)
@pytest.mark.parametrize("layout", [as_files, as_one_tar])
def test_text_that_no_bytes_stand_for_is_refused(tmp_path, layout, row, options):
    layout(tmp_path / "raw")
    first = {**dict.fromkeys(row, "a"), "path": "a/2.jpg"}
    listing = write_listing(tmp_path / "list.jsonl", [first, row])

    message = refusal(tmp_path / "raw", listing, **options)

    assert message.startswith("list.jsonl, line 2: found ")
    assert "which has half of a surrogate pair in it, expected text" in message
    assert message.isprintable()


def test_paths_may_be_bytes_that_are_no_utf8(tmp_path, raw):
    write_tree(raw, {"a/\udce9.jpg": b"1"})
    row = {"path": "a/\udce9.jpg", "label": "c"}
    listing = write_listing(tmp_path / "list.jsonl", [row])

    assert labels_of(raw, listing=listing) == {"train": {"a/\udce9.jpg": ("c",)}}


def test_whole_numbers_with_a_point_are_labels(tmp_path, raw):
    listing = write_listing(tmp_path / "list.jsonl", [{"path": "a/1.jpg", "label": 3.0}])

    assert labels_of(raw, listing=listing) == {"train": {"a/1.jpg": ("3",)}}


def test_a_fingerprint_changes_with_the_listing(tmp_path, raw):
    listing = write_listing(tmp_path / "list.csv", ROWS)
    dataset = Folder(listing=listing)
    (unit,) = dataset.find(raw, None).units
    before = dataset.fingerprint(raw, unit)

    assert dataset.fingerprint(raw, unit) == before
    write_listing(tmp_path / "list.csv", ROWS[:-1])
    assert dataset.fingerprint(raw, unit) != before


def test_a_fingerprint_has_the_format_of_the_listing(tmp_path, raw):
    listing = write_listing(tmp_path / "list.csv", ROWS)
    (unit,) = Folder(listing=listing).find(raw, None).units

    def fingerprint(**options):
        return Folder(listing=listing, **options).fingerprint(raw, unit)

    assert fingerprint(listing_format="csv") == fingerprint()
    assert fingerprint(listing_format="tsv") != fingerprint()


def test_a_table_is_made_once_until_the_listing_changes(tmp_path, monkeypatch):
    as_class_tars(tmp_path / "raw")
    listing = write_listing(tmp_path / "list.csv", ROWS)
    made, make_table = [], listing_join.make_table
    monkeypatch.setattr(listing_join, "make_table", lambda e: made.append(1) or make_table(e))

    labels_of(tmp_path / "raw", listing=listing)
    labels_of(tmp_path / "raw", listing=listing)
    assert len(made) == 1
    write_listing(tmp_path / "list.csv", ROWS[:-1])
    labels_of(tmp_path / "raw", listing=listing)
    assert len(made) == 2


@given(
    st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3))),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3))),
)
def test_hashes_that_share_a_half_are_told_apart(listed, wanted):
    pairs = sorted(listed)
    table = Table(
        np.array([high for high, _ in pairs], dtype=np.uint64),
        np.array([low for _, low in pairs], dtype=np.uint64),
        np.arange(len(pairs)),
        bare=False,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing_join, "key_hash", lambda pair: np.array(pair, "u8").tobytes())
        places = table.find(wanted)

    assert places.tolist() == [pairs.index(pair) if pair in listed else -1 for pair in wanted]
