"""ChestX-ray14 in each of its forms: the same rows, the same splits, no patient in two."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dataprep.datasets import Found
from dataprep.datasets.chestxray14.dataset import FIELDS, ChestXray14
from dataprep.errors import SourceError, UsageError
from dataprep.rows import Scanned
from dataprep.tables.arrow import index_tables

Step = Callable[["Radiographs"], object]
MODIFIED = 1_500_000_000
HEADER = (
    "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position,"
    "OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y]"
)
FINDINGS = ("No Finding", "Mass|Hernia", "Infiltration", "Effusion", "Nodule|Atelectasis")
PARTS = {
    1: ["00000001_000.png", "00000001_001.png", "00000002_000.png", "00000003_000.png"],
    2: ["00000004_000.png", "00000005_000.png", "00000005_001.png"],
}
NAMES = [name for names in PARTS.values() for name in names]
TEST = [name for name in NAMES if name[:8] in ("00000003", "00000005")]
TRAIN_VALIDATION = [name for name in NAMES if name not in TEST]
CONTENT = {
    name: f"radiograph {name} ".encode() * (position + 1) for position, name in enumerate(NAMES)
}


def label_row(position: int, name: str) -> str:
    findings = FINDINGS[position % len(FINDINGS)]
    return f"{name},{findings},{position},{int(name[:8])},{50 + position},F,AP,2,2,0.1,0.1"


class Radiographs:
    """Builds raw directories and scans them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self.lists()

    def write(self, name: str, content: bytes = b"x") -> None:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        os.utime(file, (MODIFIED, MODIFIED))

    def write_lines(self, name: str, lines: Iterable[str]) -> None:
        self.write(name, "\n".join(lines).encode())

    def lists(self, folder: str = "", names: Sequence[str] = NAMES) -> None:
        rows = [label_row(position, name) for position, name in enumerate(names)]
        self.write_lines(f"{folder}Data_Entry_2017_v2020.csv", [HEADER, *rows])
        self.write_lines(f"{folder}train_val_list.txt", TRAIN_VALIDATION)
        self.write_lines(f"{folder}test_list.txt", TEST)

    def boxes(self, *lines: str) -> None:
        self.write_lines(
            "BBox_List_2017.csv", ["Image Index,Finding Label,Bbox [x,y,w,h],,,", *lines]
        )

    def folders(self, inner: str = "images/", above: str = "") -> None:
        for part, names in PARTS.items():
            for name in names:
                self.write(f"{above}images_{part:03d}/{inner}{name}", CONTENT[name])

    def flat(self, folder: str = "images", names: Sequence[str] = NAMES) -> None:
        for name in names:
            self.write(f"{folder}/{name}", CONTENT.get(name, b"x"))

    def packed(self, form: str, above: str = "", digits: int = 3) -> None:
        self.folders(above=above)
        for part in PARTS:
            folder = self.path / f"{above}images_{part:03d}"
            base = folder.with_name(f"images_{part:0{digits}d}")
            shutil.make_archive(str(base), form, folder)
            shutil.rmtree(folder)

    def find(self, splits: Sequence[str] | None = None, **options: str) -> Found:
        return ChestXray14(**options).find(self.path, splits)

    def scan(self, **options: str) -> tuple[Scanned, list[Scanned]]:
        """What the lists say, and what each unit of images holds."""
        data_set = ChestXray14(**options)
        found = data_set.find(self.path, None)
        labels, *images = (data_set.scan(self.path, found, unit) for unit in found.units)
        return labels, images

    def listed(self, **options: str) -> dict[str, dict[str, Any]]:
        """The rows of the lists, by key, with what is known only."""
        labels, _ = self.scan(**options)
        (table,) = index_tables(labels, (), FIELDS)
        return {
            row["key"]: {name: value for name, value in row.items() if value is not None}
            for row in table.to_pylist()
        }

    def splits(self, **options: str) -> dict[str | None, set[str]]:
        """The keys of each split."""
        splits: dict[str | None, set[str]] = {}
        for key, row in self.listed(**options).items():
            splits.setdefault(row.get("split"), set()).add(key)
        return splits


@pytest.fixture
def raw(tmp_path: Path) -> Radiographs:
    return Radiographs(tmp_path / "raw")


