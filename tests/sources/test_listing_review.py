"""The folder data set with a listing: cells easily misunderstood, and files that are no lines."""

from __future__ import annotations

import json
import os
import re
import tarfile
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from dataprep.errors import SourceError
from dataprep.index import Unmatched
from dataprep.sources.folder import content_hash
from dataprep.sources.folder.dataset import Folder
from dataprep.sources.folder.listing_file import open_listing


@pytest.fixture
def raw(tmp_path):
    (tmp_path / "raw").mkdir()
    for name in ("1.jpg", "2.jpg", "3.jpg"):
        (tmp_path / "raw" / name).write_bytes(b"x")
    return tmp_path / "raw"


def write_csv(path: Path, *lines: str) -> str:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return str(path)


def scan_all(dataset, raw):
    return [dataset.scan(raw, unit) for unit in dataset.find(raw, None).units]


def look_for_all(dataset, raw):
    rows = [row for scan in scan_all(dataset, raw) for own in scan.rows.values() for row in own]
    return list(dataset.missing(raw, None, [row.key for row in rows]))


def refusal(raw, listing, **options):
    with pytest.raises(SourceError) as caught:
        look_for_all(Folder(listing=str(listing), **options), raw)
    assert str(caught.value).isprintable()
    return str(caught.value)


def pack(raw):
    """Put the images into an archive instead."""
    with tarfile.open(raw / "i.tar", "w") as tar:
        for path in sorted(raw.glob("*.jpg")):
            tar.add(path, path.name)
            path.unlink()


# paths


def test_listed_files_may_have_any_suffix(tmp_path, raw):
    names = ["1.bmp", "2.TIF", "3.webp", "4", ".5.jpg"]
    for name in names:
        (raw / name).write_bytes(b"x")
    listing = write_csv(tmp_path / "l.csv", "path,label", *(f"{n},a" for n in [*names, "6.gif"]))

    (scan,) = scan_all(Folder(listing=listing), raw)

    assert [row.key for row in scan.rows["train"]] == sorted(names)
    assert scan.unmatched == [Unmatched("missing", "6.gif", "l.csv", "train")]
    assert not scan.ignored


def test_blanks_round_a_path_mean_nothing(tmp_path, raw):
    listing = write_csv(tmp_path / "l.csv", "path,label", " 1.jpg ,a", "\t2.jpg, b")

    (scan,) = scan_all(Folder(listing=listing), raw)

    assert [row.key for row in scan.rows["train"]] == ["1.jpg", "2.jpg"]
    pack(raw)
    (scan,) = scan_all(Folder(listing=listing), raw)
    assert [row.key for row in scan.rows["train"]] == ["1.jpg", "2.jpg"]
    assert "empty path" in refusal(raw, write_csv(tmp_path / "l.csv", "path,label", "  ,a"))


# zeros and ones


@pytest.mark.parametrize(
    ("cells", "row", "expected"),
    [
        (["0|1|0", "1|0|1"], 1, "label 0 twice in one cell; expected names of classes, not zeros"),
        (["1|0|1", "0|1|1"], 1, "label 1 twice in one cell; expected names of classes, not zeros"),
        (["0|0", "1|0"], 1, "label 0 twice"),
        (["0|1", "1|0"], None, "every cell of label is a 0 and a 1, in either order"),
        (["a|b", "b|a|b"], 2, "label b twice in one cell; expected each class once"),
    ],
)
@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize("packed", [False, True])
def test_zeros_and_ones_are_no_names(tmp_path, raw, cells, row, expected, form, packed):
    if packed:
        pack(raw)
    listing = tmp_path / f"l.{form}"
    header = ["path,label"] if form == "csv" else []
    lines = [f"{number}.jpg,{cell}" for number, cell in enumerate(cells, 1)]
    if form == "jsonl":
        pairs = [line.split(",") for line in lines]
        lines = [json.dumps({"path": path, "label": cell.split("|")}) for path, cell in pairs]
    write_csv(listing, *header, *lines)
    line = "" if row is None else f", line {row + len(header)}"

    assert refusal(raw, listing, label_separator="|").startswith(f"l.{form}{line}: {expected}")


