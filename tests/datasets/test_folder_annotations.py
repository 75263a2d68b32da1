"""Boxes and captions of COCO and Pascal VOC, tables beside images, and images without labels."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import dataprep
from dataprep.datasets.folder.dataset import Folder
from dataprep.errors import RejectedError, SourceError, UsageError
from dataprep.plugins import SINKS, installed, load_sink
from dataprep_schemas.fields import WHOLE
from tests.conftest import everyday
from tests.fuzz.raw_readers import picture

# The ids of the classes have gaps, as COCO's.
CATEGORIES = [{"id": 7, "name": "train"}, {"id": 1, "name": "person"}, {"id": 90, "name": "brush"}]


def instances(names: Sequence[str], *annotations: Mapping[str, Any]) -> str:
    images = [
        {"id": number, "file_name": name, "width": 16, "height": 12}
        for number, name in enumerate(names)
    ]
    found = {"info": {}, "images": images, "annotations": annotations, "categories": CATEGORIES}
    return json.dumps(found)


def box(image: int, category: int, *sides: float, **more: Any) -> Mapping[str, Any]:
    return {"image_id": image, "category_id": category, "bbox": sides, "iscrowd": 0, **more}


def captions(names: Sequence[str], *texts: tuple[int, str]) -> str:
    images = [{"id": number + 50, "file_name": name} for number, name in enumerate(names)]
    said = [{"image_id": number + 50, "caption": text} for number, text in texts]
    return json.dumps({"images": images, "annotations": said})


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    for split, names in (("train", "abc"), ("val", "d")):
        (tmp_path / "raw" / f"{split}2017").mkdir(parents=True)
        for number, name in enumerate(names):
            (tmp_path / "raw" / f"{split}2017" / f"{name}.jpg").write_bytes(picture(number))
    (tmp_path / "raw" / "instances_train2017.json").write_text(
        instances(
            ["a.jpg", "b.jpg", "c.jpg"],
            box(0, 7, 4, 3, 8, 6, segmentation=[[1, 2, 3, 4, 5, 6]]),
            box(0, 1, 8, 0, 16, 6),
            box(1, 1, 2, 2, 0, 5),
            box(1, 7, 0, 0, 16, 12, iscrowd=1),
        )
    )
    (tmp_path / "raw" / "captions_train2017.json").write_text(
        captions(["a.jpg", "c.jpg"], (0, "a train "), (0, "one person"), (1, ""))
    )
    (tmp_path / "raw" / "instances_val2017.json").write_text(
        instances(["d.jpg"], box(0, 90, 0, 0, 4, 12))
    )
    return tmp_path / "raw"


def made(raw: Path, out: Path, **options: Any) -> dataprep.SealedSet:
    sealed: dataprep.SealedSet = dataprep.prepare("folder", raw=raw, out=out, **options)
    return sealed


LISTING = "instances_train2017.json,captions_train2017.json,instances_val2017.json"


def test_coco(raw: Path, tmp_path: Path) -> None:
    said: list[str] = []
    done = made(
        raw, tmp_path / "out", listing=LISTING, progress=lambda it: said.append(it.message or "")
    )
    # In the order of their ids, with the one that no image of a split shows.
    assert done.manifest.classes == tuple((name, name) for name in ("person", "train", "brush"))
    found = {record.key: record for record in dataprep.open(tmp_path / "out", split="train")}
    assert [found[key].labels for key in ("a.jpg", "b.jpg", "c.jpg")] == [(0, 1), (0, 1), ()]
    one = found["a.jpg"]
    assert one.fields["boxes"] == ((0.25, 0.25, 0.75, 0.75), (0.5, 0, 1, 0.5))
    assert one.fields["box_labels"] == (1, 0)
    assert found["b.jpg"].fields == {"boxes": (WHOLE,), "box_labels": (1,), "crowds": "1"}
    assert "crowds" not in one.fields
    assert [
        record.fields["captions"] for record in found.values() if "captions" in record.fields
    ] == [("a train", "one person")]
    (held_out,) = dataprep.open(tmp_path / "out", split="validation")
    assert (held_out.key, held_out.labels, held_out.fields["box_labels"]) == ("d.jpg", (2,), (2,))
    text = "\n".join(said)
    for what in (
        "annotated in instances_train2017.json and captions_train2017.json: 3 images, 3 classes",
        "boxes cut off at the edge of their image: 1",
        "boxes without an area, left out: 1",
        "boxes marked crowds, kept with the attribute crowds: 1",
        "segmentation masks, which are not kept without --mask_outlines: 1",
    ):
        assert what in text


def test_nothing_is_said_of_what_does_not_happen(raw: Path) -> None:
    dataset = Folder(listing="instances_val2017.json")
    found = dataset.find(raw, None)
    assert dataset.scan(raw, found, found.units[0]).counts == {}


def test_an_image_of_two_lists_is_in_no_two_splits(raw: Path) -> None:
    for split, name in (("train", "val2017/d.jpg"), ("val", "./val2017/d.jpg")):
        (raw / f"{split}.json").write_text(instances([name]))
    with pytest.raises(SourceError, match=r"^val2017/d.jpg is .* in train.json and .* in val.json"):
        Folder(listing="train.json,val.json").find(raw, None)


def test_captions_of_coco_alone(raw: Path, tmp_path: Path) -> None:
    done = made(raw, tmp_path / "out", listing="captions_train2017.json")
    assert (done.manifest.classes, done.manifest.totals.records) == ((), 2)
    found = {
        record.key: record.fields.get("captions", ()) for record in dataprep.open(tmp_path / "out")
    }
    assert found == {"a.jpg": ("a train", "one person"), "c.jpg": ()}


def test_coco_in_archives(raw: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed"
    packed.mkdir()
    for split in ("train2017", "val2017"):
        with zipfile.ZipFile(packed / f"{split}.zip", "w") as archive:
            for path in (raw / split).iterdir():
                archive.write(path, f"{split}/{path.name}")
    for path in raw.glob("*.json"):
        path.rename(packed / path.name)
    made(packed, tmp_path / "out", listing=LISTING)
    found = {record.key: record.labels for record in dataprep.open(tmp_path / "out", "train")}
    assert found == {"a.jpg": (0, 1), "b.jpg": (0, 1), "c.jpg": ()}


def test_what_coco_lists_and_is_not_there_counts(raw: Path, tmp_path: Path) -> None:
    (raw / "train2017" / "b.jpg").unlink()
    with pytest.raises(RejectedError, match="1 image listed but not there"):
        made(raw, tmp_path / "out", listing="instances_train2017.json")
    done = made(raw, tmp_path / "out", listing="instances_train2017.json", max_bad=1)
    assert done.manifest.totals.records == 2


def test_coco_is_cut_by_shares(raw: Path, tmp_path: Path) -> None:
    shares = {"train": 0.5, "test": 0.5}
    done = made(raw, tmp_path / "out", listing="instances_train2017.json", fractions=shares)
    assert sorted(done.manifest.splits) == ["test", "train"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "is no list of COCO's form"),
        ("[" * 100_000, "is no list of COCO's form"),
        ("not json", "is no list of COCO's form"),
        (instances(["a.jpg"], box(7, 1, 0, 0, 1, 1)), "an annotation of image 7"),
        (instances(["a.jpg"], box(0, 2, 0, 0, 1, 1)), "an annotation of category 2"),
        (instances(["../a.jpg"]), r"\.\./a\.jpg\): path with \.\. in it"),
    ],
)
def test_what_is_no_coco_is_one_line(text: str, reason: str, raw: Path, tmp_path: Path) -> None:
    (raw / "bad.json").write_text(text)
    with pytest.raises((SourceError, RejectedError), match=reason):
        made(raw, tmp_path / "out", listing="bad.json")


def test_options_of_tables_do_not_go_with_annotations() -> None:
    with pytest.raises(UsageError, match="--label_separator cannot be used with annotations"):
        Folder(listing="a.json", label_separator="|")


VOC = """<annotation><folder>VOC2012</folder><filename>{name}.jpg</filename>
<size><width>16</width><height>12</height><depth>3</depth></size>
<object><name>{what}</name><difficult>0</difficult>
<bndbox><xmin>1</xmin><ymin>{top}</ymin><xmax>8</xmax><ymax>12</ymax></bndbox></object>
</annotation>"""


@pytest.fixture
def voc(tmp_path: Path) -> Path:
    place = tmp_path / "VOC2012"
    for folder in ("Annotations", "JPEGImages", "ImageSets/Main"):
        (place / folder).mkdir(parents=True)
    for number, name in enumerate("abc"):
        (place / "JPEGImages" / f"{name}.jpg").write_bytes(picture(number))
        what = ("cat", "dog")[number % 2]
        (place / "Annotations" / f"{name}.xml").write_text(VOC.format(name=name, what=what, top=7))
    (place / "ImageSets" / "Main" / "train.txt").write_text("a\n")
    (place / "ImageSets" / "Main" / "val.txt").write_text("b\n")
    return place


def test_voc(voc: Path, tmp_path: Path) -> None:
    done = made(voc, tmp_path / "out", listing="Annotations")
    assert sorted(done.manifest.splits) == ["train", "validation"]
    (one,) = dataprep.open(tmp_path / "out", split="train")
    # Pixels count from 1, the last ones included.
    assert (one.key, one.labels, one.fields["boxes"]) == ("a.jpg", (0,), ((0, 0.5, 0.5, 1),))
    (other,) = dataprep.open(tmp_path / "out", split="validation")
    assert other.class_name == "dog"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<annotation>", "is no XML"),
        ("<annotation/>", "no size/width, expected Pascal VOC's annotation"),
        (VOC.format(name="a", what="cat", top="many"), "could not convert string to float"),
        (
            '<!DOCTYPE a [<!ENTITY b "c">]><annotation/>',
            "or a DOCTYPE; expected VOC's XML without one",
        ),
    ],
)
def test_what_is_no_voc_is_one_line(text: str, reason: str, voc: Path, tmp_path: Path) -> None:
    (voc / "Annotations" / "a.xml").write_text(text)
    with pytest.raises(SourceError, match=reason):
        made(voc, tmp_path / "out", listing="Annotations")


def write_metadata(folder: Path, form: str, rows: Sequence[Mapping[str, Any]]) -> None:
    if form == "csv":
        lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
        (folder / "metadata.csv").write_text("\n".join(lines) + "\n")
    elif form == "jsonl":
        (folder / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        parquet.write_table(pa.Table.from_pylist([*rows]), folder / "metadata.parquet")


# Which form it has is told by its name; each is read as a listing is.
@pytest.mark.parametrize("form", everyday(["csv"], ["jsonl", "parquet"]))
def test_metadata_beside_images_is_used(form: str, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    rows = [{"file_name": f"{name}.jpg", "label": name, "text": f"one {name}"} for name in "ab"]
    for number, row in enumerate(rows):
        (raw / row["file_name"]).write_bytes(picture(number))
    write_metadata(raw, form, rows)
    made(raw, tmp_path / "out", caption_column="text")
    found = {record.key: record for record in dataprep.open(tmp_path / "out")}
    assert [found[key].class_name for key in ("a.jpg", "b.jpg")] == ["a", "b"]
    assert found["a.jpg"].fields["captions"] == ("one a",)


def test_metadata_in_split_folders(tmp_path: Path) -> None:
    for split in ("train", "test"):
        folder = tmp_path / "raw" / split
        folder.mkdir(parents=True)
        (folder / "0.jpg").write_bytes(picture(len(split)))
        write_metadata(folder, "csv", [{"file_name": "0.jpg", "label": "x", "age": 7}])
    done = made(tmp_path / "raw", tmp_path / "out", attribute_columns="age")
    assert sorted(done.manifest.splits) == ["test", "train"]
    (one,) = dataprep.open(tmp_path / "out", split="test")
    assert (one.key, one.fields, one.encoded) == ("0.jpg", {"age": 7}, picture(4))
    write_metadata(tmp_path / "raw" / "test", "csv", [{"file_name": "0.jpg", "label": "x"}])
    with pytest.raises(SourceError, match="has no columns age"):
        made(tmp_path / "raw", tmp_path / "other", attribute_columns="age")


def test_a_split_whose_table_is_missing_is_not_lost(tmp_path: Path) -> None:
    for split in ("train", "test"):
        (tmp_path / split).mkdir()
        (tmp_path / split / "0.jpg").write_bytes(picture())
    write_metadata(tmp_path / "train", "csv", [{"file_name": "0.jpg", "label": "x"}])
    with pytest.raises(SourceError, match=r"test: no metadata\.csv or alike, as train/metadata"):
        Folder().find(tmp_path, None)
    write_metadata(tmp_path / "test", "csv", [{"file_name": "0.jpg", "label": "x"}])
    with zipfile.ZipFile(tmp_path / "test" / "a.zip", "w") as archive:
        archive.writestr("0.jpg", picture())
    with pytest.raises(SourceError, match=r"test/metadata\.csv: the images beside it are in arch"):
        Folder().find(tmp_path, None)


def test_two_tables_beside_images_are_one_too_many(tmp_path: Path) -> None:
    for form in ("csv", "jsonl"):
        write_metadata(tmp_path, form, [{"file_name": "0.jpg", "label": "x"}])
    with pytest.raises(SourceError, match=r"has metadata\.csv, metadata\.jsonl; expected one"):
        Folder().find(tmp_path, None)


def write_unlabelled(raw: Path) -> None:
    for name in ("0.jpg", "a/1.jpg", "a/b/2.jpg", "c/3.jpg"):
        (raw / name).parent.mkdir(parents=True, exist_ok=True)
        (raw / name).write_bytes(picture(len(name)))


# Caffe's Datum has one label. What others make of none is tried by tests/formats/test_testing.py.
@pytest.mark.parametrize("sink", everyday(["tfrecord"], sorted({*installed(SINKS)} - {"lmdb"})))
def test_images_without_labels(sink: str, tmp_path: Path) -> None:
    write_unlabelled(tmp_path / "raw")
    options = {"resize": "8x8"} if load_sink(sink).pixels else {}
    done = made(
        tmp_path / "raw", tmp_path / "out", unlabelled=True, sink=sink, num_shards=1, **options
    )
    assert done.manifest.classes == ()
    records = dataprep.open(tmp_path / "out")
    assert sorted(record.key for record in records) == ["0.jpg", "a/1.jpg", "a/b/2.jpg", "c/3.jpg"]
    assert {record.labels for record in records} == {()}
    dataprep.verify(tmp_path / "out", level="decode")


def test_a_flat_folder_of_a_split_without_labels(tmp_path: Path) -> None:
    for split in ("train", "val"):
        (tmp_path / "raw" / split).mkdir(parents=True)
        (tmp_path / "raw" / split / "x.jpg").write_bytes(picture(len(split)))
    done = made(tmp_path / "raw", tmp_path / "out", unlabelled=True)
    assert sorted(done.manifest.splits) == ["train", "validation"]


def test_captions_without_labels(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "0.jpg").write_bytes(picture())
    write_metadata(tmp_path / "raw", "csv", [{"file_name": "0.jpg", "text": "a cat"}])
    made(tmp_path / "raw", tmp_path / "out", unlabelled=True, caption_column="text")
    (one,) = dataprep.open(tmp_path / "out")
    assert (one.labels, one.fields["captions"]) == ((), ("a cat",))


def test_masks_are_told_from_classes(tmp_path: Path) -> None:
    for folder in ("images", "masks"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "0.png").write_bytes(picture(0, "PNG"))
    with pytest.raises(
        SourceError, match="images beside masks, which look like segmentation masks"
    ):
        Folder().find(tmp_path, None)
    (unit,) = Folder(unlabelled=True, inside="images").find(tmp_path, None).units
    assert unit.container == "images"
