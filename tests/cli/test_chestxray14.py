"""``dataprep chestxray14`` from the raw files to the sealed set: labels, splits, lists, pixels."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import dataprep
from dataprep.formats.example import Example
from tests.conftest import (
    FINDINGS,
    Cli,
    Made,
    Raw,
    everyday,
    hashes,
    leftovers,
    read_labels,
    rows_of,
    write_radiographs,
)
from tests.finished_sets import examples_of, manifest_of

SPLITS = ("train", "validation", "test")
RGBA, PALETTE, DEEP, OTHER_RGBA = (
    *("00000002_000.png", "00000002_001.png", "00000002_002.png"),
    "00000003_000.png",
)
TRUNCATED, MISSING, UNLISTED = "00000003_001.png", "00000003_002.png", "00000030_999.png"
ALPHABETICAL = tuple(sorted(FINDINGS))


def patients_of(out: Path) -> dict[str, set[object]]:
    """The patients of each split, by what the output says of its images."""
    return {
        split: {example.fields["patient_id"] for example in dataprep.open(out, split)}
        for split in manifest_of(out)["splits"]
    }


def vector_of(example: Example) -> list[int]:
    return [int(number in example.labels) for number in range(len(FINDINGS))]


def noted(out: Path) -> dict[str, str]:
    return {row["key"]: row["reason"] for row in rows_of(out, "repaired", "warned")}


def decoded(example: Example) -> Any:
    return np.asarray(Image.open(io.BytesIO(example.encoded)))


def no_shards(out: Path) -> bool:
    return not (out / "manifest.json").exists() and not list(out.rglob("*-of-*"))


@pytest.fixture(scope="session")
def flat_images(radiographs: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same raw set with its images as files."""
    path = tmp_path_factory.mktemp("flat") / "raw"
    write_radiographs(path, layout="flat")
    return path


@pytest.fixture
def raw(radiographs: Made, flat_images: Path, tmp_path: Path) -> Raw:
    """A copy for a test that changes it."""
    return Raw(flat_images, radiographs.raw.options, "chestxray14").copy(tmp_path / "raw")


@pytest.fixture(scope="session")
def defective(radiographs: Made, tmp_path_factory: pytest.TempPathFactory) -> Raw:
    """One image is truncated, one listed and not there, one there and not listed."""
    path = tmp_path_factory.mktemp("defective") / "raw"
    write_radiographs(path, defects=True)
    return Raw(path, radiographs.raw.options, "chestxray14")


# --- labels and what else is known ---


def test_every_image_has_the_labels_and_attributes_of_the_csv(radiographs: Made) -> None:
    expected = read_labels(radiographs.raw.path)
    found = {example.key: example for example in examples_of(radiographs.out)}
    assert found.keys() == expected.keys()
    for key, example in found.items():
        assert vector_of(example) == expected[key].vector()
        known = {it: value for it, value in example.fields.items() if not isinstance(value, tuple)}
        assert known == expected[key].attributes
        assert set(filter(None, example.class_name.split("|"))) == expected[key].findings
    assert sum(not example.labels for example in found.values()) > 10  # No Finding
    assert max(len(example.labels) for example in found.values()) >= 3


SIDE, CROP = 24, 16


def cut(start: str, extent: str, crop: int) -> tuple[float, float]:
    """A box's side in pixels of 1024, as fractions of the middle of the picture."""
    margin = (SIDE - crop) / 2
    low = float(start)
    ends = ((end / 1024 * SIDE - margin) / crop for end in (low, low + float(extent)))
    first, last = (min(max(end, 0.0), 1.0) for end in ends)
    return first, last