def refused(raw: Radiographs, error: type[Exception] = SourceError, **options: str) -> str:
    """The message with which finding or scanning is refused."""
    with pytest.raises(error) as caught:
        raw.scan(**options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


LAYOUTS: dict[str, tuple[Step, list[str]]] = {  # besides those that tests/pipelines prepares
    "folders without images": (lambda raw: raw.folders(""), ["images_001", "images_002"]),
    "unpacked where it was": (lambda raw: raw.flat("images/images"), ["images/images"]),
    "two digits": (
        lambda raw: raw.packed("gztar", digits=2),
        ["images_01.tar.gz", "images_02.tar.gz"],
    ),
    "download": (
        lambda raw: raw.packed("gztar", "images/"),
        ["images/images_001.tar.gz", "images/images_002.tar.gz"],
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_has_the_same_images(raw: Radiographs, layout: str) -> None:
    build, containers = LAYOUTS[layout]
    build(raw)
    labels, *units = raw.find().units
    assert (labels.name, labels.container) == ("labels", "Data_Entry_2017_v2020.csv")
    assert [unit.container for unit in units] == containers
    members = [member for scanned in raw.scan()[1] for member in scanned.members]
    assert {member.key: member.size for member in members} == {
        name: len(content) for name, content in CONTENT.items()
    }


def test_a_row_has_what_the_lists_say(raw: Radiographs) -> None:
    raw.flat()
    raw.boxes("00000003_000.png,Mass,0,0,512,512", "00000003_000.png,Infiltrate,-256,512,512,1024")
    assert raw.listed()["00000003_000.png"] == {
        "status": "listed",
        "split": "test",
        "key": "00000003_000.png",
        "container": "Data_Entry_2017_v2020.csv",
        "line": 5,
        "labels": ["Effusion"],
        "boxes": [
            [0.0, 0.0, 0.5, 0.5],
            [0.0, 0.5, 0.25, 1.0],
        ],
        "box_labels": ["Mass", "Infiltration"],
        "group": "3",
        "drawn_on": [1024, 1024],
        "patient_id": 3,
        "view": "AP",
        "age": 53,
        "gender": "F",
        "follow_up": 3,
    }
    assert raw.listed()["00000001_000.png"]["labels"] == []
    assert "boxes" not in raw.listed()["00000001_000.png"]


def test_what_happened_is_counted(raw: Radiographs) -> None:
    raw.flat()
    rows = [label_row(position, name) for position, name in enumerate(NAMES)]
    rows[0] = rows[0].replace(",50,", ",411,")
    rows[1] = rows[1].replace(",51,", ",123Y,")
    rows[4] = rows[4].replace(",54,", ",122,")
    raw.write_lines("Data_Entry_2017_v2020.csv", [HEADER, *rows])
    raw.boxes("00000004_000.png,Edema,-1,0,9,9", "00000001_000.png,Mass,1,1,9,9")
    labels, _ = raw.scan()
    assert labels.counts == {
        "age out of range": 3,
        "box clipped to its image": 1,
    }
    assert "age" not in raw.listed()["00000001_000.png"]


def test_an_image_in_neither_official_list_has_no_split(raw: Radiographs) -> None:
    raw.flat()
    raw.write_lines("test_list.txt", TEST[1:])
    assert raw.splits(validation_fraction="0") == {
        None: {TEST[0]},
        "train": set(TRAIN_VALIDATION),
        "test": set(TEST[1:]),
    }


def test_found_says_what_will_be_used(raw: Radiographs) -> None:
    raw.packed("gztar", "images/")
    raw.write("images/README.txt")
    raw.boxes("00000001_000.png,Mass,1,1,9,9", "00000001_000.png,Edema,1,1,9,9")
    found = raw.find(["train", "test"])
    assert found.description == (
        "images: 2 archives, images/images_001.tar.gz to images/images_002.tar.gz",
        "lists: Data_Entry_2017_v2020.csv, train_val_list.txt, test_list.txt, BBox_List_2017.csv",
    )
    assert found.splits == ("train", "test")
    assert found.official_counts == {"test": 25_596}


def test_official_counts_are_whole_without_a_validation_split(raw: Radiographs) -> None:
    raw.flat()
    found = raw.find(validation_fraction="0")
    assert found.splits == ("train", "test")
    assert found.official_counts == {"train": 86_524, "test": 25_596}
    assert raw.find(split="random-by-patient").official_counts == {}
    own = str(raw.path / "test_list.txt")
    assert raw.find(test_list=own).official_counts == {}


def build(*steps: str | Step) -> Step:
    return lambda raw: [
        getattr(raw, step)() if isinstance(step, str) else step(raw) for step in steps
    ]


def remove(name: str) -> Step:
    return lambda raw: (raw.path / name).unlink()


def write(name: str, content: bytes = b"x") -> Step:
    return lambda raw: raw.write(name, content)


REFUSED: dict[str, tuple[Step, str]] = {
    "part in two forms": (
        build(lambda raw: raw.packed("tar"), "folders"),
        r"found images in images_001.tar and in images_001/images; expected each part .* one form",
    ),
    "part and its images folder": (
        build("folders", write("images_002/x.png")),
        "found images in images_002 and in images_002/images; expected",
    ),
    "flat twice": (
        build("flat", write("images/images/x.png")),
        "found images in images and in images/images; expected",
    ),
    "no images": (
        build(write("images/README"), write("images_001/README")),
        "no images in .*; looked for images_001.tar.gz .*; found Data_Entry_2017_v2020.csv, images,"
        ".*; check --raw",
    ),
    "no labels": (
        build("flat", remove("Data_Entry_2017_v2020.csv")),
        "no Data_Entry_2017_v2020.csv or Data_Entry_2017.csv in .*; copy it there, or name it with "
        "--labels$",
    ),
    "no test list": (
        build("flat", remove("test_list.txt")),
        "no test_list.txt in .* name it with --test_list, or use --split random-by-patient",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_contradictions_and_gaps_are_refused(raw: Radiographs, case: str) -> None:
    spoil, message = REFUSED[case]
    spoil(raw)
    found = refused(raw)
    assert re.search(message, found), found


WRONG_OPTIONS = {
    "order": ({"label_order": "random"}, "'--label_order': 'random' is not one of 'canonical'"),
    "split": ({"split": "random"}, "'--split': 'random' is not one of"),
    "share": ({"validation_fraction": "x%"}, "'--validation_fraction': x%: expected a number"),
    "seed": ({"split_seed": "x"}, "'--split_seed': 'x' is not a valid integer"),
    "idle fraction": ({"test_fraction": "0.2"}, "--test_fraction has no effect with --split off"),
    "idle list": (
        {"split": "random-by-patient", "test_list": __file__},
        "--test_list has no effect with --split random-by-patient",
    ),
    "nothing to train on": (
        {"split": "random-by-patient", "test_fraction": "0.5", "validation_fraction": "0.5"},
        "leave nothing for training",
    ),
}


@pytest.mark.parametrize("case", WRONG_OPTIONS)
def test_option_values_are_checked_at_once(case: str) -> None:
    options, message = WRONG_OPTIONS[case]
    with pytest.raises(UsageError, match=re.escape(message)):
        ChestXray14(**options)
