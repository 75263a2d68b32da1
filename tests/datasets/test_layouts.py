"""Every layout is found, described, and yields the same examples."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataprep.datasets import ImageNet, read_image
from dataprep_schemas import imagenet_classes

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
def test_training_examples_are_the_same_in_every_layout(raw, layout):
    getattr(raw, layout)()
    found = ImageNet().find(raw.path, ["train"])
    assert found.description == (TRAIN[layout],)
    assert [unit.name for unit in found.units] == [f"train-{synset}" for synset in raw.synsets]
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
def test_validation_examples_are_the_same_in_every_layout(raw, layout):
    getattr(raw, layout)()
    assert ImageNet().find(raw.path, ["validation"]).description == (VALIDATION[layout],)
    rows, ignored = raw.scan("validation")
    assert not ignored
    assert sorted(row.key for row in rows) == sorted(raw.validation)
    for row in rows:
        assert imagenet_classes()[row.labels[0]][0] == raw.official(row.key)
        assert read_image(raw.path, row) == raw.validation[row.key]


def test_both_splits_are_demanded_unless_some_are_named(raw):
    raw.train_tree()
    raw.validation_flat("val")
    found = ImageNet().find(raw.path, None)
    assert [line.partition(":")[0] for line in found.description] == ["train", "validation"]
    assert found.official_counts == {"train": 1_281_167, "validation": 50_000}
    assert found.units == ImageNet().find(raw.path, ["validation", "train"]).units
    assert pickle.loads(pickle.dumps(found)) == found
    assert len({unit.name for unit in found.units}) == len(found.units)


def test_folders_and_archives_of_different_classes_may_be_mixed(raw):
    raw.train_tree(raw.synsets[1:2])
    raw.train_tars((raw.synsets[0], raw.synsets[2]))
    found = ImageNet().find(raw.path, ["train"])
    assert found.description == (
        "train: train/ (1 class folder and 2 class archives, read in place)",
    )
    assert [unit.category for unit in found.units] == list(raw.synsets)
    assert len(raw.scan("train")[0]) == 9


def test_links_in_a_tree_are_followed(raw, tmp_path, make_raw):
    other = make_raw(tmp_path / "other")
    other.train_tree()
    other.validation_archive()
    (raw.path / "train").mkdir()
    folder = raw.path / "train" / raw.synsets[0]
    folder.symlink_to(other.path / "train" / raw.synsets[0], target_is_directory=True)
    linked = raw.path / "train" / raw.synsets[1]
    linked.mkdir()
    for image in (other.path / "train" / raw.synsets[1]).iterdir():
        (linked / image.name).symlink_to(image)
    (raw.path / "ILSVRC2012_img_val.tar").symlink_to(other.path / "ILSVRC2012_img_val.tar")
    rows, ignored = raw.scan()
    assert (len(rows), ignored) == (6 + len(raw.validation), [])
    assert len(read_image(raw.path, rows[0])) == rows[0].size


def test_what_is_not_an_image_is_ignored_by_name_and_reason(raw):
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
        ("train", "README"): "neither a class folder nor a class archive",
        ("train", ".cache"): "hidden or system folder",
        (f"train/{imagenet_classes()[empty][0]}", ""): "empty class folder",
    }
    assert "ignoring .cache, README" in ImageNet().find(raw.path, ["train"]).description[0]


def test_a_script_beside_class_folders_is_no_contradiction(raw):
    raw.validation_classes("val")
    raw.write("val/valprep.sh", b"mv")
    rows, ignored = raw.scan("validation")
    assert len(rows) == len(raw.validation)
    assert [(entry.container, entry.name) for entry in ignored] == [("val", "valprep.sh")]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers())
def test_the_order_of_archive_members_does_not_matter(make_raw, seed):
    shuffle = random.Random(seed).shuffle
    with TemporaryDirectory() as directory:
        raw = make_raw(Path(directory) / "raw")
        outer = []
        for synset in raw.synsets:
            images = list(raw.train[synset].items())
            shuffle(images)
            outer.append((f"{synset}.tar", raw.tar(images)))
        shuffle(outer)
        raw.write_tar("ILSVRC2012_img_train.tar", outer)
        images = list(raw.validation.items())
        shuffle(images)
        raw.write_tar("ILSVRC2012_img_val.tar", images)
        rows = raw.scan()[0]
        train = [f"{synset}/{name}" for synset in raw.synsets for name in sorted(raw.train[synset])]
        assert [row.key for row in rows] == train + sorted(raw.validation)
        content = {key.partition("/")[2]: key for key in train}
        for row in rows:
            name = row.key.rpartition("/")[2]
            expected = raw.validation.get(name) or raw.train[content[name][:9]][name]
            assert read_image(raw.path, row) == expected
