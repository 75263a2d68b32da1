"""The folder data set: layouts as published, labels beside images, folders that are no classes."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import unicodedata
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from PIL import Image

from dataprep.datasets.folder.dataset import Folder
from tests.conftest import Cli, everyday, rows_of
from tests.docs.pages import DOCS
from tests.finished_sets import manifest_of

PAGE = (DOCS / "folder.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Other sets, as published")[2].partition("\n## ")[0]
COMMANDS = [
    (what, f"dataprep folder --raw_data_dir RAW --local_scratch_dir OUT {words}")
    for what, words in re.findall(r"^\| (.*?) \| `(--.*?)` \|$", SECTION, re.MULTILINE)
]
LISTS = dict(re.findall(r"```\ncd RAW  # (\S+)\n(.*?)```", SECTION, re.DOTALL))


def picture(number: int) -> bytes:
    stream = io.BytesIO()
    Image.effect_noise((24, 20), 40 + number).save(stream, "JPEG")
    return stream.getvalue()


def write(raw: Path, names: Sequence[str], texts: dict[str, str] | None = None) -> None:
    for number, name in enumerate(names):
        (raw / name).parent.mkdir(parents=True, exist_ok=True)
        (raw / name).write_bytes(picture(number))
    for name, text in (texts or {}).items():
        (raw / name).parent.mkdir(parents=True, exist_ok=True)
        (raw / name).write_text(text, encoding="utf-8")


# Of each: images, texts beside them, and the labels they must get, by split and key.
V2, TINY = "imagenetv2-matched-frequency-format-val", ["n01443537", "n01629819"]
PUBLISHED: dict[str, tuple[list[str], dict[str, str], list[Any]]] = {
    "ImageNetV2": (
        [f"{V2}/{number}/x{number}.jpeg" for number in (0, 1, 2, 10)],
        {},
        [("test", f"{number}/x{number}.jpeg", str(number)) for number in (0, 1, 2, 10)],
    ),
    "Intel": (
        [f"seg_{s}/seg_{s}/{c}/{c}{s}.jpg" for s in ("train", "test") for c in ("sea", "street")]
        + ["seg_pred/seg_pred/1.jpg"],
        {},
        [("train", f"{c}/{c}train.jpg", c) for c in ("sea", "street")],
    ),
    "the same": (
        [f"seg_{s}/seg_{s}/{c}/{c}{s}.jpg" for s in ("train", "test") for c in ("sea", "street")],
        {},
        [("test", f"{c}/{c}test.jpg", c) for c in ("sea", "street")],
    ),
    "GTSRB": (
        ["Train/0/a.png", "Train/10/b.png", "Train/2/c.png", "Test/1.png", "Meta/0.png"],
        {
            "Train.csv": "Width,Height,ClassId,Path\n"
            + "9,9,0,Train/0/a.png\n9,9,10,Train/10/b.png\n9,9,2,Train/2/c.png\n",
            "Test.csv": "Width,ClassId,Path\n9,1,Test/1.png\n",
        },
        [("train", f"Train/{n}/{k}.png", n) for n, k in (("0", "a"), ("2", "c"), ("10", "b"))],
    ),
    "iNaturalist": (
        [f"{split}/0000{n}_Animalia/{split}.jpg" for split in ("train", "val") for n in (0, 1)],
        {"train.json": '{"images": [{"file_name": "train/00000_Animalia/train.jpg"}]}'},
        [
            *(("train", f"0000{n}_Animalia/train.jpg", f"0000{n}_Animalia") for n in (0, 1)),
            *(("validation", f"0000{n}_Animalia/val.jpg", f"0000{n}_Animalia") for n in (0, 1)),
        ],
    ),
    "HAM10000": (
        ["HAM10000_images_part_1/ISIC_1.jpg", "HAM10000_images_part_2/ISIC_2.jpg"],
        {"HAM10000_metadata.csv": "lesion_id,image_id,dx\nH1,ISIC_1,nv\nH2,ISIC_2,bkl\n"},
        ["nv", "bkl"],
    ),
    "APTOS": (
        ["train_images/ab1.png", "train_images/ab2.png", "test_images/x.png"],
        {"train.csv": "id_code,diagnosis\nab1,2\nab2,0\n", "test.csv": "id_code\nx\n"},
        ["2", "0"],
    ),
    "Tiny-ImageNet": (
        [f"train/{c}/images/{c}_0.JPEG" for c in TINY]
        + ["val/images/val_0.JPEG", "val/images/val_1.JPEG", "test/images/test_0.JPEG"],
        {
            "val/val_annotations.txt": f"val_0.JPEG\t{TINY[1]}\t0\t32\t44\t62\n"
            f"val_1.JPEG\t{TINY[0]}\t52\t55\t57\t59\n",
            "wnids.txt": f"{TINY[1]}\n{TINY[0]}\n",
        },
        [
            *(("train", f"train/{c}/images/{c}_0.JPEG", c) for c in TINY),
            ("validation", "val/images/val_0.JPEG", TINY[1]),
            ("validation", "val/images/val_1.JPEG", TINY[0]),
        ],
    ),
    "Food-101": (
        [f"images/{c}/{n}.jpg" for c in ("pho", "taco") for n in (1, 2)],
        {"meta/train.txt": "pho/1\ntaco/1\n", "meta/test.txt": "pho/2\ntaco/2\n"},
        [
            *(("train", f"{c}/1", c) for c in ("pho", "taco")),
            *(("test", f"{c}/2", c) for c in ("pho", "taco")),
        ],
    ),
}


@pytest.mark.parametrize(
    "name", everyday(["ImageNetV2", "Tiny-ImageNet", "Food-101", "APTOS"], [*PUBLISHED])
)
def test_the_command_of_a_set_as_published(tmp_path: Path, cli: Cli, name: str) -> None:
    raw, out = tmp_path / "raw", tmp_path / "out"
    images, texts, expected = PUBLISHED[name]
    write(raw, images, texts)
    if script := LISTS.get(name):
        subprocess.run(["bash", "-ec", script], cwd=raw, check=True)
    (command,) = [text for what, text in COMMANDS if name in what.split(":")[0]]
    words = [
        word.replace("RAW", str(raw)).replace("OUT", str(out))
        for word in shlex.split(command.replace("list.csv", str(tmp_path / "list.csv")))[1:]
    ]
    assert cli(*words, "--workers", 1).code == 0
    classes = [name for name, _ in manifest_of(out)["classes"]]
    found = [(split, key, classes[label]) for split, key, label in labels(out)]
    if isinstance(expected[0], str):
        assert sorted(label for *_, label in found) == sorted(expected)
    else:
        assert sorted(found) == sorted(expected)


def labels(out: Path) -> list[tuple[str, str, int]]:
    rows = rows_of(out)
    return sorted((row["split"], row["key"], row["labels"][0]) for row in rows if row["labels"])


SIX = [f"{number}.jpg" for number in range(6)]
YOLO = {f"{number}.txt": "0 .5 .5 .2 .2\n" for number in range(6)}


@pytest.mark.parametrize(
    ("images", "texts", "said"),
    [
        # labels in files beside the images
        (
            [f"images/train/{name}" for name in SIX],
            {f"labels/train/{name}": text for name, text in YOLO.items()},
            r"found labels/ \(6 \.txt\), which may have the labels",
        ),
        (
            [f"{split}/images/{name}" for split in ("train", "valid") for name in SIX],
            {f"{s}/labels/{name}": text for s in ("train", "valid") for name, text in YOLO.items()},
            r"found train/labels/ \(6 \.txt\)",
        ),
        (["a/1.jpg", "b/2.jpg"], {"data.yaml": "names: [a, b]\n"}, r"found data\.yaml"),
        (["jpg/1.jpg", "more/2.jpg"], {"imagelabels.mat": "MATLAB"}, r"found imagelabels\.mat"),
        (
            ["images/001.A/1.jpg", "images/002.B/2.jpg"],
            {"images.txt": "1 001.A/1.jpg\n", "parts/a.txt": "1", "parts/b.txt": "2"},
            r"found images\.txt, parts/ \(2 \.txt\)",
        ),
        (
            ["images/A_1.jpg", "annotations/trimaps/A_1.png"],
            {"annotations/xmls/A_1.xml": "<annotation/>"},
            r"found annotations/ \(1 \.xml\)",
        ),
        (["pictures/1.jpg", "more/1.jpg"], {"devkit/meta.mat": "M"}, r"devkit/ \(1 \.mat\)"),
        (["a/1.jpg", "b/2.jpg"], {"a/1.json": "{}"}, r"a has 1\.json beside images of the same"),
        (["a/1.jpg", "b/2.jpg"], {"b/x/2.txt": "0 1"}, r"b has x/2\.txt beside images"),
        (
            ["train/a/1.jpg", "val/images/1.jpg"],
            {"val/val_annotations.txt": "1.jpg\ta\t0\t0\t9\t9\n"},
            r"found val/val_annotations\.txt",
        ),
        # folders that are no classes
        (
            ["seg_train/a/1.jpg", "seg_test/a/1.jpg"],
            {},
            r"seg_test, seg_train, which look like spl",
        ),
        (["train2017/1.jpg", "val2017/1.jpg"], {}, r"--inside train2017 --split_name train"),
        (["v2/format-val/0/1.jpg", "v2/format-val/1/1.jpg"], {}, r"give --inside v2/format-val if"),
        (["images/a/1.jpg", "b/1.jpg"], {}, r"found images, which look like .* --inside images"),
        (["images_001/1.jpg", "images_002/2.jpg"], {}, r"found images_001, images_002, which look"),
        (
            ["train_images/1.jpg"],
            {},
            r"found train_images, .* --inside train_images if",
        ),
        (["train/images/a/1.jpg", "val/images/a/2.jpg"], {}, r"found images, .* path if class"),
        (["train/w/a/1.jpg", "train/w/b/1.jpg", "val/w/a/2.jpg"], {}, r"w holds a, b, .* path if"),
        (["train/a/1.jpg", "train/b/1.jpg", "val/photos/1.jpg"], {}, r"none of those of train"),
        (
            ["train/a/1.jpg", "train/b/1.jpg", "val/x/1.jpg", "test/x/1.jpg"],
            {},
            r"test: its classes \(x\) are none of those of train \(a, b\)",
        ),
    ],
)
def test_what_is_refused(
    tmp_path: Path, cli: Cli, images: list[str], texts: dict[str, str], said: str
) -> None:
    write(tmp_path / "raw", images, texts)
    result = cli("folder", "--raw", tmp_path / "raw", "--out", tmp_path / "out", "--workers", 1)
    assert result.code == 1
    assert re.search(said, result.err), result.err
    assert result.err.count("\n") <= 8


@pytest.mark.parametrize(
    ("images", "texts", "options"),
    [
        (["labels/1.jpg", "boxes/2.jpg"], {}, {}),  # names alone are nothing
        (
            ["a/1.jpg", "b/2.jpg"],
            {"README.txt": "see a", "LICENSE.txt": "MIT", "classes.txt": "a\nb\n",
             "requirements.txt": "numpy\n", "a/a_boxes.txt": "x\t0", "notes.json": "{}"},
            {},
        ),
        (
            ["a/1.jpg", "b/2.jpg"],
            {"README.txt": "such as a/1.jpg", "LICENSE.txt": "1.jpg: by", "words.txt": "of 1.jpg"
             "\nand\nof\nothers\n", "a/._1.jpg": "", ".DS_Store": "", "b/Thumbs.db": ""},
            {},
        ),
        (["test_tube/1.jpg", "train/1.jpg", "bus/1.jpg"], {}, {"split_folders": "never"}),
        (["test_tube/1.jpg", "steam_train/1.jpg", "bus/1.jpg", "cat/1.jpg"], {}, {}),
        (["a/1.jpg", "b/2.jpg"], {"a/1.json": "{}", "x.mat": ""}, {"listing": "none"}),
        (["train/a/1.jpg", "train/b/1.jpg", "val/a/1.jpg", "val/c/1.jpg"], {}, {}),
        (["person/1.jpg"], {}, {}),
        (["images/1.jpg"], {}, {"unlabelled": "true"}),
    ],
)  # fmt: skip
def test_what_is_not_refused(
    tmp_path: Path, cli: Cli, images: list[str], texts: dict[str, str], options: dict[str, str]
) -> None:
    write(tmp_path / "raw", images, texts)
    words = [
        word
        for name, value in options.items()
        for word in ([f"--{name}"] if value == "true" else [f"--{name}", value])
    ]
    words += ["--dry_run", "--workers", "1"]
    result = cli("folder", "--raw", tmp_path / "raw", "--out", tmp_path / "out", *words)
    assert result.code == 0, result.err
    only = "person is the only class; --listing FILE if a table has the labels"
    assert (only in result.out + result.err) is (images == ["person/1.jpg"])


def test_a_class_list_makes_classes_of_such_folders(tmp_path: Path) -> None:
    write(tmp_path / "raw", ["images/1.jpg", "seg_train/2.jpg", "seg_test/2.jpg"])
    (tmp_path / "classes.txt").write_text("images\nseg_test\nseg_train\n", encoding="utf-8")
    found = Folder(classes=str(tmp_path / "classes.txt")).find(tmp_path / "raw", None)
    assert len(found.units) == 3


def test_a_class_in_two_forms_of_unicode_is_one(tmp_path: Path, cli: Cli) -> None:
    forms = [unicodedata.normalize(form, "café") for form in ("NFC", "NFD")]
    write(tmp_path / "raw", [f"train/{forms[0]}/1.jpg", "train/Café/2.jpg", "train/cafe/3.jpg"])
    with zipfile.ZipFile(tmp_path / "raw/val.zip", "w") as archive:
        for number, name in enumerate((forms[1], "Café")):
            archive.writestr(f"{name}/{number}.jpg", picture(number))
    words = ("folder", "--raw", tmp_path / "raw", "--workers", 1)
    result = cli(*words, "--out", tmp_path / "out")
    assert result.code == 0
    assert f"spelled in two forms of Unicode, and one class: {forms[0]}" in result.out
    classes = manifest_of(tmp_path / "out")["classes"]
    assert [name for name, _ in classes] == ["Café", "cafe", forms[0]]
    assert labels(tmp_path / "out") == [
        ("train", "Café/2.jpg", 0),
        ("train", "cafe/3.jpg", 1),
        ("train", f"{forms[0]}/1.jpg", 2),
        ("validation", "Café/1.jpg", 0),
        ("validation", f"{forms[1]}/0.jpg", 2),
    ]
    (tmp_path / "classes.txt").write_text(f"{forms[1]}\nCafé\ncafe\n", encoding="utf-8")
    result = cli(*words, "--out", tmp_path / "listed", "--classes", tmp_path / "classes.txt")
    assert result.code == 0
    assert {label for _, key, label in labels(tmp_path / "listed") if key[:3] == "caf"} == {0, 2}


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_list_of_classes_may_have_another_form_than_a_listing(
    tmp_path: Path, cli: Cli, form: Literal["NFC", "NFD"]
) -> None:
    other: Literal["NFC", "NFD"] = "NFD" if form == "NFC" else "NFC"
    rows = f"path,label\n1.jpg,{unicodedata.normalize(other, 'café')}\n2.jpg,tea\n3.jpg,rêve\n"
    write(tmp_path / "raw", ["1.jpg", "2.jpg", "3.jpg"], {"list.csv": rows})
    (tmp_path / "classes.txt").write_text(
        f"tea\n{unicodedata.normalize(form, 'café')}\n", encoding="utf-8"
    )
    words = ["--listing", "list.csv", "--classes", tmp_path / "classes.txt", "--workers", 1]
    words += ["--no_label", unicodedata.normalize(form, "rêve")]
    assert cli("folder", "--raw", tmp_path / "raw", "--out", tmp_path / "out", *words).code == 0
    assert labels(tmp_path / "out") == [("train", "1.jpg", 1), ("train", "2.jpg", 0)]


def test_a_wrapper_in_an_archive_is_no_class(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "raw").mkdir()
    with zipfile.ZipFile(tmp_path / "raw/s.zip", "w") as archive:
        for name in ("p/train/a/1.jpg", "p/train/b/1.jpg", "p/val/a/2.jpg"):
            archive.writestr(name, picture(1))
    words = ["folder", "--raw", tmp_path / "raw", "--out", tmp_path / "out", "--workers", 1]
    assert "p holds train, val, which are splits" in cli(*words).err
    assert cli(*words, "--inside", "p").code == 0
    assert sorted(label for *_, label in labels(tmp_path / "out")) == [0, 0, 1]
    (tmp_path / "raw/s.zip").unlink()
    with zipfile.ZipFile(tmp_path / "raw/images.zip", "w") as archive:
        for number, name in enumerate(("001.x", "002.y")):
            archive.writestr(f"CUB/images/{name}/{number}.jpg", picture(number))
    words[4] = tmp_path / "another"
    for inside in ((), ("--inside", "CUB")):
        result = cli(*words, *inside)
        assert result.code == 1
        assert "images holds 001.x, 002.y" in result.err
        assert "give --inside CUB/images if these are the classes" in result.err
    assert cli(*words, "--inside", "CUB/images", "--overwrite").code == 0
    assert labels(tmp_path / "another") == [
        ("train", "001.x/0.jpg", 0),
        ("train", "002.y/1.jpg", 1),
    ]


@pytest.mark.parametrize(
    "images", [["dog/1.jpg", "cat/2.jpg"], ["train/dog/1.jpg", "val/dog/2.jpg", "train/cat/2.jpg"]]
)
def test_a_folder_of_labels_is_no_class_where_folders_tell_them(
    tmp_path: Path, cli: Cli, images: list[str]
) -> None:
    write(tmp_path / "raw", images, {"annotations/1.xml": "<a/>", "annotations/2.xml": "<a/>"})
    words = ["folder", "--raw", tmp_path / "raw", "--out", tmp_path / "out", "--workers", 1]
    assert "found annotations/ (2 .xml)" in cli(*words).err
    assert cli(*words, "--listing", "none").code == 0
    assert {(key, label) for _, key, label in labels(tmp_path / "out")} == {
        (image.removeprefix("train/").removeprefix("val/"), int("dog" in image)) for image in images
    }


def test_what_is_said_of_a_wrapper_in_a_split_works(tmp_path: Path, cli: Cli) -> None:
    write(tmp_path / "raw", ["train/w/a/1.jpg", "val/w/a/2.jpg", "val/w/b/3.jpg"])
    words = ["folder", "--raw", tmp_path / "raw", "--out", tmp_path / "out", "--workers", 1]
    (advice,) = re.findall("give (--inside .*?) if", cli(*words, "--splits", "validation").err)
    assert advice == "--inside val/w --split_name validation"
    assert cli(*words, *advice.split()).code == 0
    assert labels(tmp_path / "out") == [
        ("validation", "a/2.jpg", 0),
        ("validation", "b/3.jpg", 1),
    ]


def test_slashes_of_windows_in_a_listing(tmp_path: Path, cli: Cli) -> None:
    rows = "path,label\n.\\a\\1.jpg,x\na\\b\\2.jpg,y\na/3.jpg,x\n"
    write(tmp_path / "raw", ["a/1.jpg", "a/b/2.jpg", "a/3.jpg"], {"list.csv": rows})
    words = ["--raw", tmp_path / "raw", "--out", tmp_path / "out", "--workers", 1]
    assert cli("folder", "--listing", "list.csv", *words).code == 0
    assert labels(tmp_path / "out") == [
        ("train", "a/1.jpg", 0),
        ("train", "a/3.jpg", 0),
        ("train", "a/b/2.jpg", 1),
    ]


def test_the_split_that_has_a_table_can_be_taken_alone(tmp_path: Path, cli: Cli) -> None:
    table = {"train/metadata.csv": "file_name,label\n1.jpg,a\n"}
    write(tmp_path / "raw", ["train/1.jpg", "test/2.jpg"], table)
    words = ["folder", "--raw", tmp_path / "raw", "--out", tmp_path / "out", "--workers", 1]
    said = cli(*words).err
    assert "or take one split with --inside train --split_name train" in said
    assert cli(*words, "--inside", "train", "--split_name", "train").code == 0
    assert labels(tmp_path / "out") == [("train", "1.jpg", 0)]


@pytest.mark.parametrize("option", [["--listing", "none"], ["--unlabelled"]])
def test_no_image_in_a_folder_called_like_labels_is_lost(
    tmp_path: Path, cli: Cli, option: list[str]
) -> None:
    raw = tmp_path / "raw"
    write(raw, ["cat/1.jpg", "labels/z.jpg"], {f"labels/{n}.txt": "" for n in range(2100)})
    words = ["folder", "--raw", raw, "--out", tmp_path / "out", "--workers", 1, *option]
    assert cli(*words).code == 0
    assert manifest_of(tmp_path / "out")["totals"]["records"] == 2
