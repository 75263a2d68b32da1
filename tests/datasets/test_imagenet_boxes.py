"""Bounding boxes of ILSVRC2012, from slim's CSV."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataprep.datasets import ImageNet
from dataprep.datasets.imagenet.dataset import read_bounding_boxes
from dataprep.errors import SourceError


def test_bounding_boxes(tmp_path: Path) -> None:
    path = tmp_path / "boxes.csv"
    path.write_text("a.JPEG,0.1,0.2,0.3,0.4\nb.JPEG,0,0,1,1\na.JPEG,0.5,0.5,0.5,0.5\n")
    assert read_bounding_boxes(path) == {
        "a.JPEG": ((0.1, 0.2, 0.3, 0.4), (0.5, 0.5, 0.5, 0.5)),
        "b.JPEG": ((0.0, 0.0, 1.0, 1.0),),
    }


@pytest.mark.parametrize(
    "line", ["a.JPEG,0,0,1", "a.JPEG,0,0,1,2", "a.JPEG,0.5,0,0.4,1", "name,xmin,ymin,xmax,ymax"]
)
def test_a_line_that_is_no_box_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "boxes.csv"
    path.write_text(f"a.JPEG,0,0,1,1\n{line}\n")
    with pytest.raises(SourceError, match="line 2"):
        read_bounding_boxes(path)


def test_a_missing_box_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"--bbox_csv .*none\.csv"):
        read_bounding_boxes(tmp_path / "none.csv")


def test_boxes_are_part_of_the_index(raw, tmp_path: Path) -> None:
    raw.train_tree()
    raw.validation_flat()
    synset, names = next(iter(raw.train.items()))
    name = next(iter(names))
    path = tmp_path / "boxes.csv"
    path.write_text(f"{name},0.1,0.2,0.3,0.4\n")
    with_boxes = ImageNet(bbox_csv=str(path))
    assert with_boxes.has_boxes
    assert not ImageNet().has_boxes
    found = with_boxes.find(raw.path, None)
    rows = [
        row for unit in found.units for row in with_boxes.scan(raw.path, unit).rows.get("train", ())
    ]
    assert {row.key: row.boxes for row in rows if row.boxes} == {
        f"{synset}/{name}": ((0.1, 0.2, 0.3, 0.4),)
    }


def test_other_boxes_are_another_index(tmp_path: Path) -> None:
    for name, text in (("a.csv", "x,0,0,1,1\n"), ("b.csv", "x,0,0,1,0.5\n")):
        (tmp_path / name).write_text(text)
    configs = [
        dict(ImageNet(bbox_csv=str(tmp_path / name)).config()) for name in ("a.csv", "b.csv")
    ]
    assert configs[0] != configs[1]
    assert ImageNet().config() == {}
