"""What is missing, contradictory or strange is refused, and the message says how to go on."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from dataprep.datasets import ImageNet
from dataprep.errors import SourceError, UsageError


def build(*steps):
    """Steps are names of builders, or files to write."""

    def run(raw):
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
        r"images directly in validation/ \(ILSVRC2012_val_00000002.JPEG\) and folders \(valid",
    ),
    "folder and archive of a class": (
        build("train_tree", "train_tars"),
        "found n[0-9]+, n.* both as a folder and as an archive in train/; expected each class",
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
def test_contradictions_and_strangers_are_refused(raw, case):
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
        ([("n01440764.tar", b"x"), ("a/n01440764.tar", b"y")], "holds n01440764.tar twice"),
        ([("._n01440764.tar", b"x")], "holds no class archives"),
    ],
)
def test_an_outer_archive_of_anything_but_class_archives_is_refused(raw, outer, message):
    raw.write_tar("ILSVRC2012_img_train.tar", outer)
    with pytest.raises(SourceError, match=re.escape(message)):
        ImageNet().find(raw.path, ["train"])


def test_a_missing_split_is_an_error_that_says_how_to_go_on(raw):
    raw.train_archive()
    with pytest.raises(SourceError) as caught:
        ImageNet().find(raw.path, None)
    message = str(caught.value)
    assert "no validation images" in message
    assert "looked for validation: ILSVRC2012_img_val.tar, validation/ILSVRC2012_val_*" in message
    assert "found ILSVRC2012_img_train.tar" in message
    assert "--splits train would take only what is there" in message
    assert len(ImageNet().find(raw.path, ["train"]).units) == 3


@pytest.mark.parametrize("below", ["ILSVRC/Data/CLS-LOC", "imagenet"])
def test_a_directory_too_high_is_recognised(tmp_path, make_raw, below):
    (tmp_path / below).parent.mkdir(parents=True, exist_ok=True)
    inner = make_raw(tmp_path / below)
    inner.train_tree()
    inner.validation_flat("val")
    with pytest.raises(SourceError, match=f"did you mean --raw_data_dir {tmp_path / below} "):
        ImageNet().find(tmp_path, None)
    assert len(inner.scan()[0]) == 9 + len(inner.validation)


@pytest.mark.parametrize("typed", ["train", "val", "train/{synset}", "val/."])
def test_a_directory_too_low_is_recognised(raw, typed):
    raw.train_tree()
    raw.validation_flat("val")
    lower = raw.path / typed.format(synset=raw.synsets[0])
    with pytest.raises(SourceError, match=f"did you mean --raw_data_dir {raw.path} "):
        ImageNet().find(lower, None)


def test_a_raw_directory_that_is_none(tmp_path):
    with pytest.raises(SourceError, match="none does not exist; expected"):
        ImageNet().find(tmp_path / "none", None)
    (tmp_path / "file").touch()
    with pytest.raises(SourceError, match="file is not a directory"):
        ImageNet().find(tmp_path / "file", None)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match=r"found nothing; check --raw_data_dir"):
        ImageNet().find(tmp_path / "empty", None)


def test_dangling_links_are_errors(raw):
    raw.train_tree()
    (raw.path / "train" / raw.synsets[0] / "x.JPEG").symlink_to("gone.JPEG")
    with pytest.raises(SourceError, match=r"x.JPEG is a symbolic link to gone.JPEG, which cannot"):
        raw.scan("train")
    (raw.path / "ILSVRC2012_img_val.tar").symlink_to("/gone.tar")
    with pytest.raises(SourceError, match=r"img_val.tar is a symbolic link to /gone.tar, which"):
        raw.scan("validation")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("train/cat/1.jpg", "if it is another image set, prepare it with `dataprep folder`"),
        ("cat/1.jpg", "if it is another image set, prepare it with `dataprep folder`"),
        ("1.jpg", "`dataprep folder` with --listing FILE takes loose images"),
    ],
)
def test_another_image_set_is_sent_to_the_command_for_it(raw, name, hint):
    raw.write(name, b"x")
    with pytest.raises(SourceError, match=f"{hint}$"):
        ImageNet().find(raw.path, None)


@pytest.mark.parametrize("splits", [["test"], []])
def test_splits_that_do_not_exist(raw, splits):
    with pytest.raises(UsageError, match="the splits are train, validation"):
        ImageNet().find(raw.path, splits)


def test_a_named_pipe_is_never_opened(raw):
    raw.train_tars()
    os.mkfifo(raw.path / "train" / "n01440764.tar")
    rows, ignored = raw.scan("train")
    assert len(rows) == 9
    assert [(entry.name, entry.reason) for entry in ignored] == [
        ("n01440764.tar", "not a regular file")
    ]


def test_what_the_system_refuses_is_a_source_error(raw, monkeypatch):
    raw.train_tree()
    unit = ImageNet().find(raw.path, ["train"]).units[0]

    scandir = os.scandir

    def refuse(path):
        if Path(path) == raw.path:  # where pathlib may look too, by Python's version
            return scandir(path)
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(SourceError, match=r"cannot read train: Permission denied; check that"):
        ImageNet().find(raw.path, ["train"])
    with pytest.raises(SourceError, match=f"cannot read {unit.container}: Permission denied"):
        ImageNet().scan(raw.path, unit)
