"""Boxes of lists lie on what they were drawn round, however the image is stored and changed."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pyarrow import parquet

import dataprep
from dataprep.errors import ImageError, RejectedError
from dataprep.images.pixels import turned_back, upright
from dataprep_schemas.fields import BOXES
from tests.conftest import everyday
from tests.datasets.test_folder_annotations import made

BACK = {6: 8, 8: 6}
SIZE, BOX = (48, 32), (8, 16, 16, 8)  # as one sees the picture
FORMS = ("JPEG", "PNG", "WEBP", "TIFF")
LISTS = ("it.json", "voc/Annotations")


def painted(orientation: int = 1, form: str = "PNG", size: Sequence[int] = SIZE) -> bytes:
    """White in the box, black elsewhere; stored so that the orientation shows it upright."""
    shown = np.zeros((size[1], size[0], 3), np.uint8)
    left, top, width, height = BOX
    shown[top : top + height, left : left + width] = 255
    stored = upright(shown, BACK.get(orientation, orientation))
    exif = Image.Exif()
    exif[0x0112] = orientation
    stream = io.BytesIO()
    options: Mapping[str, Any] = {"WEBP": {"lossless": True}, "JPEG": {"quality": 100}}
    Image.fromarray(stored).save(stream, form, exif=exif.tobytes(), **options.get(form, {}))
    return stream.getvalue()


def listed(raw: Path, images: Mapping[str, bytes], size: Sequence[float], scale: float = 1) -> Path:
    """As COCO and, below `voc`, as VOC has them, all drawn on a picture of that size."""
    left, top, width, height = (side * scale for side in BOX)
    for folder in ("images", "voc/JPEGImages", "voc/Annotations"):
        (raw / folder).mkdir(parents=True)
    for name, data in images.items():
        (raw / "images" / name).write_bytes(data)
        (raw / "voc/JPEGImages" / name).write_bytes(data)
        sides = {"xmin": left + 1, "ymin": top + 1, "xmax": left + width, "ymax": top + height}
        box = "".join(f"<{side}>{at}</{side}>" for side, at in sides.items())
        (raw / f"voc/Annotations/{name}.xml").write_text(
            f"<annotation><filename>{name}</filename><size><width>{size[0]}</width>"
            f"<height>{size[1]}</height></size><object><name>it</name><bndbox>{box}</bndbox>"
            "</object></annotation>"
        )
    found = {
        "images": [
            {"id": at, "file_name": name, "width": size[0], "height": size[1]}
            for at, name in enumerate(images)
        ],
        "annotations": [
            {"image_id": at, "category_id": 1, "bbox": [left, top, width, height]}
            for at in range(len(images))
        ],
        "categories": [{"id": 1, "name": "it"}],
    }
    (raw / "it.json").write_text(json.dumps(found))
    return raw


def whiteness(out: Path) -> dict[str, float]:
    """Of each image, the mean level of what its box shows, and of what is round it."""
    found = {}
    for record in dataprep.open(out):
        levels = np.asarray(record.array(), float).mean(axis=2)
        ((left, top, right, bottom),) = record.upright_boxes
        height, width = levels.shape
        inside = np.zeros(levels.shape, bool)
        rows, columns = np.round(
            [top * height, bottom * height, left * width, right * width]
        ).reshape(2, 2)
        inside[int(rows[0]) : int(rows[1]), int(columns[0]) : int(columns[1])] = True
        found[record.key] = levels[inside].mean() - levels[~inside].mean()
    return found


TURNING: list[dict[str, Any]] = [
    {},
    {"check": "header"},
    {"exif": "apply"},
    {"exif": "ignore", "encoding": "png"},
    {"resize": "24"},
    {"strip_metadata": True},
]


# What images become is decided behind the lists, which are of either form every day.
@pytest.mark.parametrize(
    ("options", "listing"),
    everyday(
        [(options, LISTS[number % 2]) for number, options in enumerate(TURNING) if number > 2],
        [(options, listing) for options in TURNING for listing in LISTS],
    ),
    ids=lambda it: it if isinstance(it, str) else "-".join(it),
)
def test_boxes_of_turned_pictures_are_turned_back(
    options: Mapping[str, Any], listing: str, tmp_path: Path
) -> None:
    images = {
        f"{form}{at}.{form.lower()}": painted(at, form) for form in FORMS for at in range(5, 9)
    }
    images["plain.png"] = painted()
    raw = listed(tmp_path / "raw", images, SIZE)
    made(raw, tmp_path / "out", listing=listing, **options)
    found = whiteness(tmp_path / "out")
    assert len(found) == 17
    assert min(found.values()) > 200, found


# Between them lie sizes that round less.
@pytest.mark.parametrize(
    ("size", "scale"),
    everyday([((96, 64), 2), ((25, 17), 0.52)], [((48.0, 32.0), 1), ((24, 16), 0.5)]),
)
def test_boxes_of_another_size_are_scaled(
    size: Sequence[float], scale: float, tmp_path: Path
) -> None:
    images = {f"{at}.png": painted(at) for at in (1, 6)}
    made(listed(tmp_path / "raw", images, size, scale), tmp_path / "out", listing="it.json")
    assert min(whiteness(tmp_path / "out").values()) > 150


@pytest.mark.parametrize("listing", LISTS)
def test_another_shape_counts_for_max_bad(listing: str, tmp_path: Path) -> None:
    images = {"good.png": painted(6), "swapped.png": painted(1, size=SIZE[::-1])}
    images["other.png"] = painted(1, size=(48, 40))
    raw = listed(tmp_path / "raw", images, SIZE)
    said: list[str] = []
    with pytest.raises(RejectedError, match="2 of 3 images rejected"):
        made(
            raw,
            tmp_path / "out",
            listing=listing,
            check="header",
            progress=lambda it: said.append(it.message or ""),
        )
    text = "\n".join(said)
    assert "swapped.png: its boxes are of a picture of 48x32 pixels, and it has 32x48; corr" in text
    done = made(raw, tmp_path / "out", listing=listing, check="header", max_bad=2)
    assert done.manifest.totals.rejected == 2
    assert [*whiteness(tmp_path / "out")] == ["good.png"]


def test_what_sizes_cannot_tell_is_noted(tmp_path: Path) -> None:
    images = {f"{at}.png": painted(at) for at in (1, 2, 3, 4)}
    raw = listed(tmp_path / "raw", images, SIZE)
    made(raw, tmp_path / "out", listing="it.json")
    assert len({record.fields["boxes"] for record in dataprep.open(tmp_path / "out")}) == 1
    square = listed(tmp_path / "square", {"6.png": painted(6, size=(32, 32))}, (32, 32))
    made(square, tmp_path / "6", listing="it.json")
    doubts: dict[str, str] = {}
    for out in (tmp_path / "out", tmp_path / "6"):
        rows = parquet.read_table(out / "records.parquet").to_pylist()
        doubts |= {row["key"]: row["reason"] for row in rows if row["status"] == "warned"}
    assert sorted(doubts) == ["2.png", "3.png", "4.png", "6.png"]
    assert doubts["3.png"].startswith(
        "48x32 pixels are its size as stored and as EXIF orientation 3 turns it: its boxes were"
    )


def test_shapes_of_images_in_archives_are_compared(tmp_path: Path) -> None:
    raw = listed(
        tmp_path / "raw", {"a.png": painted(6), "b.png": painted(1, size=SIZE[::-1])}, SIZE
    )
    with zipfile.ZipFile(raw / "train.zip", "w") as archive:
        for name in ("a.png", "b.png"):
            archive.write(raw / "images" / name, f"train/{name}")
    for folder in ("images", "voc"):
        shutil.rmtree(raw / folder)
    with pytest.raises(RejectedError, match="1 of 2 images rejected"):
        made(raw, tmp_path / "out", listing="it.json")
    made(raw, tmp_path / "out", listing="it.json", max_bad=1)
    assert min(whiteness(tmp_path / "out").values()) > 200


@pytest.mark.parametrize("orientation", range(1, 9))
def test_boxes_are_placed_for_all_orientations(orientation: int) -> None:
    boxes = ((0.1, 0.2, 0.4, 0.9),)
    stored, _ = BOXES.rules.moved(boxes, BACK.get(orientation, orientation))
    swapped = orientation >= 5
    size = (30, 40, orientation) if swapped else (40, 30, orientation)
    back, doubt = turned_back((40, 30), size)
    assert np.allclose(BOXES.rules.moved(boxes, back)[0], stored if swapped else boxes)
    assert (doubt is not None) == (orientation in (2, 3, 4))
    assert turned_back(size[:2], size)[0] == 1
    with pytest.raises(ImageError, match="its boxes are of a picture of 40x60 pixels, and it has"):
        turned_back((40, 60), size)


VOC_BOX = """<object><name>{name}</name>{more}<bndbox><xmin>{left}</xmin><ymin>9</ymin>
<xmax>{right}</xmax><ymax>24</ymax></bndbox></object>"""


def test_flags_and_rotations_of_voc(tmp_path: Path) -> None:
    raw = listed(tmp_path / "raw", {"a.png": painted(), "b.png": painted()}, SIZE)
    turn = (
        "<attributes><attribute><name>rotation</name><value>90.0</value></attribute></attributes>"
    )
    objects = [("it", "<difficult>1</difficult>", 1, 7), ("it", "<truncated>1</truncated>", 17, 32)]
    objects += [("it", f"<difficult>1</difficult><truncated>0</truncated>{turn}", 17, 24)]
    text = (raw / "voc/Annotations/b.png.xml").read_text().partition("<object>")[0]
    for name, more, left, right in objects:
        text += VOC_BOX.format(name=name, more=more, left=left, right=right)
    (raw / "voc/Annotations/b.png.xml").write_text(f"{text}</annotation>")
    said: list[str] = []
    made(
        raw / "voc",
        tmp_path / "out",
        listing="Annotations",
        progress=lambda it: said.append(it.message or ""),
    )
    found = {record.key: record for record in dataprep.open(tmp_path / "out")}
    assert found["a.png"].fields.keys() == {"boxes", "box_labels"}
    marked = [found["b.png"].fields[name] for name in ("difficult", "truncated")]
    assert marked == ["101", "010"]
    turned_box = np.multiply(found["b.png"].fields["boxes"][2], [*SIZE] * 2)
    assert np.allclose(turned_box, (12, 12, 28, 20), atol=1e-4)
    text = "\n".join(said)
    for what in (
        "boxes marked difficult, kept with the attribute difficult: 2",
        "boxes marked truncated, kept with the attribute truncated: 1",
        "boxes with a rotation, of which the upright box round each is kept: 1",
    ):
        assert what in text
    # Flags go with the boxes that a crop leaves.
    made(raw / "voc", tmp_path / "crop", listing="Annotations", center_crop=32, encoding="png")
    again: Any = {"sink": "tfrecord", "center_crop": 32, "encoding": "png"}
    dataprep.convert(tmp_path / "out", to=tmp_path / "again", **again)
    for out in (tmp_path / "crop", tmp_path / "again"):
        one = {record.key: record for record in dataprep.open(out)}["b.png"]
        flags = [one.fields[name] for name in ("difficult", "truncated")]
        assert (len(one.fields["boxes"]), *flags) == (2, "01", "10")


def test_rotations_of_coco(tmp_path: Path) -> None:
    raw = listed(tmp_path / "raw", {"a.png": painted()}, SIZE)
    found = json.loads((raw / "it.json").read_text())
    (one,) = found["annotations"]
    found["annotations"] = [
        one | {"attributes": attributes}
        for attributes in (
            {"occluded": False, "rotation": 270.0},
            {"rotation": 0},
            {"rotation": "?"},
        )
    ]
    (raw / "it.json").write_text(json.dumps(found))
    made(raw, tmp_path / "out", listing="it.json")
    (record,) = dataprep.open(tmp_path / "out")
    boxes = np.multiply(record.fields["boxes"], [*SIZE] * 2)
    assert np.allclose(boxes, [(12, 12, 20, 28), (8, 16, 24, 24), (8, 16, 24, 24)], atol=1e-4)
