"""Listings with several rows of one image: a row a label, a row a caption, a row a box."""

from __future__ import annotations

import io
import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from dataprep.datasets.folder import listing as listing_module
from dataprep.datasets.folder.dataset import Folder
from dataprep_schemas.fields import BOXES
from tests.conftest import Cli, everyday, rows_of
from tests.datasets.test_folder import write_archive, write_tree
from tests.datasets.test_folder_listing import FORMATS, index, refusal, write_listing


def jpeg(width: int, height: int, orientation: int = 1) -> bytes:
    file = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.new("RGB", (width, height), (9, 99, 200)).save(file, "JPEG", exif=exif)
    return file.getvalue()


IMAGES = {"0.jpg": jpeg(40, 20), "1.jpg": jpeg(40, 20), "2.jpg": jpeg(40, 20, 6)}


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    write_tree(tmp_path / "raw", IMAGES)
    return tmp_path / "raw"


# A reader of rows does not know what is made of them; what makes it does not know the reader.
@pytest.mark.parametrize(
    ("suffix", "rows_at_once"),
    everyday(
        [("csv", 1), ("jsonl", 2), ("parquet", 100), ("tsv", 2)], [*product(FORMATS, (1, 2, 100))]
    ),
)
def test_rows_of_one_image_are_joined_where_an_option_says_so(
    tmp_path: Path, raw: Path, suffix: str, rows_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing_module, "_ROWS", rows_at_once)
    rows = [
        {"path": path, "label": label, "text": text, "age": 3}
        for path, label, text in (
            ("1.jpg", "dog", "one"),
            ("0.jpg", "cat|ant", "two"),
            ("1.jpg", "cat", ""),
            ("./1.jpg", "dog", "three, four"),
        )
    ]
    listing = write_listing(tmp_path / f"l.{suffix}", rows)
    options = {"label_separator": "|", "caption_column": "text", "attribute_columns": "age"}

    found = index(raw, listing, **options)["image"]

    said = {row["key"]: (row["labels"], row["captions"], row["age"]) for row in found}
    assert said == {
        "0.jpg": (["ant", "cat"], ["two"], 3),
        "1.jpg": (["cat", "dog"], ["one", "three, four"], 3),
    }
    assert len(found) == 2


def test_what_is_wrong_with_a_row_names_its_line_also_where_rows_are_joined(
    tmp_path: Path, raw: Path
) -> None:
    (tmp_path / "l.csv").write_text("path,label\n1.jpg,a\n0.jpg,b\n1.jpg,a||b\n")
    assert "l.csv, line 4: label a||b: empty" in refusal(
        raw, tmp_path / "l.csv", label_separator="|"
    )


@pytest.mark.parametrize(
    ("rows", "options", "said"),
    [
        ("0.jpg,cat\n0.jpg,dog\n", (), "with the labels cat, dog; .*, --label_separator joins"),
        ("0.jpg,cat\n0.jpg,cat\n", (), "expected each image once; remove one, if they say the"),
        ("0.jpg,cat\n0.jpg,dog\n", ("--label_separator", "|"), ""),
        ("0.jpg,cat\n0.jpg,cat\n", ("--label_separator", "|"), ""),
    ],
)
def test_nobody_is_told_to_remove_a_label(
    cli: Cli, tmp_path: Path, raw: Path, rows: str, options: tuple[str, ...], said: str
) -> None:
    (tmp_path / "l.csv").write_text(f"path,label\n1.jpg,cat\n{rows}")
    words = ("folder", "--raw", raw, "--out", tmp_path / "out", "--listing", tmp_path / "l.csv")

    result = cli(*words, "--workers", "1", "--dry_run", *options)

    assert result.code == bool(said), result
    if said:
        assert re.search(f"l.csv lists 0.jpg twice.*{said}", result.err)
    else:
        assert "rows joined with another one of the same image: 1 in the raw data" in result.out


def boxes(row: dict[str, Any]) -> list[tuple[float, ...]]:
    return [tuple(round(side, 6) for side in box) for box in row.get("boxes") or ()]


PIXELS = [(0, "cat", 4, 2, 20, 10), (1, "dog", 0, 0, 40, 20), (0, "dog", 30, 0, 60, 20)]
FRACTIONS = [(0.1, 0.1, 0.5, 0.5), (0.75, 0.0, 1.0, 1.0)]


