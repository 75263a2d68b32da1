"""Published layouts, made in small exactly as they are published."""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy.io import savemat

import dataprep
from dataprep.errors import SourceError, UsageError
from tests.datasets.test_folder_annotated import images, tree

CUB = (
    *images("images/001.Black_footed_Albatross", "Black_Footed_Albatross_0046_18.jpg"),
    *images("images/002.Laysan_Albatross", "Laysan_Albatross_0002_1027.jpg"),
    (
        "images.txt",
        "1 001.Black_footed_Albatross/Black_Footed_Albatross_0046_18.jpg\n"
        "2 002.Laysan_Albatross/Laysan_Albatross_0002_1027.jpg\n",
    ),
    ("image_class_labels.txt", "1 1\n2 2\n"),
    (
        "classes.txt",
        "1 001.Black_footed_Albatross\n2 002.Laysan_Albatross\n3 003.Sooty_Albatross\n",
    ),
    ("train_test_split.txt", "1 0\n2 1\n"),
    ("bounding_boxes.txt", "1 4.0 3.0 8.0 6.0\n2 0.0 6.0 4.0 6.0\n"),
    ("attributes/attributes.txt", "1 has_bill_shape::curved_(up_or_down)\n"),
)
MARKS = "5_o_Clock_Shadow Male Smiling"
CELEBA = (
    *images("img_align_celeba", "000001.jpg", "000002.jpg", "000003.jpg"),
    (
        "list_attr_celeba.txt",
        f"3\n{MARKS} \n000001.jpg -1  1  1\n000002.jpg -1 -1 -1\n000003.jpg  1 -1  1\n",
    ),
    ("list_eval_partition.txt", "000001.jpg 0\n000002.jpg 1\n000003.jpg 2\n"),
    ("identity_CelebA.txt", "000001.jpg 2880\n000002.jpg 2937\n000003.jpg 8692\n"),
)
FACES = (
    "list_bbox_celeba.txt",
    "2\nimage_id x_1 y_1 width height\n000001.jpg    4   3   8   6\n000002.jpg    0   6   4   6\n",
)
PETS = (
    *images("images", "Abyssinian_100.jpg", "american_bulldog_1.jpg", "Bengal_2.jpg"),
    ("annotations/list.txt", "#Image CLASS-ID SPECIES BREED ID\nAbyssinian_100 1 1 1\n"),
    ("annotations/trainval.txt", "Abyssinian_100 1 1 1\namerican_bulldog_1 2 2 1\n"),
    ("annotations/test.txt", "Bengal_2 6 1 2\n"),
)
OPEN_IMAGES = (
    *images("train", "000002b66c9c498e.jpg"),
    *images("validation", "0001eeaf4aed83f9.jpg"),
    (
        "train-annotations-bbox.csv",
        "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,"
        "IsDepiction,IsInside\n"
        "000002b66c9c498e,xclick,/m/01g317,1,0.0125,0.195312,0.148438,0.5875,0,1,0,0,0\n"
        "000002b66c9c498e,xclick,/m/0284d,1,0.5,0.75,0.25,0.5,0,1,0,0,0\n",
    ),
    (
        "validation-annotations-bbox.csv",
        "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,"
        "IsDepiction,IsInside\n"
        "0001eeaf4aed83f9,activemil,/m/0cmf2,1,0.25,0.75,0.5,1.0,0,0,0,0,0\n",
    ),
    (
        "class-descriptions-boxable.csv",
        "/m/011k07,Tortoise\n/m/0cmf2,Airplane\n/m/01g317,Person\n/m/0284d,Parrot\n",
    ),
)


def stored(raw: Path, out: Path, *splits: str, **options: Any) -> tuple[dict[Any, Any], str]:
    """Of each image by its split and key: its labels, boxes and their labels; and what is told."""
    told: list[dataprep.Progress] = []
    dataprep.folder(raw, out, progress=told.append, **options)
    found = {}
    for split in splits:
        with dataprep.open(out, split) as records:
            names = [name for name, _ in records.classes]
            for one in records:
                boxes = [[round(side, 4) for side in box] for box in one.fields.get("boxes", ())]
                shown = [names[it] for it in one.fields.get("box_labels", ())]
                labels = [names[it] for it in one.labels]
                found[split, one.key] = labels, boxes, *[shown] * bool(shown)
    return found, "\n".join(it.message or "" for it in told)


