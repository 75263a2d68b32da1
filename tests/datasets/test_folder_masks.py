"""Masks as they are published: in a tree of their own, beside images, in archives, lists, COCO."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import dataprep
from dataprep.datasets.folder.dataset import Folder
from dataprep.errors import DataprepError, UsageError
from tests.conftest import everyday, hashes

SIZES = {"a": (6, 9), "b": (8, 5), "c": (7, 7)}
FORMATS = ["webdataset", "tfrecord", "parquet", "hdf5", "arrayrecord"]


def levels_of(name: str) -> Any:
    """Different ones for each name."""
    height, width = SIZES[name]
    numbers = np.arange(height * width).reshape(height, width) % (3 + len(SIZES) * ord(name) % 7)
    return np.where(numbers == 2, 255, numbers).astype(np.uint8)


def saved(levels: Any, kind: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(levels).save(buffer, kind)
    return buffer.getvalue()


def image(name: str) -> bytes:
    return saved(np.stack([levels_of(name) // 2] * 3, 2), "JPEG")


def mask(name: str) -> bytes:
    return saved(levels_of(name))


def written(raw: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (raw / name).parent.mkdir(parents=True, exist_ok=True)
        (raw / name).write_bytes(data)
    return raw


def pairs(images: str, masks: str) -> dict[str, bytes]:
    """Images and masks at such paths, ``{}`` being the name; ``c`` is of the second split."""
    files = {}
    for name in SIZES:
        split = "val" if name == "c" else "train"
        for path, make in ((images, image), (masks, mask)):
            files[path.format(name, split=split)] = make(name)
    return files


def made(raw: Path, out: Path, **options: Any) -> dict[str, Any]:
    """The mask of each image, by the first letter of its name; None of one without."""
    told: list[str] = []
    options = {"progress": lambda it: told.append(it.message or ""), **options}
    dataprep.folder(raw, out, **options)
    dataprep.verify(out, level="decode")
    found = {}
    for split in dataprep.inspect(out).splits:
        with dataprep.open(out, split) as records:
            for one in records:
                name = one.key.rpartition("/")[2][0]
                found[name] = one.mask().tolist() if "mask" in one.fields else None
    found["told"] = "\n".join(told)
    return found


LAYOUTS: dict[str, tuple[dict[str, bytes], dict[str, Any]]] = {
    "ADE20K": (
        pairs("images/{split}/{}.jpg", "annotations/{split}/{}.png"),
        {"inside": "images", "mask_dir": "annotations", "unlabelled": True},
    ),
    "Cityscapes": (
        pairs("leftImg8bit/{split}/x/{}_leftImg8bit.png", "gtFine/{split}/x/{}_gtFine_labelIds.png")
        | {"gtFine/train/x/a_gtFine_color.png": saved(np.zeros((2, 2, 3), np.uint8))},
        {
            "inside": "leftImg8bit",
            "mask_dir": "gtFine",
            "mask_suffix": "_leftImg8bit=_gtFine_labelIds",
            "unlabelled": True,
        },
    ),
    "Pascal VOC": (
        pairs("JPEGImages/{}.jpg", "SegmentationClass/{}.png"),
        {"inside": "JPEGImages", "mask_dir": "SegmentationClass", "unlabelled": True},
    ),
    "class folders and a folder of masks": (
        pairs("{split}/cat/{}.jpg", "masks/{split}/cat/{}.png"),
        {"mask_dir": "masks"},
    ),
    "folders in each split": (
        pairs("{split}/images/{}.jpg", "{split}/masks/{}.png"),
        {"mask_dir": "masks", "unlabelled": True},
    ),
    "beside the images": (
        pairs("{split}/cat/{}.jpg", "{split}/cat/{}_mask.png"),
        {"mask_suffix": "_mask.png"},
    ),
    "the same names in two splits": (
        {"train/cat/1.jpg": image("a"), "val/cat/1.jpg": image("b")}
        | {"masks/train/cat/1.png": mask("a"), "masks/val/cat/1.png": mask("b")},
        {"mask_dir": "masks"},
    ),
}


@pytest.mark.parametrize("layout", [*LAYOUTS][:-1])
def test_masks_in_trees_are_found(layout: str, tmp_path: Path) -> None:
    files, options = LAYOUTS[layout]
    found = made(written(tmp_path / "raw", files), tmp_path / "out", **options)
    assert {name: found[name] for name in SIZES} == {it: levels_of(it).tolist() for it in SIZES}
    assert "without a mask" not in found["told"]
    assert "without an image" not in found["told"]


def test_splits_tell_masks_of_one_name_apart(tmp_path: Path) -> None:
    files, options = LAYOUTS["the same names in two splits"]
    dataprep.folder(written(tmp_path / "raw", files), tmp_path / "out", **options)
    for split, name in (("train", "a"), ("validation", "b")):
        with dataprep.open(tmp_path / "out", split) as records:
            assert records[0].mask().tolist() == levels_of(name).tolist()


@pytest.mark.parametrize("form", everyday(["zip", "txz"], ["tar", "tgz", "two zips"]))
def test_masks_in_archives_are_read_in_place(form: str, tmp_path: Path) -> None:
    files, options = LAYOUTS["ADE20K"]
    raw = tmp_path / "raw"
    raw.mkdir()
    kinds = {"images.zip": "images", "annotations.zip": "annotations"} if form[0] == "t" else {}
    if form == "two zips":
        for archive, top in kinds.items():
            with zipfile.ZipFile(raw / archive, "w", zipfile.ZIP_DEFLATED) as packed:
                for name, data in files.items():
                    if name.startswith(top):
                        packed.writestr(name.partition("/")[2], data)
        options = {"mask_dir": "annotations", "unlabelled": True}
    elif form == "zip":
        with zipfile.ZipFile(raw / "all.zip", "w", zipfile.ZIP_DEFLATED) as packed:
            for name, data in files.items():
                packed.writestr(name, data)
    else:
        mode: Any = {"tgz": "w:gz", "txz": "w:xz"}.get(form, "w")
        with tarfile.open(raw / f"all.{form}", mode) as tar:
            for name, data in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    found = made(raw, tmp_path / "out", **options)
    assert {name: found[name] for name in SIZES} == {it: levels_of(it).tolist() for it in SIZES}


@pytest.mark.parametrize("sink", everyday(["webdataset", "hdf5"], FORMATS))
def test_masks_survive_in_formats_and_conversions(sink: str, tmp_path: Path) -> None:
    if sink == "arrayrecord":
        pytest.importorskip("array_record", reason="needs array-record")
    files, options = LAYOUTS["ADE20K"]
    raw, out = written(tmp_path / "raw", files), tmp_path / "out"
    made(raw, out, sink=sink, **options)
    for number, other in enumerate(("tfrecord", "webdataset", sink)):
        there = tmp_path / str(number)
        dataprep.convert(out, to=there, sink=other)
        dataprep.verify(there, level="records")
        out = there
    with dataprep.open(out, "train") as records:
        found = {one.key[0]: one.mask().tolist() for one in records}
    assert found == {name: levels_of(name).tolist() for name in "ab"}


def test_what_is_scaled_from_raw_data_and_from_a_set_is_the_same(tmp_path: Path) -> None:
    files, options = LAYOUTS["ADE20K"]
    raw = written(tmp_path / "raw", files)
    direct = made(raw, tmp_path / "one", resize=4, encoding="png", **options)
    made(raw, tmp_path / "two", encoding="png", **options)
    dataprep.convert(tmp_path / "two", to=tmp_path / "three", sink="tfrecord", resize=4)
    with dataprep.open(tmp_path / "three", "train") as records:
        assert {one.key[0]: one.mask().tolist() for one in records} == {
            name: direct[name] for name in "ab"
        }
    found = np.asarray(direct["a"])
    expected = Image.fromarray(levels_of("a")).resize((6, 4), Image.Resampling.NEAREST)
    assert found.tolist() == np.asarray(expected).tolist()


def test_images_without_masks_and_masks_without_images_are_counted(tmp_path: Path) -> None:
    files = pairs("cat/{}.jpg", "masks/{}.png")
    del files["masks/b.png"]
    files["masks/d.png"] = mask("a")
    found = made(written(tmp_path / "raw", files), tmp_path / "out", mask_dir="masks")
    assert found["b"] is None
    assert "images without a mask: 1 in the raw data" in found["told"]
    assert "masks without an image: 1 in the raw data" in found["told"]
    contents: Any = dataprep.inspect(tmp_path / "out")
    assert contents.masks["train"].without == 1
    with dataprep.open(tmp_path / "out", "train") as records:
        bare = next(one for one in records if one.key == "cat/b.jpg")
        assert (bare.mask() == 255).all()
        assert bare.mask().shape == SIZES["b"]
    rules = {it.rule: it.count for it in dataprep.lint(tmp_path / "out").rules}
    assert rules["mask-missing"] == 1


def test_numbers_are_counted_and_named_by_what_they_mean(tmp_path: Path) -> None:
    raw = written(tmp_path / "raw", pairs("cat/{}.jpg", "masks/{}.png"))
    (tmp_path / "meanings.txt").write_text("nothing\nlung\n4\theart\n")
    options = {"mask_dir": "masks", "mask_classes": tmp_path / "meanings.txt"}
    made(raw, tmp_path / "out", mask_values={3: 4}, **options)
    contents: Any = dataprep.inspect(tmp_path / "out")
    found = {it.number: (it.name, it.images, it.pixels) for it in contents.masks["train"].numbers}
    levels = [np.where(levels_of(it) == 3, 4, levels_of(it)) for it in SIZES]
    names = {0: "nothing", 1: "lung", 4: "heart"}
    assert found == {
        number: (
            names.get(number, ""),
            sum(bool((it == number).any()) for it in levels),
            sum(int((it == number).sum()) for it in levels),
        )
        for number in {int(number) for it in levels for number in it.flat}
    }
    unknown = {*found} - {*names, 255}
    rules = {it.rule: it for it in dataprep.lint(tmp_path / "out").rules}
    assert bool(rules["mask-number"].count) == bool(unknown)


@pytest.mark.parametrize(
    ("files", "options", "told"),
    [
        (
            {"cat/a.jpg": image("a"), "m/x/a.png": mask("a"), "m/y/a.png": mask("a")},
            {"mask_dir": "m"},
            "cat/a.jpg has the masks m/x/a.png and m/y/a.png; expected one mask an image",
        ),
        (
            {"cat/a.jpg": image("a"), "dog/a.jpg": image("a"), "m/a.png": mask("a")},
            {"mask_dir": "m"},
            "m/a.png is the mask of cat/a.jpg and dog/a.jpg; expected one mask an image",
        ),
    ],
)
def test_masks_that_could_be_of_several_images_are_refused(
    files: dict[str, bytes], options: dict[str, Any], told: str, tmp_path: Path
) -> None:
    with pytest.raises(DataprepError) as refused:
        dataprep.folder(written(tmp_path / "raw", files), tmp_path / "out", **options)
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (saved(np.zeros((9, 9), np.uint8)), "are of a picture of 9x9 pixels, and it has 9x6"),
        (saved(np.full((6, 9, 3), (1, 2, 3), np.uint8)), "masks/a.png: its mask has colours (RGB)"),
        (b"no picture", "masks/a.png: not a JPEG"),
    ],
)
def test_an_image_whose_mask_cannot_be_its_is_rejected(
    data: bytes, told: str, tmp_path: Path
) -> None:
    files = pairs("cat/{}.jpg", "masks/{}.png") | {"masks/a.png": data}
    dataprep.folder(written(tmp_path / "raw", files), tmp_path / "out", mask_dir="masks", max_bad=1)
    found = dataprep.sql(
        tmp_path / "out", "select reason from records where status = 'rejected'"
    ).to_pylist()
    assert len(found) == 1
    assert told in found[0]["reason"]


def test_a_list_names_masks_by_their_paths(tmp_path: Path) -> None:
    raw = written(tmp_path / "raw", pairs("images/{}.jpg", "masks/of/{}_x.png"))
    lines = ["path,label,target", "images/a.jpg,cat,masks/of/a_x.png", "images/b.jpg,dog,b_x.png"]
    (raw / "list.csv").write_text("\n".join([*lines, "images/c.jpg,dog,"]) + "\n")
    options = {"listing": "list.csv", "mask_column": "target", "mask_dir": "masks/of"}
    found = made(raw, tmp_path / "out", **options)
    assert {name: found[name] for name in SIZES} == {
        "a": levels_of("a").tolist(),
        "b": levels_of("b").tolist(),
        "c": None,
    }


def test_a_list_has_runs_as_chexmask_publishes_them(tmp_path: Path) -> None:
    raw = written(tmp_path / "raw", {"a.png": saved(levels_of("a"))})
    height, width = SIZES["a"]
    (raw / "list.csv").write_text("path,label,Left Lung,Right Lung,Heart\na.png,x,1 2 10 3,,13 1\n")
    columns = ["Left Lung", "Right Lung", "Heart"]
    options: dict[str, Any] = {"listing": "list.csv", "mask_column": columns}
    found = made(raw, tmp_path / "out", mask_runs="rows", **options)
    flat = np.zeros(height * width, int)
    flat[[0, 1, 9, 10, 11]], flat[12] = 1, 3
    assert found["a"] == flat.reshape(height, width).tolist()
    contents: Any = dataprep.inspect(tmp_path / "out")
    names = {it.number: it.name for it in contents.masks["train"].numbers}
    assert names == {0: "background", 1: "Left Lung", 3: "Heart"}
    found = made(raw, tmp_path / "columns", mask_runs="columns", **options)
    assert found["a"] == flat.reshape(width, height).T.tolist()


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # theirs
def test_outlines_of_coco_become_masks(tmp_path: Path) -> None:
    coco = pytest.importorskip("pycocotools.mask", reason="needs pycocotools")
    raw = written(tmp_path / "raw", {f"{it}.jpg": image(it) for it in SIZES})
    height, width = SIZES["a"]
    polygon = [[1, 1, 7, 1, 7, 5, 1, 5]]
    packed = coco.encode(np.asfortranarray(np.eye(height, width, dtype=np.uint8)))
    packed["counts"] = packed["counts"].decode()
    boxes = {"bbox": [1, 1, 6, 4], "iscrowd": 0}
    shapes = [
        {"id": 1, "image_id": 1, "category_id": 18, "segmentation": polygon, **boxes},
        {"id": 2, "image_id": 1, "category_id": 90, "segmentation": packed, **boxes},
    ]
    listed = {
        "images": [
            {"id": at, "file_name": f"{it}.jpg", "height": SIZES[it][0], "width": SIZES[it][1]}
            for at, it in enumerate(SIZES, 1)
        ],
        "annotations": shapes,
        "categories": [{"id": 90, "name": "toothbrush"}, {"id": 18, "name": "dog"}],
    }
    (raw / "instances.json").write_text(json.dumps(listed))
    options = {"listing": "instances.json", "mask_outlines": True}
    found = made(raw, tmp_path / "out", **options)
    one = coco.decode(coco.merge(coco.frPyObjects(polygon, height, width)))
    two = np.eye(height, width, dtype=int)
    expected = np.where(one & two, 255, np.where(one, 1, np.where(two, 2, 0)))
    assert found["a"] == expected.tolist()
    assert found["b"] == np.zeros(SIZES["b"], int).tolist()
    contents: Any = dataprep.inspect(tmp_path / "out")
    names = {it.number: it.name for it in contents.masks["train"].numbers}
    assert names == {0: "background", 1: "dog", 2: "toothbrush", 255: ""}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"mask_outlines": True}, "--mask_outlines needs COCO's annotations"),
        ({"mask_runs": "rows"}, "--mask_runs needs --mask_column"),
        ({"mask_values": "1=2"}, "--mask_values and --mask_classes are about masks"),
        ({"mask_values": "1=256", "mask_dir": "m"}, "expected numbers from 0 to 255"),
        ({"mask_column": "a,b", "listing": "l.csv"}, "give --mask_runs rows or columns"),
        ({"mask_column": "a"}, "--mask_column"),
    ],
)
def test_options_that_exclude_each_other_are_refused(
    options: dict[str, Any], told: str, tmp_path: Path
) -> None:
    raw = written(tmp_path / "raw", {"cat/a.jpg": image("a")})
    written(raw, {"l.csv": b"path,label\n"} if "listing" in options else {})
    with pytest.raises(UsageError) as refused:
        dataprep.folder(raw, tmp_path / "out", **options)
    assert told in str(refused.value)


def test_masks_are_the_same_for_any_workers_and_growth(tmp_path: Path) -> None:
    raw = written(tmp_path / "raw", pairs("{split}/cat/{}.jpg", "masks/{split}/{}.png"))
    for workers in (1, 2):
        dataprep.folder(raw, tmp_path / f"out{workers}", mask_dir="masks", workers=workers)
    assert hashes(tmp_path / "out1") == hashes(tmp_path / "out2")
    late = {"train/cat/d.jpg": image("a"), "masks/train/d.png": mask("a")}
    written(raw, late)
    dataprep.folder(raw, tmp_path / "out1", mask_dir="masks", append=True)
    dataprep.verify(tmp_path / "out1", level="decode")
    with dataprep.open(tmp_path / "out1", "train") as records:
        assert {one.key[-5]: one.mask().tolist() for one in records}["d"] == levels_of("a").tolist()


def test_masks_of_all_frames_are_refused() -> None:
    with pytest.raises(UsageError, match="--frames all with masks, of which there is one a file"):
        Folder(frames="all", mask_dir="masks")


def test_an_image_without_a_mask_gets_none_of_another_folder(tmp_path: Path) -> None:
    files = {f"images/{it}/1.jpg": image("a") for it in ("cat", "cow", "dog")}
    files |= {"masks/cow/1.png": mask("a"), "masks/rat/1.png": mask("a")}
    raw, told = written(tmp_path / "raw", files), list[str]()
    options: dict[str, Any] = {"inside": "images", "mask_dir": "masks"}
    dataprep.folder(
        raw, tmp_path / "out", progress=lambda it: told.append(it.message or ""), **options
    )
    with dataprep.open(tmp_path / "out", "train") as records:
        found = {one.key: "mask" in one.fields for one in records}
    assert found == {"cat/1.jpg": False, "cow/1.jpg": True, "dog/1.jpg": False}
    assert "images without a mask: 2 in the raw data" in told
    assert "masks without an image: 1 in the raw data" in told


def test_folders_of_masks_archives_tell_equal_names_apart(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    for archive, make, suffix in (("images", image, "jpg"), ("masks", mask, "png")):
        with zipfile.ZipFile(raw / f"{archive}.zip", "w") as packed:
            for folder, name in (("p1", "a"), ("p2", "b")):
                packed.writestr(f"{folder}/1.{suffix}", make(name))
    dataprep.folder(raw, tmp_path / "out", mask_dir="masks", unlabelled=True)
    with dataprep.open(tmp_path / "out", "train") as records:
        found = {one.key: one.mask().tolist() for one in records}
    assert found == {f"images/p{n}/1.jpg": levels_of(it).tolist() for n, it in ((1, "a"), (2, "b"))}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"mask_dir": "masks"}, "no image has a mask: masks/x_mask.png is called like none; check"),
        ({"mask_dir": "labels"}, "no image has a mask: there are no masks; check --mask_dir"),
        (
            {"listing": "list.csv", "mask_column": "mask"},
            "no image has a mask: masks/x.png is not there; check",
        ),
    ],
)
def test_a_set_in_which_no_mask_is_found_is_refused(
    options: dict[str, Any], error: str, tmp_path: Path
) -> None:
    files = {"images/x.jpg": image("a"), "masks/x_mask.png": mask("a")}
    raw = written(tmp_path / "raw", files)
    (raw / "list.csv").write_text("path,mask\nimages/x.jpg,masks/x.png\n")
    options = options if "listing" in options else {"inside": "images", **options}
    with pytest.raises(DataprepError, match=error):
        dataprep.folder(raw, tmp_path / "out", unlabelled=True, **options)


ROWS = "ImageId,ClassId,EncodedPixels\na.jpg,3,1 2\nb.jpg,4,\na.jpg,1,2 2\na.jpg,3,54 1\n"


@pytest.mark.parametrize("labels", ["numbers", "names", "from 0", "none"])
def test_rows_of_one_image_have_runs_of_one_mask(labels: str, tmp_path: Path) -> None:
    raw = written(tmp_path / "raw", {f"{it}.jpg": image(it) for it in "ab"})
    wrong = {
        "names": ROWS.replace(",3,", ",edge,"),
        "from 0": "ImageId,ClassId,EncodedPixels\na.jpg,0,1 2\nb.jpg,1,1 2\n",
    }
    (raw / "list.csv").write_text(wrong.get(labels, ROWS))
    options: dict[str, Any] = {"unlabelled": True}
    if labels != "none":
        options = {"label_column": "ClassId", "label_separator": "|"}
    options |= {"path_column": "ImageId", "mask_column": "EncodedPixels", "mask_runs": "columns"}
    if labels in wrong:
        with pytest.raises(DataprepError, match=r"list\.csv has runs of labels that are no"):
            dataprep.folder(raw, tmp_path / "out", listing="list.csv", **options)
        return
    found = made(raw, tmp_path / "out", listing="list.csv", **options)
    wanted = np.zeros((6, 9), np.uint8)
    wanted.T.flat[[0, 53]] = 3 if labels == "numbers" else 1
    wanted.T.flat[1] = 255 if labels == "numbers" else 1  # of both classes
    wanted.T.flat[2] = 1
    expected = wanted.tolist(), np.zeros((8, 5), int).tolist()
    assert (found["a"], found["b"]) == expected
    assert "rows joined with another one of the same image: 2 in the raw data" in found["told"]