@pytest.mark.parametrize(
    ("suffix", "form"),
    everyday(
        [("csv", "retinanet"), ("jsonl", "tensorflow"), ("parquet", "openimages")],
        [*product(FORMATS, ("retinanet", "tensorflow", "openimages"))],
    ),
)
def test_a_row_a_box(tmp_path: Path, raw: Path, suffix: str, form: str) -> None:
    rows = []
    for at, label, x1, y1, x2, y2 in PIXELS:
        places: dict[str, dict[str, object]] = {
            "retinanet": {"x1": x1, "y1": y1, "x2": x2, "y2": y2},
            "tensorflow": {  # of a picture twice as large
                "width": 80,
                "height": 40,
                "xmin": 2 * x1,
                "ymin": 2 * y1,
                "xmax": 2 * x2,
                "ymax": 2 * y2,
            },
            "openimages": {"XMin": x1 / 40, "XMax": x2 / 40, "YMin": y1 / 20, "YMax": y2 / 20},
        }
        path = f"{at}" if form == "openimages" else f"{at}.jpg"
        rows.append({**places[form], "path": path, "label": label, "age": 4})
    listing = write_listing(tmp_path / f"l.{suffix}", rows)
    dataset = Folder(listing=listing, attribute_columns="all")
    searched = dataset.find(raw, None)
    counts = dataset.scan(raw, searched, searched.units[0]).counts

    found = {row["key"].split(".")[0]: row for row in index(raw, listing)["image"]}

    assert (searched.multilabel, BOXES in searched.fields) == (True, True)
    assert [it.name for it in searched.fields[2:] if it.name != "Source"] == ["age"]
    assert (found["0"]["labels"], found["0"]["box_labels"]) == (["cat", "dog"], ["cat", "dog"])
    assert boxes(found["0"]) == FRACTIONS
    assert (found["1"]["box_labels"], boxes(found["1"])) == (["dog"], [(0.0, 0.0, 1.0, 1.0)])
    assert not counts  # until the tables are read
    write_archive(tmp_path / "packed/i.tar", IMAGES)
    listed = index(tmp_path / "packed", listing)["listed"]
    expected = [FRACTIONS, [(0, 0, 1, 1)]]
    assert [*map(boxes, listed)] == ([[]] * 3 if form == "retinanet" else expected)


def test_boxes_of_one_class_an_image_leave_it_one(tmp_path: Path, raw: Path) -> None:
    rows = "0.jpg,cat,4,2,20,10\n0.jpg,cat,0,0,20,10\n1.jpg,dog,0,0,40,20\n"
    (tmp_path / "l.csv").write_text(f"path,label,bbox_x1,bbox_y1,bbox_x2,bbox_y2\n{rows}")
    dataset = Folder(listing=str(tmp_path / "l.csv"))
    searched = dataset.find(raw, None)
    assert (searched.multilabel, BOXES in searched.fields) == (False, True)
    found = index(raw, tmp_path / "l.csv")["image"]
    assert [len(boxes(row)) for row in found] == [2, 1]
    assert "box_labels" not in found[0]


def test_what_has_no_box_is_a_label_and_what_has_none_too_an_image(
    cli: Cli, tmp_path: Path, raw: Path
) -> None:
    rows = "0.jpg,cat,9,9,1,1\n0.jpg,No finding,,,,\n1.jpg,dog,nan,nan,nan,nan\n2.jpg,dog,1,1,9,9\n"
    (tmp_path / "l.csv").write_text(f"path,label,x_min,y_min,x_max,y_max\n{rows}")
    words = ("folder", "--raw", raw, "--out", tmp_path / "out", "--listing", tmp_path / "l.csv")

    result = cli(*words, "--workers", "1", "--no_label", "No finding")

    assert result.code == 0, result
    for said in (
        "boxes from x_min, y_min, x_max, y_max, in pixels of files\n",
        "boxes without an area, left out: 1 in the raw data",
        "boxes left out, since their image is turned by EXIF, or its size is unknown: 1 in the raw",
    ):
        assert said in result.out
    found = {row["key"]: (row["labels"], row["boxes"]) for row in rows_of(tmp_path / "out")}
    assert found == {"0.jpg": ([0], None), "1.jpg": ([1], None), "2.jpg": ([1], None)}


@pytest.mark.parametrize("cells", ["cat,1,2,?,4", "cat,1,2,,4", ",1,2,3,4", "cat,1,2,inf,4"])
def test_what_is_no_box_is_refused_with_its_line(tmp_path: Path, raw: Path, cells: str) -> None:
    (tmp_path / "l.csv").write_text(f"path,label,x1,y1,x2,y2\n1.jpg,a,1,1,9,9\n0.jpg,{cells}\n")
    assert "l.csv, line 3: box: expected four numbers and one" in refusal(raw, tmp_path / "l.csv")


@pytest.mark.parametrize("column", ["objects", "bbox", "Segmentation", "EncodedPixels", "subset"])
def test_columns_that_nobody_reads_are_said(tmp_path: Path, raw: Path, column: str) -> None:
    listing = write_listing(
        tmp_path / "l.jsonl", [{"path": "0.jpg", column: {"bbox": [[1, 2, 3, 4]], "category": [0]}}]
    )
    what = "splits; --split" if column == "subset" else "boxes or masks; boxes are read"
    said = Folder(listing=listing, unlabelled=True).find(raw, None).description
    expected = f"l.jsonl: {column} left out: it may have {what}"
    assert [line for line in said if line.startswith(expected)]
    kept = Folder(listing=listing, unlabelled=True, attribute_columns=column).find(raw, None)
    assert not [line for line in kept.description if "left out" in line]
