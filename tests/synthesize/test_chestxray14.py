"""The made-up ChestX-ray14 has the published layout, and the odd images that it promises."""

from __future__ import annotations

import csv
import io
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dataprep.datasets.chestxray14.lists import FINDINGS
from dataprep.errors import UsageError
from dataprep.synthesize.chestxray14 import (
    lesion_box,
    made_up_boxes,
    made_up_labels,
    made_up_lists,
    radiograph,
    synthesize_chestxray14,
)
from dataprep.synthesize.files import Written
from tests.conftest import Cli

DOCUMENTS = ("Data_Entry_2017_v2020.csv", "train_val_list.txt", "test_list.txt")
BOXES = "BBox_List_2017.csv"
HEADER = (
    "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,"
    "View Position,OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y]"
)


def write(directory: Path) -> Written:
    return synthesize_chestxray14(directory, patients=9, archives=3, size=16, defects=True)


def archived(directory: Path) -> dict[str, bytes]:
    """What is in the archives, read with the standard library alone."""
    found: dict[str, bytes] = {}
    for path in sorted(directory.glob("images*")):
        with tarfile.open(path) as archive:
            for member in archive:
                stream = archive.extractfile(member)
                assert stream is not None
                found[member.name] = stream.read()
    return found


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Written]:
    directory = tmp_path_factory.mktemp("tar.gz") / "raw"
    return directory, write(directory)


def test_the_default_is_the_published_layout(
    tmp_path: Path, published: tuple[Path, Written]
) -> None:
    directory, summary = published
    archives = {f"images_{number:03d}.tar.gz" for number in (1, 2, 3)}
    assert {path.name for path in directory.iterdir()} == {*archives, *DOCUMENTS, BOXES}
    members = archived(directory)
    assert all(name.startswith("images/") for name in members)
    assert list(members) == sorted(members)
    assert summary.images == len(members)
    assert summary.image_bytes == sum(map(len, members.values()))
    write(tmp_path)
    for path in directory.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()


def test_special_images_are_what_they_should_be(published: tuple[Path, Written]) -> None:
    directory, _ = published
    images = {Path(name).name: content for name, content in archived(directory).items()}
    lines = (directory / DOCUMENTS[0]).read_text().splitlines()[1:]
    listed = {line.split(",")[0] for line in lines}
    official = [(directory / name).read_text().split("\n") for name in DOCUMENTS[1:]]
    assert {*official[0], *official[1]} == listed
    assert len(listed - images.keys()) == len(images.keys() - listed) == 1
    found: dict[str, list[Image.Image]] = {}
    truncated = 0
    for content in images.values():
        try:
            image = opened(content)
        except OSError:
            truncated += 1
        else:
            found.setdefault(image.mode, []).append(image)
            assert image.size == (16, 16)
    assert truncated == 1
    assert {mode: len(of) for mode, of in found.items() if mode != "L"} == {
        "RGBA": 2,
        "P": 1,
        "I;16": 1,
    }
    (palette,), (deep,) = found["P"], found["I;16"]
    assert np.array_equal(255 - np.asarray(palette), np.asarray(palette.convert("L")))
    assert np.unique(np.asarray(deep) & 0xFF).size == 16


def opened(content: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(content))
    assert image.format == "PNG"
    image.load()
    return image


def test_labels_have_the_published_form_and_the_real_ones_frequencies() -> None:
    text, images = made_up_labels(1500)
    assert text.splitlines()[0] == HEADER
    header, *rows = csv.reader(io.StringIO(text))
    assert {len(header)} == {len(row) for row in rows} == {11}
    assert images == sorted((row[0], row[1]) for row in rows)
    visits: dict[str, list[list[str]]] = {}
    for row in rows:
        assert row[0][:8] == f"{int(row[3]):08d}"
        visits.setdefault(row[3], []).append(row)
    assert list(visits) == [str(number) for number in range(1, 1501)]
    for own in visits.values():
        assert [row[2] for row in own] == [str(rank) for rank in range(len(own))]
        assert sorted(row[0][9:12] for row in own) == [f"{i:03d}" for i in range(len(own))]
        ages = [int(row[4]) for row in own]
        assert ages == sorted(ages)
        assert len({row[5] for row in own}) == 1
    assert 3.3 < len(images) / 1500 < 3.9
    tokens = Counter(token for _, findings in images for token in findings.split("|"))
    assert tokens.keys() == {"No Finding", *FINDINGS}
    assert 0.48 < tokens["No Finding"] / len(images) < 0.58
    assert 0.15 < tokens["Infiltration"] / len(images) < 0.25


@pytest.mark.parametrize("patients", [3, 60])
def test_lists_are_cut_by_patient_and_each_split_has_one(
    cli: Cli, tmp_path: Path, patients: int
) -> None:
    names = [name for name, _ in made_up_labels(patients)[1]]
    train, test = made_up_lists(names)
    assert {name[:8] for name in train}.isdisjoint(name[:8] for name in test)
    assert sorted(train + test) == names
    assert (train, test) == (sorted(train), sorted(test))
    assert patients < 60 or 0.2 < len(test) / len(names) < 0.35
    synthesize_chestxray14(tmp_path / "raw", patients=patients, size=8)
    places = ("--raw_data_dir", tmp_path / "raw", "--local_scratch_dir", tmp_path / "out")
    result = cli("chestxray14", *places, "--workers", "1")
    assert result.code == 0, result
    for split in ("train", "validation", "test"):
        assert f"\n{split}: " in result.out


def test_boxes_lie_in_the_published_picture_and_use_the_lists_words() -> None:
    _, images = made_up_labels(60)
    header, *rows = csv.reader(io.StringIO(made_up_boxes(images)))
    assert ",".join(header) == "Image Index,Finding Label,Bbox [x,y,w,h],,,"
    assert "Infiltrate" in {row[1] for row in rows}
    for name, finding, *edges in rows:
        assert finding.replace("Infiltrate", "Infiltration") in dict(images)[name].split("|")
        x, y, width, height = map(float, edges)
        assert 0 <= x < x + width <= 1024
        assert 0 <= y < y + height <= 1024
    assert len({(row[0], row[1]) for row in rows}) == len(rows)


@pytest.mark.parametrize("options", [{"patients": 2}, {"size": 7}])
def test_impossible_numbers_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"--\w+: \d+ is not between"):
        synthesize_chestxray14(tmp_path / "raw", **options)
    assert not (tmp_path / "raw").exists()


# --- the pictures have dark lungs, a bright middle, grain


@pytest.mark.parametrize("finding", ["Mass", "Hernia"])
def test_each_finding_shows_in_its_box_and_nowhere_else(finding: str) -> None:
    change = radiograph(5, 128, [finding]).astype(int) - radiograph(5, 128)
    left, top, width, height = (128 * edge for edge in lesion_box(5, finding))
    inside = np.zeros_like(change, bool)
    inside[int(top) : int(top + height) + 1, int(left) : int(left + width) + 1] = True
    assert change[inside].max() > 8
    assert not change[~inside].any()


def test_files_are_as_large_as_the_originals() -> None:
    # 42 GB for 112,120 pictures of 1024 pixels a side.
    buffer = io.BytesIO()
    Image.fromarray(radiograph(0, 1024)).save(buffer, "PNG")
    assert 300_000 < buffer.tell() < 500_000
