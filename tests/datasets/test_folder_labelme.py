"""LabelMe's files as its version 5 writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dataprep.errors import SourceError
from tests.datasets.test_folder_annotated import images, tree, voc
from tests.datasets.test_folder_published import stored


def shape(label: str, kind: str, *points: tuple[float, float]) -> dict[str, Any]:
    return {
        "label": label,
        "points": [list(point) for point in points],
        "group_id": None,
        "description": "",
        "shape_type": kind,
        "flags": {},
        "mask": None,
    }


def labelme(path: str, *shapes: dict[str, Any], **others: Any) -> str:
    said: dict[str, Any] = {"version": "5.4.1", "flags": {}, "shapes": shapes, "imagePath": path}
    said |= {"imageData": "/9j/4AAQ", "imageHeight": 12, "imageWidth": 16}
    return json.dumps(said | others, indent=2)


RECTANGLE = shape("cat", "rectangle", (12, 9), (4, 3))  # drawn from below
POLYGON = shape("dog", "polygon", (0, 6), (4, 6), (2, 12))
CIRCLE = shape("cat", "circle", (8, 6), (8, 9))
LINE = shape("leash", "linestrip", (1, 1), (2, 2), (3, 1))


@pytest.mark.parametrize(
    ("folder", "beside", "path"),
    [("photos", "photos", "{}.jpg"), ("labels", "images", "..\\images\\{}.jpg")],
)
def test_shapes_are_boxes(folder: str, beside: str, path: str, tmp_path: Path) -> None:
    raw = tree(
        tmp_path / "raw",
        *images(beside, "a.jpg", "b.jpg", "c.jpg"),
        (f"{folder}/a.json", labelme(path.format("a"), RECTANGLE, POLYGON)),
        (f"{folder}/b.json", labelme(path.format("b"), CIRCLE, LINE)),
        (f"{folder}/c.json", labelme(path.format("c"))),
    )
    found, told = stored(raw, tmp_path / "out", "train", listing=folder)
    boxes = [[0.25, 0.25, 0.75, 0.75], [0, 0.5, 0.25, 1]]
    assert found == {
        ("train", "a.jpg"): (["cat", "dog"], boxes, ["cat", "dog"]),
        ("train", "b.jpg"): (["cat", "leash"], [[0.3125, 0.25, 0.6875, 0.75]], ["cat"]),
        ("train", "c.jpg"): ([], []),
    }
    assert "outlines of objects, of which the box is kept: 2 in the raw data" in told
    assert "(lines, points), of which the class alone is kept: 1 in the raw data" in told
    assert f"annotated in {folder}/*.json: 3 images, 3 classes" in told


def test_folders_tell_splits(tmp_path: Path) -> None:
    raw = tree(
        tmp_path / "raw",
        *images("train", "a.jpg"),
        *images("val", "b.jpg"),
        ("train/a.json", labelme("a.jpg", RECTANGLE)),
        ("val/b.json", labelme("b.jpg", POLYGON)),
    )
    found, _ = stored(raw, tmp_path / "out", "train", "validation", listing="train,val")
    assert [labels for labels, *_ in found.values()] == [["cat"], ["dog"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", r"photos/a\.json is none of LabelMe's: .*shapes"),
        (labelme("a.jpg", shape("cat", "rectangle", (1, 1))), "a rectangle of 1 points, called"),
        (
            labelme("a.jpg", shape(" ", "polygon", (1, 1), (2, 3))),
            "expected two or more, and a label",
        ),
        (labelme("a.jpg", RECTANGLE, imageWidth=None), "0 x 12 pixels; expected its width"),
    ],
)
def test_what_is_none_of_labelme_is_refused(text: str, message: str, tmp_path: Path) -> None:
    raw = tree(tmp_path / "raw", *images("photos", "a.jpg"), ("photos/a.json", text))
    with pytest.raises(SourceError, match=message):
        stored(raw, tmp_path / "out", listing="photos")


def test_files_of_two_tools_are_not_mixed(tmp_path: Path) -> None:
    raw = tree(
        tmp_path / "raw",
        *images("photos", "a.jpg", "b.jpg"),
        ("photos/a.json", labelme("a.jpg", RECTANGLE)),
        ("photos/b.xml", voc("b.jpg")),
    )
    with pytest.raises(SourceError, match=r"photos has \.xml, as Pascal VOC, and \.json"):
        stored(raw, tmp_path / "out", listing="photos")
