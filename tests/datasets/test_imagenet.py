"""ILSVRC2012: every layout, validation labels, boxes, and what is missing or contradicts itself."""

from __future__ import annotations

import gzip
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dataprep.datasets import ImageNet, read_image
from dataprep.datasets.imagenet.dataset import read_bounding_boxes
from dataprep.errors import SourceError
from dataprep_schemas import imagenet_classes
from dataprep_schemas.fields import BOXES
from tests.datasets.conftest import RawData, places_of

TRAIN = {
    "train_tree": "train: train/ (3 class folders)",
    "train_tars": "train: train/ (3 class archives, read in place)",
    "train_archive": "train: ILSVRC2012_img_train.tar (3 class archives, read in place)",
}
VALIDATION = {
    "validation_flat": "validation: validation/ (one directory, labels from the shipped list)",
    "validation_classes": r"validation: validation/ (5 class folders)",
    "validation_archive": "validation: ILSVRC2012_img_val.tar (read in place, labels from the "
    "shipped list)",
}


@pytest.mark.parametrize("layout", TRAIN)
def test_training_examples_are_the_same_in_every_layout(raw: RawData, layout: str) -> None:
    getattr(raw, layout)()
    found = ImageNet().find(raw.path, ["train"])
    assert found.description == (TRAIN[layout],)
    places = [place for unit in found.units for place in places_of(unit)]
    assert [place.category for place in places] == list(raw.synsets)
    rows, ignored = raw.scan("train")
    assert not ignored
    assert [row.key for row in rows] == [
        f"{synset}/{name}" for synset in raw.synsets for name in sorted(raw.train[synset])
    ]
    for row in rows:
        synset, _, name = row.key.partition("/")
        assert imagenet_classes()[row.labels[0]][0] == synset
        assert row.modified == 1_339_200_000
        assert row.size == len(raw.train[synset][name])
        assert read_image(raw.path, row) == raw.train[synset][name]


@pytest.mark.parametrize("layout", VALIDATION)
def test_validation_examples_are_the_same_in_every_layout(raw: RawData, layout: str) -> None:
    getattr(raw, layout)()
    assert ImageNet().find(raw.path, ["validation"]).description == (VALIDATION[layout],)
    rows, ignored = raw.scan("validation")
    assert not ignored
    assert sorted(row.key for row in rows) == sorted(raw.validation)
    for row in rows:
        assert imagenet_classes()[row.labels[0]][0] == raw.official(row.key)
        assert read_image(raw.path, row) == raw.validation[row.key]


def test_both_splits_are_demanded_unless_some_are_named(raw: RawData) -> None:
    raw.train_tree()
    raw.validation_flat("val")
    found = ImageNet().find(raw.path, None)
    assert [line.partition(":")[0] for line in found.description] == ["train", "validation"]
    assert found.official_counts == {"train": 1_281_167, "validation": 50_000}
    assert found.units == ImageNet().find(raw.path, ["validation", "train"]).units
    assert pickle.loads(pickle.dumps(found)) == found
    assert len({unit.name for unit in found.units}) == len(found.units)


def test_folders_and_archives_of_different_classes_may_be_mixed(raw: RawData) -> None:
    raw.train_tree(raw.synsets[1:2])
    raw.train_tars((raw.synsets[0], raw.synsets[2]))
    found = ImageNet().find(raw.path, ["train"])
    assert found.description == (
        "train: train/ (1 class folder and 2 class archives, read in place)",
    )
    places = [place for unit in found.units for place in places_of(unit)]
    assert [place.category for place in places] == list(raw.synsets)
    assert len(raw.scan("train")[0]) == 9


def test_class_archives_may_be_compressed(raw: RawData) -> None:
    synset = raw.synsets[0]
    raw.write(f"train/{synset}.tar.gz", gzip.compress(raw.class_tar(synset)))
    found = ImageNet().find(raw.path, ["train"])
    (unit,) = found.units
    scanned = ImageNet().scan(raw.path, found, unit)
    assert [row.key for row in scanned.rows["train"]] == [
        f"{synset}/{name}" for name in sorted(raw.train[synset])
    ]
    assert {row.packing for row in scanned.rows["train"]} == {("gzip", unit.restarts_name)}
    assert scanned.restarts


def test_what_is_not_an_image_is_ignored_by_name_and_reason(raw: RawData) -> None:
    raw.train_tree()
    folder = f"train/{raw.synsets[0]}"
    raw.write(f"{folder}/._{raw.synsets[0]}_1.JPEG", b"")
    raw.write(f"{folder}/.DS_Store", b"")
    raw.write(f"{folder}/notes.txt", b"")
    raw.write(f"{folder}/more/x.JPEG", b"")
    raw.write(f"{folder}/lower.jpg", b"1")
    raw.write(f"{folder}/UPPER.PNG", b"1")
    raw.write("train/README", b"")
    raw.write("train/.cache/x", b"")
    empty = next(index for index, entry in enumerate(imagenet_classes()) if entry[0][-1] == "7")
    (raw.path / "train" / imagenet_classes()[empty][0]).mkdir()
    rows, ignored = raw.scan("train")
    assert len(rows) == 11
    reasons = {(entry.container, entry.name): entry.reason for entry in ignored}
    assert reasons == {
        (folder, f"._{raw.synsets[0]}_1.JPEG"): "hidden file",
        (folder, ".DS_Store"): "hidden file",
        (folder, "notes.txt"): "not an image name",
        (folder, "more"): "folder, not searched for images",
        (f"train/{imagenet_classes()[empty][0]}", ""): "empty class folder",
    }
    assert "ignoring .cache, README" in ImageNet().find(raw.path, ["train"]).description[0]


