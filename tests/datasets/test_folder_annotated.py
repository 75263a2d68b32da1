"""Which image, class and split annotations speak of: ids, names and places of many exports."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import dataprep
from dataprep.datasets.folder.dataset import Folder
from dataprep.errors import RejectedError, SourceError
from tests.datasets.test_folder_annotations import made
from tests.fuzz.raw_readers import picture

CAT_DOG = {1: "cat", 2: "dog"}


def coco(
    names: Sequence[str],
    categories: Mapping[int, str] = CAT_DOG,
    *,
    ids: Sequence[int] | None = None,
    width: int = 16,
) -> str:
    """One box an image, of the classes in turn, as they are listed."""
    ids = range(len(names)) if ids is None else ids
    images = [
        {"id": id_, "file_name": name, "width": width, "height": 12}
        for id_, name in zip(ids, names, strict=True)
    ]
    boxes = [
        {"image_id": id_, "category_id": [*categories][at % len(categories)], "bbox": [0, 0, 8, 6]}
        for at, id_ in enumerate(ids)
    ]
    kinds = [{"id": id_, "name": name} for id_, name in categories.items()]
    return json.dumps({"images": images, "annotations": boxes, "categories": kinds})


def voc(name: str | None, folder: str = "", what: str = "cat") -> str:
    filename = "" if name is None else f"<filename>{name}</filename>"
    return (
        f"<annotation><folder>{folder}</folder>{filename}<size><width>16</width>"
        f"<height>12</height></size><object><name>{what}</name><bndbox><xmin>1</xmin><ymin>1</ymin>"
        "<xmax>8</xmax><ymax>6</ymax></bndbox></object></annotation>"
    )


def tree(raw: Path, *files: tuple[str, str | None]) -> Path:
    """Files with these texts; images where there is none."""
    for number, (name, text) in enumerate(files):
        (raw / name).parent.mkdir(parents=True, exist_ok=True)
        (raw / name).write_bytes(picture(number) if text is None else text.encode())
    return raw


def images(folder: str, *names: str) -> list[tuple[str, None]]:
    return [(f"{folder}/{name}".lstrip("/"), None) for name in names]


def scanned(raw: Path, listing: str, **options: str) -> dict[str, list[str]]:
    """The files of each split that are there."""
    dataset = Folder(listing=listing, **options)
    found: dict[str, list[str]] = {}
    searched = dataset.find(raw, None)
    for unit in searched.units:
        table = pa.concat_tables(
            dataset.scan(raw, searched, unit).tables, promote_options="default"
        )
        for row in table.to_pylist():
            assert row["status"] == "image", row
            found.setdefault(row["split"], []).append(row["container"])
    return found


AB = ("a.jpg", "b.jpg")
LAYOUTS = {
    "Roboflow": (
        [
            *images("train", *AB),
            ("train/_annotations.coco.json", coco(AB)),
            *images("valid", "c.jpg"),
            ("valid/_annotations.coco.json", coco(["c.jpg"])),
        ],
        "train/_annotations.coco.json,valid/_annotations.coco.json",
        {"train": ["train/a.jpg", "train/b.jpg"], "validation": ["valid/c.jpg"]},
    ),
    "Roboflow, VOC": (
        [
            *images("train", *AB),
            ("train/a.xml", voc("a.jpg")),
            ("train/b.xml", voc("b.jpg")),
            *images("test", "c.jpg"),
            ("test/c.xml", voc("c.jpg")),
        ],
        "train,test",
        {"train": ["train/a.jpg", "train/b.jpg"], "test": ["test/c.jpg"]},
    ),
    "Detectron": (
        [
            *images("coco/train2017", *AB),
            ("coco/annotations/instances_train2017.json", coco(AB)),
            *images("coco/val2017", *AB),
            ("coco/annotations/instances_val2017.json", coco(AB)),
        ],
        "coco/annotations/instances_train2017.json,coco/annotations/instances_val2017.json",
        {
            "train": ["coco/train2017/a.jpg", "coco/train2017/b.jpg"],
            "validation": ["coco/val2017/a.jpg", "coco/val2017/b.jpg"],
        },
    ),
    "MMDetection": (
        [
            *images("images/train", *AB),
            *images("images/val", "c.jpg"),
            ("annotations/train.json", coco(AB)),
            ("annotations/val.json", coco(["c.jpg"])),
        ],
        "annotations/train.json,annotations/val.json",
        {"train": ["images/train/a.jpg", "images/train/b.jpg"], "validation": ["images/val/c.jpg"]},
    ),
    "a folder of images, split folders of lists": (
        [
            *images("images", *AB),
            ("train/list.json", coco(AB[:1])),
            ("val/list.json", coco(AB[1:])),
        ],
        "train/list.json,val/list.json",
        {"train": ["images/a.jpg"], "validation": ["images/b.jpg"]},
    ),
    "Label Studio on Windows": (
        [*images("images", *AB), ("result.json", coco([f"images\\{it}" for it in AB]))],
        "result.json",
        {"train": ["images/a.jpg", "images/b.jpg"]},
    ),
    "above the list": (
        [*images("images", *AB), ("p/q/list.json", coco([f"../../images/{it}" for it in AB]))],
        "p/q/list.json",
        {"train": ["images/a.jpg", "images/b.jpg"]},
    ),
    "a path of another machine": (
        [*images("img", *AB), ("img/list.json", coco([f"C:\\Users\\me\\{it}" for it in AB]))],
        "img/list.json",
        {"train": ["img/a.jpg", "img/b.jpg"]},
    ),
    "most of the images": (
        [*images("images", "a.jpg"), *images("train", *AB), ("instances_train.json", coco(AB))],
        "instances_train.json",
        {"train": ["train/a.jpg", "train/b.jpg"]},
    ),
    "the first place of as many": (
        [*images("images", *AB), *images("train", *AB), ("instances_train.json", coco(AB))],
        "instances_train.json",
        {"train": ["train/a.jpg", "train/b.jpg"]},
    ),
    "VOC without suffixes": (
        [
            *images("JPEGImages", "a.b.jpg", "c.PNG"),
            ("Annotations/a.b.xml", voc("a.b")),
            ("Annotations/c.xml", voc("c")),
        ],
        "Annotations",
        {"train": ["JPEGImages/a.b.jpg", "JPEGImages/c.PNG"]},
    ),
    "VOC without names": (
        [
            *images("JPEGImages", *AB),
            ("Annotations/a.xml", voc(None)),
            ("Annotations/b.xml", voc(None)),
        ],
        "Annotations",
        {"train": ["JPEGImages/a.jpg", "JPEGImages/b.jpg"]},
    ),
    "VOC with folders": (
        [
            *images("JPEGImages/x", "a.jpg"),
            *images("JPEGImages/y", "a.jpg"),
            ("Annotations/1.xml", voc("a.jpg", "x")),
            ("Annotations/2.xml", voc("a.jpg", "y")),
        ],
        "Annotations",
        {"train": ["JPEGImages/x/a.jpg", "JPEGImages/y/a.jpg"]},
    ),
    "ImageNet's": (
        [
            *images("Data/CLS/train/n01", "n01_1.JPEG", "n01_2.JPEG"),
            ("Annotations/CLS/train/n01/n01_1.xml", voc("%s", "n01")),
            ("Annotations/CLS/train/n01/n01_2.xml", voc("n01_2", "n01")),
        ],
        "Annotations/CLS/train",
        {"train": ["Data/CLS/train/n01/n01_1.JPEG", "Data/CLS/train/n01/n01_2.JPEG"]},
    ),
    "two VOC kits": (
        [
            *images("VOC2007/JPEGImages", *AB),
            *images("VOC2012/JPEGImages", "2012_1.jpg"),
            ("VOC2007/Annotations/a.xml", voc("a.jpg")),
            ("VOC2007/Annotations/b.xml", voc("b.jpg")),
            ("VOC2012/Annotations/2012_1.xml", voc("2012_1.jpg")),
            ("VOC2007/ImageSets/Main/train.txt", "a\n"),
            ("VOC2007/ImageSets/Main/val.txt", "b\n"),
        ],
        "VOC2007/Annotations,VOC2012/Annotations",
        {
            "train": ["VOC2007/JPEGImages/a.jpg", "VOC2012/JPEGImages/2012_1.jpg"],
            "validation": ["VOC2007/JPEGImages/b.jpg"],
        },
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_images_are_found_where_exports_have_them(layout: str, tmp_path: Path) -> None:
    files, listing, expected = LAYOUTS[layout]
    assert scanned(tree(tmp_path, *files), listing) == expected


def test_all_listed_images_tell_where_they_lie(tmp_path: Path) -> None:
    # Of 600, the last alone is there; of those that are looked at first, none.
    names = [f"{number}.jpg" for number in range(600)]
    raw = tree(tmp_path, *images("pictures/train", names[-1]), ("a/list_train.json", coco(names)))
    (raw / "pictures").rename(raw / "images")
    found = Folder(listing="a/list_train.json").find(raw, None)
    assert found.description[0].endswith(f"files in {raw}/images/train")


def test_what_is_listed_first_may_be_missing(tmp_path: Path) -> None:
    raw = tree(tmp_path / "raw", *images("train2017", *AB))
    (raw / "instances_train2017.json").write_text(coco(["0.jpg", *AB]))
    with pytest.raises(RejectedError, match="1 image listed but not there"):
        made(raw, tmp_path / "out", listing="instances_train2017.json")
    done = made(raw, tmp_path / "out", listing="instances_train2017.json", max_bad=1)
    assert done.manifest.totals.records == 2


def test_paths_of_a_list_come_before_what_else_they_may_mean(tmp_path: Path) -> None:
    # Without their folders, more would be found: other images of these names.
    raw = tree(tmp_path / "raw", *images("x", "a.jpg"), *images("images", *AB))
    (raw / "list.json").write_text(coco([f"x/{name}" for name in AB]))
    found = Folder(listing="list.json").find(raw, None)
    assert found.description[0].endswith(f"files in {raw}")


def test_changed_lists_of_splits_are_noticed(tmp_path: Path) -> None:
    files = [("Annotations/n/a.xml", voc("a.jpg")), ("ImageSets/Main/train.txt", "n/a\n")]
    tree(tmp_path, *images("JPEGImages", "a.jpg"), *files)
    dataset = Folder(listing="Annotations")
    (unit,) = dataset.find(tmp_path, None).units
    seen = {dataset.fingerprint(tmp_path, unit)}
    (tmp_path / "Annotations/n/a.xml").write_text(voc("a.jpg", what="dog"))
    seen.add(dataset.fingerprint(tmp_path, unit))
    (tmp_path / "ImageSets/Main/train.txt").rename(tmp_path / "ImageSets/Main/test.txt")
    seen.add(dataset.fingerprint(tmp_path, unit))
    assert len(seen) == 3
    assert [*scanned(tmp_path, "Annotations")] == ["test"]


def test_inside_is_not_left(tmp_path: Path) -> None:
    raw = tree(tmp_path, *images("in/images", "a.jpg"), *images("images", *AB))
    (raw / "list.json").write_text(coco(AB))
    found = Folder(listing="list.json", inside="in").find(raw, None)
    assert found.description[0].endswith(f"files in {raw}/in/images")


def test_paths_of_this_machine_are_below_the_raw_directory(tmp_path: Path) -> None:
    raw = tree(tmp_path / "raw", *images("x/y", *AB))
    (raw / "list.json").write_text(coco([f"{raw}/x/y/{name}" for name in AB]))
    assert scanned(raw, "list.json") == {"train": ["x/y/a.jpg", "x/y/b.jpg"]}


@pytest.mark.parametrize(
    ("listing", "message"),
    [
        ("train/val.json", "train/val.json: its name and folder say validation and train; expec"),
        ("train_test.json", "train_test.json: its name and folder say train and test; expected"),
        ("train/a.json,train/a.json", "train/a.json is in --listing twice; leave one out"),
    ],
)
def test_a_list_is_of_one_split(listing: str, message: str, tmp_path: Path) -> None:
    for name in ("train/val.json", "train_test.json", "train/a.json"):
        tree(tmp_path, *images("images", *AB), (name, coco(AB)))
    with pytest.raises(SourceError, match=f"^{message}"):
        Folder(listing=listing).find(tmp_path, None)


def test_folders_of_lists_that_lie_elsewhere_tell_splits(tmp_path: Path) -> None:
    raw = tree(tmp_path / "raw", *images("images", *AB))
    tree(tmp_path / "test", ("train/a.json", coco(AB[:1])), ("val/a.json", coco(AB[1:])))
    lists = [str(tmp_path / "test" / split / "a.json") for split in ("train", "val")]
    found = {"train": ["images/a.jpg"], "validation": ["images/b.jpg"]}
    assert scanned(raw, ",".join(lists)) == found
    # Of one alone, nothing says that its folder means a split.
    assert [*scanned(raw, lists[1])] == ["train"]


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ([coco(AB, ids=[7, 7])], r"a.json: image 7 \(a.jpg\) and image 7 \(b.jpg\); expected one"),
        ([coco(["a.jpg"] * 2)], r"a.json: image 0 \(a.jpg\) and image 1 \(a.jpg\); expected one"),
        (
            [coco(["a.jpg", "./a.jpg"])],
            r"images/a.jpg is image 0 \(a.jpg\) in a.json and image 1 \(./a.jpg\) in a.json; exp",
        ),
        (
            [coco(AB[:1]), coco(AB[1:], {1: "cat", 2: "cow"})],
            "category 2 is dog in a.json and cow in b.json; expected one name; correct",
        ),
        (
            [coco(AB[:1]), coco(AB[1:], {1: "cat", 3: "dog"})],
            "dog is category 2 in a.json and 3 in b.json; expected one id; correct",
        ),
        (
            [coco(AB[:1]), coco(AB[:1], width=12)],
            r"a.json and b.json: image 0 \(a.jpg\) has boxes, and 12 x 12 and 16 x 12 pixels; exp",
        ),
        ([coco(AB[:1], width=0)], r"a.json: image 0 \(a.jpg\) has boxes, and 0 x 12 pixels; exp"),
        ([coco(AB[:1], width=1 << 40)], r"a.json: image 0 \(a.jpg\) has boxes, and 1.09951e\+12"),
    ],
)
def test_an_id_names_one_thing(lists: Sequence[str], message: str, tmp_path: Path) -> None:
    names = ["a.json", "b.json"][: len(lists)]
    tree(tmp_path, *images("images", *AB), *zip(names, lists, strict=True))
    with pytest.raises(SourceError, match=f"^{message}"):
        Folder(listing=",".join(names)).find(tmp_path, None)


def test_a_category_twice_in_a_file_has_one_name(tmp_path: Path) -> None:
    found = json.loads(coco(AB))
    found["categories"].append({"id": 1, "name": "cow"})
    tree(tmp_path, *images("images", *AB), ("a.json", json.dumps(found)))
    with pytest.raises(SourceError, match=r"^category 1 is cat in a.json and cow in a.json; exp"):
        Folder(listing="a.json").find(tmp_path, None)


@pytest.mark.parametrize("place", ["", "../lists/"])
def test_lists_of_one_name_are_told_apart(place: str, tmp_path: Path) -> None:
    names = [f"{place}{split}/a.json" for split in ("train", "val")]
    raw = tree(tmp_path / "raw", *images("images", *AB))
    tree(raw, (names[0], coco(AB)), (names[1], coco(AB[1:])))
    with pytest.raises(
        SourceError,
        match=r"^images/b.jpg is image . .* in .*a.json and image .* in .*a",
    ):
        Folder(listing=",".join(names)).find(raw, None)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            [("Annotations/a.xml", voc("a.jpg")), ("Annotations/b.xml", voc("a.jpg"))],
            r"JPEGImages/a.jpg is a.xml in Annotations/\*.xml and b.xml in .*; expected each image",
        ),
        (
            [
                ("Annotations/a.xml", voc("a.jpg")),
                ("Annotations/b.xml", voc("b.jpg")),
                ("ImageSets/Main/train.txt", "a\nb\n"),
                ("ImageSets/Main/val.txt", "b\n"),
            ],
            "b is in train.txt and in val.txt of ImageSets/Main; expected each image in one list",
        ),
    ],
)
def test_an_image_of_voc_is_one_image(
    files: Sequence[tuple[str, str]], message: str, tmp_path: Path
) -> None:
    tree(tmp_path, *images("JPEGImages", *AB), *files)
    with pytest.raises(SourceError, match=f"^{message}"):
        Folder(listing="Annotations").find(tmp_path, None)


def test_what_lists_of_voc_name_and_nothing_tells_is_counted(tmp_path: Path) -> None:
    files = [("Annotations/a 1.xml", voc("a 1.jpg")), ("ImageSets/Main/train.txt", '"a 1"\nc 1\n')]
    tree(tmp_path, *images("JPEGImages", "a 1.jpg"), *files)
    dataset = Folder(listing="Annotations")
    found = dataset.find(tmp_path, None)
    counts = dataset.scan(tmp_path, found, found.units[0]).counts
    assert counts == {"images in a list of ImageSets/Main without annotations, left out": 1}


def classes_of(raw: Path, out: Path, listing: str) -> tuple[list[str], dict[str, str], str]:
    """Of a data set its classes, that of each image, and what was said."""
    said: list[str] = []
    done = made(raw, out, listing=listing, progress=lambda it: said.append(it.message or ""))
    shown = {
        record.key: record.class_name
        for split in done.manifest.splits
        for record in dataprep.open(out, split=split)
    }
    return [name for name, _ in done.manifest.classes], shown, "\n".join(said)


def test_ids_decide_what_is_one_class(tmp_path: Path) -> None:
    kinds = {40: "Inocybe", 20: "Inocybe", -5: "Inocybe 40", 30: "Boletus"}
    names = [f"{number}.jpg" for number in range(4)]
    raw = tree(tmp_path / "raw", *images("images", *names), ("train.json", coco(names[1:], kinds)))
    # The other list has fewer categories, and in it the name alone would be enough.
    (raw / "val.json").write_text(coco(names[:1], {20: "Inocybe"}))
    for listing in ("train.json,val.json", "val.json,train.json"):
        classes, shown, said = classes_of(raw, tmp_path / listing, listing)
        assert classes == ["Inocybe 40 -5", "Inocybe 20", "Boletus", "Inocybe 40 40"]
        assert shown == {
            "0.jpg": "Inocybe 20",
            "1.jpg": "Inocybe 40 40",
            "2.jpg": "Inocybe 20",
            "3.jpg": "Inocybe 40 -5",
        }
        assert "2 categories are called Inocybe, and stay classes of their own: Inocybe" in said
        assert "no splits found" not in said


def test_forms_of_unicode_make_no_class(tmp_path: Path) -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    raw = tree(
        tmp_path / "raw", *images("images", *AB), ("train.json", coco(["a.jpg"], {1: composed}))
    )
    (raw / "val.json").write_text(coco(["b.jpg"], {1: decomposed}))
    tree(raw, ("Annotations/1.xml", voc("a.jpg", what=decomposed)))
    tree(raw, ("Annotations/2.xml", voc("b.jpg", what=composed)))
    for number, listing in enumerate(("train.json,val.json", "Annotations")):
        classes, shown, said = classes_of(raw, tmp_path / str(number), listing)
        assert (classes, {*shown.values()}) == ([composed], {composed})
        assert f"spelled in two forms of Unicode, and one class: {composed}" in said
    # Where there is one form only, it stays.
    classes, _, said = classes_of(raw, tmp_path / "one", "val.json")
    assert (classes, "Unicode" in said) == ([decomposed], False)


def test_coco_as_exporters_write_it(tmp_path: Path) -> None:
    """Flags that are no numbers, no box, ids as text, and addresses in place of names."""
    box = {"category_id": "10", "bbox": [0, 0, 8, 6]}
    said = {
        "images": [
            {"id": "1", "file_name": "a.jpg", "width": 16, "height": 12},
            {"id": 2, "coco_url": "http://host/of%20old/b.jpg?x=1", "width": 16, "height": 12},
            {"id": 3, "file_name": "c.jpg", "width": None, "height": None},
        ],
        "annotations": [
            {"image_id": 1, **box, "iscrowd": False},
            {"image_id": "2", **box, "iscrowd": True},
            {"image_id": 2, **box, "iscrowd": None},
            {"image_id": 3, "category_id": 9, "bbox": []},
        ],
        "categories": [{"id": "10", "name": "dog"}, {"id": "9", "name": "cat"}],
    }
    raw = tree(tmp_path / "raw", *images("images", *AB, "c.jpg"), ("list.json", json.dumps(said)))
    dataprep.folder(raw, tmp_path / "out", listing="list.json", num_shards=1, shuffle="none")
    with dataprep.open(tmp_path / "out") as records:
        assert [name for name, _ in records.classes] == ["cat", "dog"]
        found = [(it.key, it.class_name or it.synset, it.fields.get("crowds")) for it in records]
        boxes = [len(it.fields.get("boxes", ())) for it in records]
    assert [it[:2] for it in found] == [("a.jpg", "dog"), ("b.jpg", "dog"), ("c.jpg", "cat")]
    assert boxes == [1, 2, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": [{"id": 1}]}, "image 1 has no file_name, nor a coco_url"),
        (
            {"annotations": [{"image_id": 0, "category_id": 1, "bbox": [1, 2, 3]}]},
            r"a bbox of 3 numbers of image 0 \(a.jpg\); expected x, y, width and height",
        ),
    ],
)
def test_coco_that_says_too_little_is_one_line(
    change: Mapping[str, object], message: str, tmp_path: Path
) -> None:
    text = json.dumps({**json.loads(coco(AB)), **change})
    raw = tree(tmp_path / "raw", *images("images", *AB), ("list.json", text))
    with pytest.raises(SourceError, match=message):
        scanned(raw, "list.json")


@pytest.mark.parametrize(
    "name", ["a", "C:\\work\\photos\\a.jpg", "/home/me/a.png", "other.jpg", None]
)
def test_a_file_of_voc_names_its_image_somehow(name: str | None, tmp_path: Path) -> None:
    files = (*images("JPEGImages", "a.jpg"), ("Annotations/a.xml", voc(name)))
    assert scanned(tree(tmp_path / "raw", *files), "Annotations") == {"train": ["JPEGImages/a.jpg"]}