@pytest.mark.parametrize("crop", [SIDE, CROP])
def test_an_images_boxes_are_those_of_the_list_in_what_a_crop_leaves(
    cli: Cli, radiographs: Made, tmp_path: Path, crop: int
) -> None:
    out = radiographs.out
    if crop < SIDE:
        out = tmp_path
        assert cli(*radiographs.command(out, "--center_crop", crop)).code == 0
    expected: dict[str, list[tuple[str, list[float]]]] = {}
    for line in (radiographs.raw.path / "BBox_List_2017.csv").read_text().splitlines()[1:]:
        name, finding, *numbers = line.split(",")
        left, right = cut(numbers[0], numbers[2], crop)
        top, bottom = cut(numbers[1], numbers[3], crop)
        if left < right and top < bottom:
            label = {"Infiltrate": "Infiltration"}.get(finding, finding)
            expected.setdefault(name, []).append((label, [left, top, right, bottom]))
    found = {example.key: example for example in examples_of(out) if example.fields.get("boxes")}
    assert found.keys() == expected.keys()
    assert len(found) > 3
    for key, example in found.items():
        boxes = [
            (FINDINGS[label], list(box))
            for label, box in zip(
                example.fields["box_labels"], example.fields["boxes"], strict=True
            )
        ]
        for (label, box), (wanted, sides) in zip(sorted(boxes), sorted(expected[key]), strict=True):
            assert label == wanted
            assert box == pytest.approx(sides, abs=1e-5)


# --- splits ---


@pytest.mark.parametrize("split", ["official", "random-by-patient"])
def test_no_patient_is_in_two_splits(
    cli: Cli, radiographs: Made, tmp_path: Path, split: str
) -> None:
    out = radiographs.out
    if split != "official":
        out = tmp_path
        assert cli(*radiographs.command(out, "--split", split)).code == 0
    patients = patients_of(out)
    assert sorted(patients) == sorted(SPLITS)
    assert all(patients.values())
    everybody = {row.attributes["patient_id"] for row in read_labels(radiographs.raw.path).values()}
    assert set().union(*patients.values()) == everybody
    assert sum(map(len, patients.values())) == len(everybody) == 30


# --- listed and missing, there and unlisted ---


def test_missing_and_unlisted_images_are_named_before_any_shard_is_made(
    cli: Cli, defective: Raw, tmp_path: Path
) -> None:
    result = cli(*defective.command(tmp_path))
    assert result.code == 3
    assert f"1 image listed but not there: {MISSING}" in result.out
    assert f"1 image there but not listed: {UNLISTED}" in result.out
    assert "1 image listed but not there and 1 image there but not listed" in result.error
    refused = tmp_path / ".dataprep" / "unmatched.csv"
    assert f"{refused} names all of them" in result.error
    assert refused.read_text().splitlines() == [
        '"status","split","name","place"',
        f'"missing","train","{MISSING}","Data_Entry_2017_v2020.csv"',
        f'"unlisted",,"{UNLISTED}","images_003.tar.gz"',
    ]
    assert hashes(tmp_path) == {}
    assert no_shards(tmp_path)
    assert "same command with --max_bad 2, without --overwrite" in result.error
    # Which finds that a third image is broken.
    again = cli(*defective.command(tmp_path, "--max_bad", 2))
    assert "index: 4 parts reused" in again.out
    assert again.code == 3
    assert f"rejected: train: {TRUNCATED} in images_001.tar.gz: truncated PNG" in again.out
    done = cli(*defective.command(tmp_path, "--max_bad", 3))
    assert done.code == 0, done
    assert "nothing to write" in done.out
    assert "87 records" in done.out.splitlines()[-1]
    assert "2 missing or not listed" in done.out.splitlines()[-1]
    found = manifest_of(tmp_path)["unmatched"]
    assert (found["missing"], found["unlisted"]) == (1, 1)
    assert found["first"] == {"missing": [MISSING], "unlisted": [UNLISTED]}
    assert [row["key"] for row in rows_of(tmp_path, "missing", "unlisted")] == [MISSING, UNLISTED]
    keys = {example.key for example in examples_of(tmp_path)}
    assert keys == read_labels(defective.path).keys() - {MISSING, TRUNCATED}
    assert leftovers(tmp_path) == []


def test_once_the_images_are_there_a_refused_directory_just_works(
    cli: Cli, raw: Raw, radiographs: Made, tmp_path: Path
) -> None:
    images = raw.path / "images"
    stray = shutil.copy(images / RGBA, images / "stray.png")
    (images / RGBA).rename(tmp_path / "away.png")
    result = cli(*raw.command(tmp_path / "out"))
    assert result.code == 3
    assert hashes(tmp_path / "out") == {}
    (tmp_path / "away.png").rename(images / RGBA)
    Path(stray).unlink()
    assert cli(*raw.command(tmp_path / "out")).code == 0
    assert hashes(tmp_path / "out") == radiographs.files