@pytest.mark.parametrize(
    "name",
    [
        "ILSVRC2012_val_00000000.JPEG",
        "ILSVRC2012_val_00050001.JPEG",
        "cat.png",
    ],
)
def test_a_name_without_a_number_in_range_is_refused(raw: RawData, name: str) -> None:
    raw.validation_flat()
    raw.write(f"validation/{name}", b"x")
    with pytest.raises(SourceError, match=f"validation image {name} has no number from 1 to 50000"):
        raw.scan("validation")


def test_bounding_boxes(tmp_path: Path) -> None:
    path = tmp_path / "boxes.csv"
    path.write_text("a.JPEG,0.1,0.2,0.3,0.4\nb.JPEG,0,0,1,1\na.JPEG,0.5,0.5,0.5,0.5\n\n")
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


@pytest.mark.parametrize(
    ("content", "said"),
    [("a" * 140_000, "field larger than field limit"), (None, r"--bbox_csv .*boxes\.csv")],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, content: str | None, said: str
) -> None:
    if content:
        (tmp_path / "boxes.csv").write_text(content)
    with pytest.raises(SourceError, match=said):
        read_bounding_boxes(tmp_path / "boxes.csv")


def test_boxes_are_part_of_the_index(raw: RawData, tmp_path: Path) -> None:
    raw.train_tree()
    name = next(iter(raw.train[raw.synsets[0]]))
    for at, box in enumerate(("0.1,0.2,0.3,0.4", "0,0,1,1")):
        (tmp_path / f"{at}.csv").write_text(f"{name},{box}\n")
    with_boxes, other = (ImageNet(bbox_csv=str(tmp_path / f"{at}.csv")) for at in (0, 1))
    assert with_boxes.config() != other.config()
    assert ImageNet().config() == {}
    assert ImageNet().find(raw.path, ["train"]).fields == ()
    found = with_boxes.find(raw.path, ["train"])
    assert found.fields == (BOXES,)
    scans = [with_boxes.scan(raw.path, found, unit) for unit in found.units]
    rows = [row for scan in scans for row in scan.rows["train"]]
    assert {row.key: row.fields["boxes"] for row in rows if row.fields} == {
        f"{raw.synsets[0]}/{name}": ((0.1, 0.2, 0.3, 0.4),)
    }


def build(*steps: str | tuple[str, bytes]) -> Callable[[RawData], None]:
    """Steps are names of builders, or files to write."""

    def run(raw: RawData) -> None:
        for step in steps:
            if isinstance(step, tuple):
                raw.write(*step)
            else:
                getattr(raw, step)()

    return run


REFUSED = {
    "train twice": (
        build("train_archive", "train_tree"),
        "found ILSVRC2012_img_train.tar and train/; expected the training images in one form",
    ),
    "validation archive and tree": (
        build("validation_archive", "validation_flat"),
        "found ILSVRC2012_img_val.tar and validation/; expected the validation images",
    ),
    "flat and folders": (
        build("validation_classes", ("validation/ILSVRC2012_val_00000002.JPEG", b"x")),
        r"images directly in validation/ \(ILSVRC2012_val_00000002.JPEG\) and folders \(n",
    ),
    "unknown train folder": (
        build("train_tree", ("train/n99999999/x.JPEG", b"x")),
        "unknown class: train/n99999999/; expected class folders or class archives",
    ),
    "unknown validation folder": (
        build("validation_classes", ("validation/dog/x.JPEG", b"x")),
        "unknown class: validation/dog/; expected class folders",
    ),
    "images outside class folders": (
        build("train_tree", ("train/loose.JPEG", b"x")),
        "images outside a class folder: train/loose.JPEG; expected train/<WordNet id>",
    ),
    "empty directories": (
        build(("train/.DS_Store", b""), ("validation/README", b"")),
        "no train and no validation images in .*; looked for train: ILSVRC2012_img_train.tar",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_contradictions_and_strangers_are_refused(raw: RawData, case: str) -> None:
    builder, message = REFUSED[case]
    builder(raw)
    splits = ["validation"] if "validation/" in message else None
    with pytest.raises(SourceError, match=message) as caught:
        ImageNet().find(raw.path, splits)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("outer", "message"),
    [
        ([("n01440764/n01440764_1.JPEG", b"x")], "found n01440764/n01440764_1.JPEG in ILSVRC"),
        ([("n00000000.tar", b"x")], "unknown class: n00000000.tar in ILSVRC2012_img_train.tar"),
        ([("._n01440764.tar", b"x")], "holds no class archives"),
    ],
)
def test_an_outer_archive_of_anything_but_class_archives_is_refused(
    raw: RawData, outer: list[tuple[str, bytes]], message: str
) -> None:
    raw.write_tar("ILSVRC2012_img_train.tar", outer)
    with pytest.raises(SourceError, match=re.escape(message)):
        ImageNet().find(raw.path, ["train"])


def test_a_missing_split_is_an_error_that_says_how_to_go_on(raw: RawData) -> None:
    raw.train_archive()
    with pytest.raises(SourceError) as caught:
        ImageNet().find(raw.path, None)
    message = str(caught.value)
    assert "no validation images" in message
    assert "looked for validation: ILSVRC2012_img_val.tar, validation/ILSVRC2012_val_*" in message
    assert "found ILSVRC2012_img_train.tar" in message
    assert "--splits train would take only what is there" in message
    assert len(ImageNet().find(raw.path, ["train"]).units) == 3


def test_a_raw_directory_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="none does not exist; expected"):
        ImageNet().find(tmp_path / "none", None)
    (tmp_path / "file").touch()
    with pytest.raises(SourceError, match="file is not a directory"):
        ImageNet().find(tmp_path / "file", None)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match=r"found nothing; check --raw"):
        ImageNet().find(tmp_path / "empty", None)
