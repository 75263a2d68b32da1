"""Every command and every program of the guides runs, one after the other, as a reader would.

What the programs make is compared with the raw data.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import runpy
import shlex
import tarfile
from collections import Counter
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from tests.conftest import FINDINGS, Cli, read_labels
from tests.docs.pages import DOCS, said
from tests.images.dicom_files import dataset
from tests.images.dicom_files import file as dicom_file

LIBRARIES = ("torch", "tensorflow", "pandas")
COLOURS = {"cat": "red", "dog": "green", "owl": "blue"}


def write_photographs(place: Path) -> None:
    """Three classes of ten images each, as ImageFolder reads them, each in a colour of its own."""
    for name, colour in COLOURS.items():
        folder = place / name
        folder.mkdir(parents=True)
        for number in range(10):
            noise = Image.effect_noise((320 + number, 300), 40 + number)
            ImageOps.colorize(noise, "black", colour).save(folder / f"{name}-{number}.jpg")


def write_packed(place: Path, photographs: Path) -> None:
    """The same as WebDataset archives."""
    place.mkdir()
    paths = sorted(photographs.rglob("*.jpg"))
    for number in range(2):
        with tarfile.open(place / f"photos-train-{number:06d}.tar", "w") as archive:
            for path in paths[number::2]:
                name = f"{path.parent.name}/{path.name}"
                said = {"label": path.parent.name, "filename": name, "author": "nobody"}
                parts = {".jpg": path.read_bytes(), ".json": json.dumps(said).encode()}
                for suffix, data in parts.items():
                    info = tarfile.TarInfo(path.stem + suffix)
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))


def write_scans(place: Path) -> None:
    """Radiographs of thirty patients in one folder, and a table of their findings."""
    place.mkdir()
    with (place / "labels.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["path", "label", "patient"])
        for number in range(60):
            name = f"{number:03d}.png"
            Image.effect_noise((64, 64), 30 + number).save(place / name)
            table.writerow([name, ("Edema", "Edema|Mass", "Mass")[number % 3], number // 2])
    with (place / "findings.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["path", "label"])
        for number in range(40):
            (place / "2021").mkdir(exist_ok=True)
            pixels = np.random.default_rng(number).integers(0, 4096, (64, 64)).astype(np.uint16)
            image = dataset(pixels, 12, PatientID=f"PID-{number // 2}", PatientAge="061Y")
            image.StudyInstanceUID, image.PatientName = f"1.2.{number}", "DOE^JANE"
            (place / f"2021/{number}.dcm").write_bytes(dicom_file(image))
            table.writerow([f"2021/{number}.dcm", ("Edema|Mass", "No Finding")[number % 2]])


@pytest.fixture(scope="module")
def place(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where RAW, CXR, photos and scans are."""
    place = tmp_path_factory.mktemp("guides")
    assert cli("synthesize", "imagenet", place / "RAW").code == 0
    assert cli("synthesize", "chestxray14", place / "CXR", "--size", "64").code == 0
    write_photographs(place / "photos")
    write_packed(place / "packed", place / "photos")
    write_scans(place / "scans")
    (place / "hospital.key").write_text("0123456789abcdef" * 4)
    return place


def check_photographs(program: Mapping[str, Any], place: Path) -> None:
    """The loop trained on every photograph with its own class, and so it finds the others'."""
    records, held_out = program["records"], program["held_out"]
    assert [name for _, name in records.classes] == list(COLOURS)
    for split in records, held_out:
        folders = [split[number].key.split("-")[0].split("/")[0] for number in range(len(split))]
        assert [list(COLOURS)[label] for label in split.labels] == folders
    assert len(records) + len(held_out) == 30
    seen = Counter(label.item() for _, labels in program["loader"] for label in labels)
    assert seen == Counter(records.labels.tolist())
    assert program["accuracy"](program["model"], program["validation"]) == 1.0


def check_radiographs(program: Mapping[str, Any], place: Path) -> None:
    """Table and targets are those of the published list, image by image."""
    known, records = read_labels(place / "CXR"), program["records"]
    assert tuple(program["names"]) == FINDINGS
    for number, target in enumerate(program["targets"]):
        assert target.tolist() == known[records[number].key].vector()
    assert 0 < program["targets"].mean() < 0.5
    table = program.get("table")
    for row in () if table is None else table.itertuples():
        labels = known[row.key]
        assert {FINDINGS[label] for label in row.labels} == set(row.classes) == labels.findings
        assert (row.age, row.view) == (labels.attributes["age"], labels.attributes["view"])


def check_dicom(program: Mapping[str, Any], place: Path) -> None:
    """Twenty patients, none of whom is named."""
    assert len(program["splits"]) == 20
    assert not any("PID" in patient for patient in program["splits"])


def check_packed(program: Mapping[str, Any], place: Path) -> None:
    """Every photograph, with the class that its sample names."""
    records = program["records"]
    assert len(records) == 30
    assert [name for _, name in records.classes] == sorted(COLOURS)
    assert all(record.key.startswith("photos-train-00000") for record in records)
    assert Counter(records.labels.tolist()) == dict.fromkeys(range(3), 10)


Check = Callable[[Mapping[str, Any], Path], None]
GUIDES: dict[str, tuple[str, str, Check | None]] = {
    "packed": ("packed", "", check_packed),
    "pytorch": ("trainers", "## PyTorch", check_photographs),
    "tensorflow": ("trainers", "## TensorFlow", None),
    "caffe": ("trainers", "## Caffe", None),
    "chestxray14": ("radiographs", "## ChestX-ray14", check_radiographs),
    "dicom": ("radiographs", "## DICOM", check_dicom),
}
"""Page, section, and what looks at what the programs in it made."""


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_works_as_it_is_written(
    name: str, cli: Cli, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, section, check = GUIDES[name]
    told = (DOCS / f"{page}.md").read_text("utf-8")
    if section:
        told = told.partition(f"\n{section}")[2].partition("\n## ")[0]
    assert 0 < len(told.splitlines()) <= 160
    for raw in place.iterdir():
        (tmp_path / raw.name).symlink_to(raw)
    monkeypatch.chdir(tmp_path)
    program: dict[str, Any] = {}
    absent: list[str] = []
    blocks = r"^(?:<!-- guide -->\n)?```(sh|python)\n([\s\S]*?)^```"
    if page == "trainers":  # where tests/review/test_loaders.py runs the others
        blocks = blocks.replace("?```", "```")
    for where, block in said(blocks, DOCS / f"{page}.md", section=section):
        language, code = block.groups()
        if language == "sh":
            for command in code.replace("\\\n", " ").splitlines():
                name, *words = shlex.split(command)
                assert name == "dataprep", where
                done = cli(*words)
                assert done.code == 0, (where, done.err)
            continue
        needed = [name for name in LIBRARIES if re.search(rf"^(import|from) {name}\b", code, re.M)]
        missing = [name for name in needed if find_spec(name) is None]
        absent += missing
        if not missing:
            script = tmp_path / "program.py"
            script.write_text(code, "utf-8")
            program |= runpy.run_path(os.fspath(script), run_name="__main__")
    if program and check:
        check(program, place)
    if absent:
        pytest.skip(f"a program of this guide needs {', '.join(absent)}: make readers")