# --- pixels ---


def test_odd_images_become_grey_and_are_noted(radiographs: Made, flat_images: Path) -> None:
    assert noted(radiographs.out).keys() == {RGBA, PALETTE, DEEP, OTHER_RGBA}
    texts = noted(radiographs.out)
    assert texts[RGBA] == texts[OTHER_RGBA] == "RGBA PNG: re-encoded as grey PNG"
    assert texts[PALETTE].startswith("palette PNG")
    assert texts[DEEP].startswith("16-bit grey PNG")
    for example in examples_of(radiographs.out):
        original = flat_images / "images" / example.key
        assert (example.format, example.colorspace) == ("PNG", "Grayscale")
        if example.key not in texts:
            assert example.encoded == original.read_bytes()
            continue
        with Image.open(original) as image:
            deep = np.asarray(image).astype(int) >> 8 if example.key == DEEP else None
            expected = np.asarray(image.convert("L")) if deep is None else deep
        assert decoded(example).dtype == np.uint8
        assert np.array_equal(decoded(example), expected)


Check = Callable[[Example, bytes], None]


def keeps_depth(example: Example, original: bytes) -> None:
    deep = example.key == DEEP
    with Image.open(io.BytesIO(example.encoded)) as image:
        assert image.mode == ("I;16" if deep else "L")
    if deep:
        assert example.encoded == original
        assert len(np.unique(decoded(example) & 255)) > 16  # the low byte is there


def is_small_grey_jpeg(example: Example, _: bytes) -> None:
    assert (example.format, example.height, example.width) == ("JPEG", 16, 16)
    with Image.open(io.BytesIO(example.encoded)) as image:
        assert (image.format, image.mode, image.size) == ("JPEG", "L", (16, 16))


def is_radiologists(example: Example, _: bytes) -> None:
    assert (example.height, example.width, example.channels) == (250, 250, 1)
    assert decoded(example).shape == (250, 250)


def is_colour(example: Example, _: bytes) -> None:
    assert (example.colorspace, example.channels) == ("RGB", 3)
    pixels = decoded(example)
    assert pixels.shape == (24, 24, 3)
    assert np.array_equal(pixels, np.stack([pixels[..., 0]] * 3, axis=-1))


@pytest.mark.parametrize(
    ("options", "check"),
    everyday(
        [
            (("--depth", "keep"), keeps_depth),
            (("--resize", "16", "--encoding", "jpeg"), is_small_grey_jpeg),
        ],
        [(("--resize", "250x250"), is_radiologists), (("--color", "rgb"), is_colour)],
    ),
)
def test_pixels_are_what_was_asked_for(
    cli: Cli,
    radiographs: Made,
    flat_images: Path,
    tmp_path: Path,
    options: tuple[str, ...],
    check: Check,
) -> None:
    few = ("--splits", "test", "--num_shards", "1")  # it has all the odd images
    result = cli(*radiographs.command(tmp_path, *few, *options))
    assert result.code == 0, result
    found = list(examples_of(tmp_path))
    assert {RGBA, PALETTE, DEEP} < {example.key for example in found}
    for example in found:
        check(example, (flat_images / "images" / example.key).read_bytes())
    assert (DEEP in noted(tmp_path)) is ("--depth" not in options)
    assert cli("verify", tmp_path, "--level", "decode").code == 0


# --- refused ---


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--test_fraction", "0.2"), "--test_fraction has no effect with --split official"),
        (("--sink", "lmdb"), "labels"),
        (("--resize", "16x16", "--sink", "hdf5-arrays", "--depth", "keep"), "--depth keep"),
    ],
    ids=lambda value: None if isinstance(value, str) else "=".join(value[:2]),
)
def test_what_cannot_be_done_is_one_line_and_exit_code_2(
    cli: Cli, radiographs: Made, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    out = tmp_path / "out"
    result = cli(*radiographs.command(out, "--num_shards", "1", *words))
    assert result.code == 2
    assert said in result.error
    assert not out.exists()