@pytest.mark.parametrize("listing", [None, "images.txt"])
def test_cub(listing: str | None, tmp_path: Path) -> None:
    raw = tree(tmp_path / "raw", *CUB)
    found, told = stored(raw, tmp_path / "out", "train", "test", listing=listing)
    albatross = "001.Black_footed_Albatross", "002.Laysan_Albatross"
    assert found == {
        ("train", f"{albatross[1]}/Laysan_Albatross_0002_1027.jpg"): (
            [albatross[1]],
            [[0.0, 0.5, 0.25, 1.0]],
        ),
        ("test", f"{albatross[0]}/Black_Footed_Albatross_0046_18.jpg"): (
            [albatross[0]],
            [[0.25, 0.25, 0.75, 0.75]],
        ),
    }
    with dataprep.open(tmp_path / "out", "train") as records:
        assert [name for name, _ in records.classes] == [*albatross, "003.Sooty_Albatross"]
        assert records.labels.tolist() == [1]
    said = "CUB-200-2011: path, label, split, xmin, ymin, xmax, ymax from images.txt, image_class_"
    assert said in told


@pytest.mark.parametrize("listing", [None, "list_attr_celeba.txt"])
def test_celeba(listing: str | None, tmp_path: Path) -> None:
    raw = tree(tmp_path / "raw", *CELEBA, FACES)
    out = tmp_path / "out"
    splits = ("train", "validation", "test")
    found, _ = stored(raw, out, *splits, listing=listing, attribute_columns=["identity"])
    assert found == {
        ("train", "000001.jpg"): (["Male", "Smiling"], []),
        ("validation", "000002.jpg"): ([], []),
        ("test", "000003.jpg"): (["5_o_Clock_Shadow", "Smiling"], []),
    }
    with dataprep.open(out, "test") as records:
        assert [name for name, _ in records.classes] == MARKS.split()
        assert [one.fields["identity"] for one in records] == [8692]


def mats(raw: Path, files: Mapping[str, Mapping[str, Any]]) -> None:
    for name, variables in files.items():
        (raw / name).parent.mkdir(parents=True, exist_ok=True)
        savemat(raw / name, dict(variables))


