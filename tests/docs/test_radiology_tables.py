"""The recipes of docs/radiographs.md run as written, on small tables like the real ones."""

from __future__ import annotations

import csv
import gzip
import io
import re
import shlex
import zipfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import duckdb
import numpy as np
import pytest
from PIL import Image

import dataprep
from dataprep.sealed.set import SealedSet
from tests.conftest import Cli, everyday
from tests.docs.pages import DOCS, said

PAGE = DOCS / "radiographs.md"
CHEXPERT = (
    *("No Finding", "Enlarged Cardiomediastinum", "Cardiomegaly", "Lung Opacity", "Lung Lesion"),
    *("Edema", "Consolidation", "Pneumonia", "Atelectasis", "Pneumothorax", "Pleural Effusion"),
    *("Pleural Other", "Fracture", "Support Devices"),
)
PATIENTS = range(1, 13)
MARKS = ("1.0", "", "-1.0", "0.0")

Found = dict[str, list[int]]
"""Labels as `records.labels` has them, by key."""


def picture(number: int, form: str = "JPEG", *, deep: bool = False) -> bytes:
    noise = np.random.default_rng(number).integers(0, 65535 if deep else 255, (20, 24))
    file = io.BytesIO()
    Image.fromarray(noise.astype("u2" if deep else "u1")).save(file, form)
    return file.getvalue()


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def table(name: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    data = text.getvalue().encode()
    write(Path(name), gzip.compress(data) if name.endswith(".gz") else data)


def marks(number: int) -> list[str]:
    """Of the fourteen of CheXpert's labeler, for a study."""
    return [MARKS[(number * 3 + place) % 4 if number % 5 else 1] for place in range(14)]


def value(mark: str) -> int:
    return int(float(mark or 0))


def chexpert() -> Found:
    header = ("Path", "Sex", "Age", "Frontal/Lateral", "AP/PA", *CHEXPERT)
    wanted: Found = {}
    tables: dict[str, list[Sequence[object]]] = {"train": [], "valid": []}
    for number in PATIENTS:
        split = "valid" if number > 9 else "train"
        key = f"CheXpert-v1.0-small/{split}/patient{number:05d}/study1/view1_frontal.jpg"
        write(Path("RAW", key), picture(number))
        tables[split].append((key, "Female", 40 + number, "Frontal", "AP", *marks(number)))
        found = dict(zip(CHEXPERT, map(value, marks(number)), strict=True))
        names = ("Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Pleural Effusion")
        wanted[key] = [found[name] for name in names]
    for split, rows in tables.items():
        table(f"{split}.csv", header, rows)
    assert any(-1 in labels for labels in wanted.values())
    return wanted


def mimic() -> Found:
    names = sorted(CHEXPERT)
    metadata, splits, labels, wanted = [], [], [], {}
    for number in PATIENTS:
        subject, study = str(10000000 + number), str(50000000 + number)
        split = ("train", "validate", "test")[number % 3]
        for view in ("PA", "LATERAL"):
            dicom = f"{number:08x}-{view.lower()}"
            key = f"files/p10/p{subject}/s{study}/{dicom}.jpg"
            write(Path("RAW", key), picture(number))
            metadata.append((dicom, subject, study, view, 20, 24))
            splits.append((dicom, study, subject, split))
            found = dict(zip(names, map(value, marks(number)), strict=True))
            chosen = [found[name] for name in ("Atelectasis", "Edema", "Pneumonia")]
            if number != 7 and -1 not in chosen:
                wanted[key] = chosen
        if number != 7:  # which no report was labelled of
            labels.append((subject, study, *marks(number)))
    name = "mimic-cxr-2.0.0-{}.csv.gz".format
    columns = ("dicom_id", "subject_id", "study_id", "ViewPosition", "Rows", "Columns")
    table(name("metadata"), columns, metadata)
    table(name("split"), ("dicom_id", "study_id", "subject_id", "split"), splits)
    table(name("chexpert"), ("subject_id", "study_id", *names), labels)
    assert 0 < len(wanted) < 22
    return wanted


def padchest() -> Found:
    lists = (["normal"], ["cardiomegaly", " pleural effusion "], ["nodule", "nodule"], ["exclude"])
    classes = ["cardiomegaly", "nodule", "pleural effusion"]
    rows, wanted = [], {}
    Path("RAW").mkdir()
    archives = [zipfile.ZipFile(f"RAW/{number}.zip", "w") for number in (0, 54)]
    for number in range(40):
        key, labels = f"{number:06d}_00-001.png", lists[number % 4]
        rows.append((number, key, f"S{number}", f"P{number // 2}", "PA", str(labels)))
        if number != 8:  # one of those that are missing
            archives[number % 2].writestr(key, picture(number, "PNG", deep=True))
            if labels != ["exclude"]:
                told = {label.strip() for label in labels}
                wanted[key] = [int(name in told) for name in classes]
    for archive in archives:
        archive.close()
    header = ("", "ImageID", "StudyID", "PatientID", "Projection", "Labels")
    table("PADCHEST_chest_x_ray_images_labels_160K_01.02.19.csv", header, rows)
    return wanted


def dicom(number: int) -> bytes:
    from tests.images.dicom_files import dataset, file

    return file(dataset(np.random.default_rng(number).integers(0, 4095, (40, 48), "u2"), 12))


def vindr() -> Found:
    header = ("image_id", "rad_id", "Aortic enlargement", "Cardiomegaly", "Pleural effusion")
    rows, wanted = [], {}
    for number in PATIENTS:
        write(Path(f"RAW/{number:032x}.dicom"), dicom(number))
        for reader in range(3):
            said = (0, int(reader < number % 4), int(reader == 0))
            rows.append((f"{number:032x}", f"R{number + reader}", *said, int(not any(said))))
        wanted[f"{number:032x}.dicom"] = [int(number % 4 >= 2), 0, int(number % 4 < 2)]
    table("image_labels_train.csv", (*header, "No finding"), rows)
    return wanted


def rsna() -> Found:
    classes = ("Lung Opacity", "No Lung Opacity / Not Normal", "Normal")
    rows, wanted = [], {}
    for number in range(30):
        name, label = f"{number:08x}-36ca-4dfd", number % 3
        write(Path(f"RAW/{name}.dcm"), dicom(number))
        rows += [(name, classes[label])] * (2 if label == 0 else 1)  # a row a box
        wanted[f"{name}.dcm"] = [label]
    table("stage_2_detailed_class_info.csv", ("patientId", "class"), rows)
    return wanted


RECIPES: dict[str, Callable[[], Found]] = {
    "CheXpert": chexpert,
    "MIMIC-CXR-JPG": mimic,
    "PadChest": padchest,
    "VinDr-CXR": vindr,
    "RSNA Pneumonia": rsna,
}


def test_every_recipe_is_tried() -> None:
    page = PAGE.read_text("utf-8").partition("\n## Public sets")[2]
    assert len(page.splitlines()) <= 100
    assert re.findall(r"^### (.*)$", page, re.M) == [*RECIPES]


@pytest.mark.parametrize("name", everyday(["MIMIC-CXR-JPG", "RSNA Pneumonia"], [*RECIPES]))
def test_a_recipe_gives_the_labels_of_the_tables(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if RECIPES[name] in (vindr, rsna) and not (find_spec("pydicom") and find_spec("imagecodecs")):
        pytest.skip("needs pydicom and imagecodecs")
    monkeypatch.chdir(tmp_path)
    wanted = RECIPES[name]()
    out = Path()
    for place, block in said(r"^```(sql|sh)\n([\s\S]*?)^```", PAGE, section=f"### {name}"):
        if block[1] == "sql":
            duckdb.sql(block[2])
            continue
        program, *words = shlex.split(block[2].replace("\\\n", " "))
        assert program == "dataprep", place
        result = cli(*words)
        assert result.code == 0, (place, result.err)
        out = Path(words[words.index("--local_scratch_dir") + 1])
    found: Found = {}
    for split in SealedSet.read(out).splits:
        with dataprep.open(out, split) as records:
            for key, labels in zip([one.key for one in records], records.labels, strict=True):
                found[key] = np.atleast_1d(labels).tolist()
    assert found == wanted
    assert cli("verify", out, "--level", "decode").code == 0
