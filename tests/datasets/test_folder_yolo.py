"""YOLO's layouts as Ultralytics documents them and exporters write them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image

import dataprep
from dataprep.datasets.folder.dataset import Folder
from dataprep.datasets.folder.yolo import read_yolo
from dataprep.errors import SourceError
from tests.datasets.test_folder_annotated import images, tree

BOX = "1 0.5 0.5 0.5 0.25\n"
OUTLINE = "0 0.1 0.2 0.5 0.2 0.5 0.8\n"
COCO8 = (
    *images("images/train", "a.jpg", "b.jpg"),
    *images("images/val", "c.jpg"),
    ("labels/train/a.txt", BOX + OUTLINE),
    ("labels/val/c.txt", "1 0.9 0.5 0.4 0.5\n"),
    (
        "data.yaml",
        "path: ../datasets/x\ntrain: images/train\nval: images/val\nnames:\n 0: cat\n 1: dog\n",
    ),
)
ROBOFLOW = (
    *images("train/images", "a.jpg", "b.jpg"),
    *images("valid/images", "c.jpg"),
    ("train/labels/a.txt", BOX + OUTLINE),
    ("valid/labels/c.txt", "1 0.9 0.5 0.4 0.5\n"),
    ("data.yaml", "train: ../train/images\nval: ../valid/images\nnc: 2\nnames: ['cat', 'dog']\n"),
)
LISTED = (
    *images("images", "a.jpg", "b.jpg", "c.jpg"),
    ("labels/a.txt", BOX + OUTLINE),
    ("labels/c.txt", "1 0.9 0.5 0.4 0.5\n"),
    ("train.txt", "./images/a.jpg\n./images/b.jpg\n"),
    ("val.txt", "images/c.jpg\n"),
    ("data.yaml", "train: train.txt\nval: val.txt\nnames: [cat, dog]\n"),
)


@pytest.mark.parametrize("files", [COCO8, ROBOFLOW, LISTED])
def test_what_is_published_so_is_read(
    files: tuple[tuple[str, str | None], ...], tmp_path: Path
) -> None:
    raw = tree(tmp_path / "raw", *files)
    told: list[dataprep.Progress] = []
    dataprep.folder(raw, tmp_path / "out", listing="data.yaml", progress=told.append)
    found = {}
    for split in ("train", "validation"):
        with dataprep.open(tmp_path / "out", split) as records:
            assert [name for name, _ in records.classes] == ["cat", "dog"]
            for one in records:
                boxes = [[round(side, 4) for side in box] for box in one.fields.get("boxes", ())]
                found[split, one.key.rpartition("/")[2]] = boxes, one.labels
    assert found == {
        ("train", "a.jpg"): ([[0.25, 0.375, 0.75, 0.625], [0.1, 0.2, 0.5, 0.8]], (0, 1)),
        ("train", "b.jpg"): ([], ()),
        ("validation", "c.jpg"): ([[0.7, 0.25, 1.0, 0.75]], (1,)),  # cut off at the edge
    }
    said = "\n".join(it.message or "" for it in told)
    assert "outlines of objects, of which the box is kept: 1 in the raw data" in said
    assert "boxes cut off at the edge of their image: 1 in the raw data" in said


def test_boxes_are_of_the_upright_picture(tmp_path: Path) -> None:
    raw = tree(tmp_path / "raw", *COCO8)
    picture, exif = Image.new("RGB", (40, 20)), Image.Exif()
    exif[0x0112] = 6
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", exif=exif)
    (raw / "images/train/a.jpg").write_bytes(buffer.getvalue())
    (raw / "labels/train/a.txt").write_text("0 0.5 0.25 1 0.5\n")  # the upper half of 20 x 40
    dataprep.folder(raw, tmp_path / "out", listing="data.yaml", encoding="png")
    with dataprep.open(tmp_path / "out", "train") as records:
        one = next(it for it in records if it.key.endswith("a.jpg"))
        assert [tuple(box) for box in one.upright_boxes] == [(0, 0, 1, 0.5)]


def test_labels_are_beside_a_link_and_not_beside_what_it_leads_to(tmp_path: Path) -> None:
    raw = tree(tmp_path / "raw", *COCO8, *images("all", "a.jpg"))
    (raw / "images/train/a.jpg").unlink()
    (raw / "images/train/a.jpg").symlink_to("../../all/a.jpg")
    found = read_yolo(raw, Path("data.yaml"))
    assert [(it.names[0], len(it.boxes)) for it in found.images[:1]] == [("images/train/a.jpg", 2)]


def test_a_changed_label_is_noticed(tmp_path: Path) -> None:
    raw = tree(tmp_path / "raw", *COCO8)
    dataset = Folder(listing="data.yaml")

    def seen() -> str:
        (unit,) = dataset.find(raw, None).units
        return dataset.fingerprint(raw, unit)

    before = seen()
    assert seen() == before
    (raw / "labels/val/c.txt").write_text(BOX)
    assert seen() != before


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "labels/train/a.txt",
            "7 0.5 0.5 0.5 0.5\n",
            r"a.txt, line 1: class 7, which data.yaml has",
        ),
        ("labels/train/a.txt", "1 0.5 0.5 0.5\n", "line 1: '1 0.5 0.5 0.5'; expected CLASS X Y"),
        ("labels/train/a.txt", "\n1 320 200 40 40\n", "line 2: '1 320 200 40 40'; expected CLASS"),
        ("labels/train/a.txt", "cat 0.5 0.5 0.5 0.5\n", "expected CLASS X Y WIDTH HEIGHT"),
        ("labels/train/a.txt", "1 0.5 0.5 0.5 0.5 0.9\n", "expected CLASS X Y WIDTH HEIGHT"),
        ("data.yaml", "names: [a]\ntrain: nowhere\n", "train is nowhere, which is not below"),
        ("data.yaml", "names: [a]\ntrain: /etc\n", "train is /etc, which is not below"),
        ("data.yaml", "train: images\n", "is no data.yaml of YOLO's: .*names"),
        ("data.yaml", "names: [", "is no data.yaml of YOLO's"),
        ("data.yaml", "#" * (1 << 20) + "\n", "data.yaml has 1,048,577 bytes; expected"),
        ("data.yaml", "names: [a]\ntrain: train.txt\n", "train is train.txt, which is not below"),
    ],
)
def test_what_is_wrong_is_one_line(name: str, text: str, message: str, tmp_path: Path) -> None:
    raw = tree(tmp_path / "raw", *COCO8, (name, text))
    with pytest.raises(SourceError, match=message) as caught:
        Folder(listing="data.yaml").find(raw, None)
    assert "\n" not in str(caught.value)