def cars(*rows: tuple[int, ...]) -> dict[str, Any]:
    kinds = [(name, object) for name in ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class")]
    said = [(*row, f"{number:05d}.jpg") for number, row in enumerate(rows, 1)]
    return {"annotations": np.array([said], dtype=[*kinds, ("fname", object)])}


FLOWERS: Mapping[str, Mapping[str, Any]] = {
    "imagelabels.mat": {"labels": np.array([[77, 77, 3, 10]], np.uint8)},
    "setid.mat": {
        "trnid": np.array([[3.0, 1.0]]),
        "valid": np.array([[2]], np.uint16),
        "tstid": np.array([[4]], np.uint16),
    },
}
CARS: Mapping[str, Mapping[str, Any]] = {
    "devkit/cars_train_annos.mat": cars((5, 4, 12, 9, 2), (1, 1, 16, 12, 1)),
    "cars_test_annos_withlabels.mat": cars((1, 7, 4, 12, 3)),
    "devkit/cars_meta.mat": {
        "class_names": np.array([["AM General Hummer SUV 2000", "smart 2012", "Ram 2009"]], object)
    },
}


@pytest.mark.parametrize("listing", [None, "imagelabels.mat"])
def test_flowers(listing: str | None, tmp_path: Path) -> None:
    names = [f"image_0000{number}.jpg" for number in (1, 2, 3, 4)]
    raw = tree(tmp_path / "raw", *images("jpg", *names))
    mats(raw, FLOWERS)
    found, _ = stored(raw, tmp_path / "out", "train", "validation", "test", listing=listing)
    assert found == {
        ("train", "image_00001.jpg"): (["77"], []),
        ("validation", "image_00002.jpg"): (["77"], []),
        ("train", "image_00003.jpg"): (["3"], []),
        ("test", "image_00004.jpg"): (["10"], []),
    }


@pytest.mark.parametrize("listing", [None, "devkit/cars_train_annos.mat"])
def test_stanford_cars(listing: str | None, tmp_path: Path) -> None:
    here = images("cars_train", "00001.jpg", "00002.jpg"), images("cars_test", "00001.jpg")
    raw = tree(tmp_path / "raw", *here[0], *here[1])
    mats(raw, CARS)
    splits = ("train",) if listing else ("train", "test")
    found, told = stored(raw, tmp_path / "out", *splits, listing=listing)
    test = {("test", "cars_test/00001.jpg"): (["Ram 2009"], [[0.0, 0.5, 0.25, 1.0]])}
    assert found == {
        ("train", "cars_train/00001.jpg"): (["smart 2012"], [[0.25, 0.25, 0.75, 0.75]]),
        ("train", "cars_train/00002.jpg"): (
            ["AM General Hummer SUV 2000"],
            [[0.0, 0.0, 1.0, 1.0]],
        ),
        **({} if listing else test),
    }
    with dataprep.open(tmp_path / "out", "train") as records:  # in the order of cars_meta
        assert records.labels.tolist() == [1, 0]
    assert "Stanford Cars: path, xmin, ymin, xmax, ymax, split, label from cars_train_" in told


def test_what_reads_mat_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = tree(tmp_path / "raw", *images("jpg", "image_00001.jpg"), ("setid.mat", "x"))
    (raw / "imagelabels.mat").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(UsageError, match="needs SciPy: pip install scipy"):
        stored(raw, tmp_path / "out")


@pytest.mark.parametrize("data", [b"", b"MATLAB 5.0 MAT-file" + bytes(200), b"\0" * 400])
def test_what_is_no_mat_is_refused_in_one_line(data: bytes, tmp_path: Path) -> None:
    raw = tree(tmp_path / "raw", *images("jpg", "image_00001.jpg"))
    mats(raw, FLOWERS)
    (raw / "imagelabels.mat").write_bytes(data)
    with pytest.raises(SourceError, match=r"is not as it is published: [^\n]*$"):
        stored(raw, tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("image_class_labels.txt", "1 1\n", "CUB-200-2011, row 2 of images.txt: box: .* one label"),
        ("image_class_labels.txt", "1 1\n2 4\n", "row 2 of images.txt: box: .* one label"),
        ("train_test_split.txt", "1 0\n2 2\n", "row 2 of images.txt: split empty"),
        ("bounding_boxes.txt", "1 4 3 8 6\n2 0 x 4 6\n", "row 2 of images.txt: box: expected four"),
        ("images.txt", "1 ../a.jpg\n", "row 1 of images.txt: no usable path"),
    ],
)
def test_what_is_wrong_names_its_row(name: str, text: str, message: str, tmp_path: Path) -> None:
    raw = tree(tmp_path / "raw", *CUB, (name, text))
    with pytest.raises(SourceError, match=message):
        stored(raw, tmp_path / "out")


@pytest.mark.parametrize("marks", ["-1 1", "-1 1 1 1", "-1 2 1"])
def test_a_mark_too_few_or_too_many_is_refused(marks: str, tmp_path: Path) -> None:
    text = f"2\n{MARKS}\n000001.jpg 1 1 1\n000002.jpg {marks}\n"
    raw = tree(tmp_path / "raw", *CELEBA, ("list_attr_celeba.txt", text))
    with pytest.raises(SourceError, match=r"row 2 of list_attr_celeba\.txt: "):
        stored(raw, tmp_path / "out")


def test_two_layouts_in_one_place_are_told_apart_by_the_user(tmp_path: Path) -> None:
    raw = tree(tmp_path / "raw", *CELEBA, *CUB)
    with pytest.raises(
        SourceError,
        match=r"has images.txt \(CUB-200-2011\), list_attr_celeba.txt \(CelebA\); .*name ",
    ):
        stored(raw, tmp_path / "out")
    assert stored(raw, tmp_path / "out", "train", listing="images.txt")[0]


def test_images_may_be_in_an_archive(tmp_path: Path) -> None:
    raw = tree(tmp_path / "raw", *PETS)
    with tarfile.open(raw / "images.tar.gz", "w:gz") as archive:
        archive.add(raw / "images", "images")
    shutil.rmtree(raw / "images")
    found, _ = stored(raw, tmp_path / "out", "train", "test")
    assert sorted(labels for labels, _ in found.values()) == [
        ["Abyssinian"],
        ["Bengal"],
        ["american_bulldog"],
    ]