@pytest.mark.parametrize("cells", [["0|1", "0"], ["0|1", "0|1"], ["0|1", "1|0", ""], ["0", "1"]])
def test_zeros_and_ones_may_be_classes(tmp_path, raw, cells):
    lines = [f"{number}.jpg,{cell}" for number, cell in enumerate(cells, 1)]
    listing = write_csv(tmp_path / "l.csv", "path,label", *lines)

    (scan,) = scan_all(Folder(listing=listing, label_separator="|"), raw)

    assert scan.classes == ["0", "1"]


def test_with_a_list_of_classes_zeros_and_ones_are_its_own(tmp_path, raw):
    classes = write_csv(tmp_path / "classes", "zero 0", "one 1")
    listing = write_csv(tmp_path / "l.csv", "path,label", "1.jpg,0|1", "2.jpg,1|0")
    options = {"classes": classes, "label_separator": "|"}

    (scan,) = scan_all(Folder(listing=listing, **options), raw)

    assert [row.labels for row in scan.rows["train"]] == [(0, 1), (0, 1)]
    write_csv(tmp_path / "l.csv", "path,label", "1.jpg,one|1")
    assert "line 2: label one twice in one cell" in refusal(raw, listing, **options)
    write_csv(tmp_path / "l.csv", "path,label", "1.jpg,0|0|1")
    assert "line 2: label 0 twice in one cell; expected names" in refusal(raw, listing, **options)


# sizes


def test_a_column_called_size_may_be_something_else(tmp_path, raw):
    listing = write_csv(tmp_path / "l.csv", "path,label,size,split", "1.jpg,a,large,val")
    hint = "expected a number of bytes; give --size_column '' if that is not a size in bytes;"

    assert hint in refusal(raw, listing)
    assert "--size_column ''" not in refusal(raw, listing, size_column="size")
    (scan,) = scan_all(Folder(listing=listing, size_column=""), raw)
    assert [row.size for row in scan.rows["validation"]] == [1]
    (scan,) = scan_all(Folder(listing=listing, size_column="", split_column=""), raw)
    assert scan.rows.keys() == {"train"}


# files


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("path,label\n1.jpg,a\n".encode("utf-16"), "l.csv is UTF-16; .*save it as UTF-8"),
        ("path,label\n1.jpg,a\n".encode("utf-16-le"), "l.csv is UTF-16 or no text"),
        (b"path,label\r1.jpg,a\r", "l.csv: lines end in CR only, expected LF; save it with LF"),
        ("path,label\n1.jpg,a\n2.jpg,café\n".encode("latin-1"), "l.csv, line 3: caf.udce9 is not"),
        (
            "path,label\n1.jpg,a\né.jpg,b\n".encode("latin-1"),
            "l.csv, line 3: .udce9.jpg is not UTF",
        ),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_files_that_are_no_lines_of_utf8_are_refused(tmp_path, raw, content, expected, packed):
    if packed:
        pack(raw)
    (tmp_path / "l.csv").write_bytes(content)

    assert re.search(expected, refusal(raw, tmp_path / "l.csv"))


def test_damaged_parquet_is_not_a_matter_of_permissions(tmp_path, raw):
    path = tmp_path / "l.parquet"
    parquet.write_table(pa.table([["x" * 50] * 100], ["path"]), path, compression="gzip")
    content = bytearray(path.read_bytes())
    content[4:60] = bytes(56)
    path.write_bytes(content)

    with pytest.raises(SourceError, match=r"l\.parquet is damaged or not a Parquet file: "):
        list(open_listing(path, "parquet").records(0, 1, ("path",)))


def test_another_listing_of_the_same_size_and_time_is_noticed(tmp_path, raw):
    listing = Path(write_csv(tmp_path / "l.csv", "path,label", "1.jpg,a"))
    os.utime(listing, (77, 77))
    dataset = Folder(listing=str(listing))
    (unit,) = dataset.find(raw, None).units
    before = dataset.fingerprint(raw, unit)

    write_csv(listing, "path,label", "1.jpg,b")
    os.utime(listing, (77, 77))

    content_hash._hash.cache_clear()  # as in another process
    assert dataset.fingerprint(raw, unit) != before