def test_faces_of_celeba_are_of_the_pictures_in_the_wild(tmp_path: Path) -> None:
    wild = images("img_celeba", "000001.jpg", "000002.jpg")
    raw = tree(tmp_path / "raw", *CELEBA[:3], *wild, *CELEBA[3:], FACES)
    splits = ("train", "validation")
    found, _ = stored(raw, tmp_path / "out", *splits, listing=FACES[0])
    assert found == {
        ("train", "000001.jpg"): (["face"], [[0.25, 0.25, 0.75, 0.75]]),
        ("validation", "000002.jpg"): (["face"], [[0.0, 0.5, 0.25, 1.0]]),
    }
    with pytest.raises(SourceError, match=r"img_align_celeba or img_celeba; .* --inside"):
        stored(raw, tmp_path / "other")
    found, _ = stored(raw, tmp_path / "other", "test", inside="img_align_celeba")
    assert found == {("test", "000003.jpg"): (["5_o_Clock_Shadow", "Smiling"], [])}


def test_a_celeba_of_one_attribute_alone(tmp_path: Path) -> None:
    raw = tree(tmp_path / "raw", *CELEBA)
    found, _ = stored(raw, tmp_path / "out", "train", label_columns=["Smiling"])
    assert found == {("train", "000001.jpg"): (["Smiling"], [])}


def test_celeba_as_kaggle_has_it(tmp_path: Path) -> None:
    raw = tree(
        tmp_path / "raw",
        *images("img_align_celeba/img_align_celeba", "000001.jpg", "000002.jpg"),
        ("list_attr_celeba.csv", "image_id,Male,Smiling\n000001.jpg,-1,1\n000002.jpg,-1,-1\n"),
        ("list_eval_partition.csv", "image_id,partition\n000001.jpg,0\n000002.jpg,2\n"),
    )
    found, _ = stored(raw, tmp_path / "out", "train", "test")
    assert found == {("train", "000001.jpg"): (["Smiling"], []), ("test", "000002.jpg"): ([], [])}


@pytest.mark.parametrize("listing", [None, "annotations/trainval.txt,annotations/test.txt"])
def test_pets(listing: str | None, tmp_path: Path) -> None:
    raw = tree(tmp_path / "raw", *PETS)
    found, _ = stored(raw, tmp_path / "out", "train", "test", listing=listing)
    assert found == {
        ("train", "Abyssinian_100"): (["Abyssinian"], []),
        ("train", "american_bulldog_1"): (["american_bulldog"], []),
        ("test", "Bengal_2"): (["Bengal"], []),
    }
    with dataprep.open(tmp_path / "out", "train") as records:  # by the numbers of the classes
        classes = [name for name, _ in records.classes]
    assert classes == ["Abyssinian", "american_bulldog", "Bengal"]


def test_a_trainval_that_is_none_of_pets_is_a_listing(tmp_path: Path) -> None:
    raw = tree(tmp_path / "raw", *PETS[:3], ("trainval.txt", "images/Bengal_2.jpg 6\n"))
    found, _ = stored(raw, tmp_path / "out", "train", listing="trainval.txt")
    assert found == {("train", "images/Bengal_2.jpg"): (["6"], [])}


@pytest.mark.parametrize("listing", [None, "validation-annotations-bbox.csv"])
def test_open_images(listing: str | None, tmp_path: Path) -> None:
    raw = tree(tmp_path / "raw", *OPEN_IMAGES)
    splits = ("validation",) if listing else ("train", "validation")
    found, _ = stored(raw, tmp_path / "out", *splits, listing=listing)
    assert found.pop(("validation", "0001eeaf4aed83f9"))[:2] == (
        ["/m/0cmf2"],
        [[0.25, 0.5, 0.75, 1.0]],
    )
    box = [0.0125, 0.1484, 0.1953, 0.5875]
    assert (
        found == {}
        if listing
        else {
            ("train", "000002b66c9c498e"): (
                ["/m/01g317", "/m/0284d"],
                [box, [0.5, 0.25, 0.75, 0.5]],
                ["/m/01g317", "/m/0284d"],
            )
        }
    )
    with dataprep.open(tmp_path / "out", "validation") as records:
        assert [*records.classes] == [
            ("/m/011k07", "Tortoise"),
            ("/m/0cmf2", "Airplane"),
            ("/m/01g317", "Person"),
            ("/m/0284d", "Parrot"),
        ]


def objects(*lines: Mapping[str, Any]) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


HUGGING_FACE: tuple[dict[str, Any], ...] = (
    {
        "file_name": "a.jpg",
        "objects": {"bbox": [[4, 3, 8.0, 6], [0, 6, 4, 6]], "categories": [1, 0]},
    },
    {"file_name": "b.jpg", "objects": {"bbox": [], "categories": []}},
    {"file_name": "c.jpg", "objects": {"bbox": [[0, 0, 16, 12]], "categories": [1]}},
)
OF_EACH = [  # as some write it, and `datasets` reads it
    [{"bbox": box, "category": category} for box, category in zip(*said.values(), strict=True)]
    for said in (line["objects"] for line in HUGGING_FACE)
]


@pytest.mark.parametrize("form", ["jsonl", "of each", "parquet"])
def test_objects_of_hugging_face(form: str, tmp_path: Path) -> None:
    raw = tree(tmp_path / "raw", *images("train", "a.jpg", "b.jpg", "c.jpg"))
    rows = [dict(line) for line in HUGGING_FACE]
    if form == "of each":
        rows = [{**row, "objects": each} for row, each in zip(rows, OF_EACH, strict=True)]
    if form == "parquet":
        parquet.write_table(pa.Table.from_pylist(rows), raw / "train/metadata.parquet")
    else:
        (raw / "train/metadata.jsonl").write_text(objects(*rows))
    found, told = stored(raw, tmp_path / "out", "train")
    assert found == {
        ("train", "a.jpg"): (["0", "1"], [[0.25, 0.25, 0.75, 0.75], [0, 0.5, 0.25, 1]], ["1", "0"]),
        ("train", "b.jpg"): ([], []),
        ("train", "c.jpg"): (["1"], [[0, 0, 1, 1]], ["1"]),
    }
    assert "objects: a box each, x, y, width and height, and its class" in told


def test_objects_beside_a_label_are_read_where_they_are_named(tmp_path: Path) -> None:
    lines = [{**line, "label": "indoor", "width": 32, "height": 24} for line in HUGGING_FACE]
    raw = tree(
        tmp_path / "raw",
        *images("", "a.jpg", "b.jpg", "c.jpg"),
        ("metadata.jsonl", objects(*lines)),
    )
    found, told = stored(raw, tmp_path / "out", "train")
    assert found["train", "a.jpg"] == (["indoor"], [])
    assert "objects left out" in told
    found, _ = stored(raw, tmp_path / "named", "train", label_column="objects")
    box = [0.125, 0.125, 0.375, 0.375]  # of a picture of 32 x 24
    assert found["train", "a.jpg"] == (["0", "1"], [box, [0.0, 0.25, 0.125, 0.5]], ["1", "0"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"bbox": [[1, 2, 3]], "categories": [1]},
        {"bbox": [[1, 2, 3, 4]], "categories": []},
        {"bbox": [[1, 2, 3, 4]], "categories": [1, 0]},
        {"bbox": [[1, 2, "x", 4]], "categories": [1]},
        {"boxes": [[1, 2, 3, 4]], "categories": [1]},
        ["cat"],
    ],
)
def test_objects_that_are_none_name_their_line(wrong: object, tmp_path: Path) -> None:
    lines = [*HUGGING_FACE[:2], {"file_name": "c.jpg", "objects": wrong}]
    raw = tree(tmp_path / "raw", *images("", "a.jpg"), ("metadata.jsonl", objects(*lines)))
    with pytest.raises(SourceError, match=r"metadata\.jsonl, line 3: box: expected four numbers"):
        stored(raw, tmp_path / "out")


def test_lists_may_be_elsewhere(tmp_path: Path) -> None:
    raw = tree(tmp_path / "raw", *CUB[:2])
    lists = tree(tmp_path / "lists", *CUB[2:])
    found, _ = stored(raw, tmp_path / "out", "train", listing=lists / "images.txt")
    assert [key for _, key in found] == ["002.Laysan_Albatross/Laysan_Albatross_0002_1027.jpg"]


def test_without_labels_all_images_are_taken_or_those_of_named_lists(tmp_path: Path) -> None:
    raw = tree(tmp_path / "raw", *CUB, *images("images", "more.jpg"))
    found, _ = stored(raw, tmp_path / "out", "train", unlabelled=True)
    assert len(found) == 3
    found, _ = stored(raw, tmp_path / "named", "train", unlabelled=True, listing="images.txt")
    assert [labels for labels, _ in found.values()] == [[]]
