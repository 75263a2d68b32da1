"""The raw data is another than it was: what is said of it, before anything is deleted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

import dataprep
from tests.conftest import Cli, hashes

CUT = ("--fractions", "train=0.7,validation=0.3", "--workers", 1)


def write_class(raw: Path, name: str, shade: int) -> None:
    (raw / name).mkdir(parents=True)
    for number in range(12):  # no two alike, and each of another size, if only by its name
        image = Image.effect_noise((8 + number, 8), shade).convert("L")
        image.save(raw / name / f"{name}{number}.png")


def sealed(out: Path) -> dict[bytes, tuple[str, str, int]]:
    """Where each image is, what it is called, and its label."""
    return {
        each.encoded: (split, each.key, each.class_index)
        for split in ("train", "validation")
        for each in dataprep.open(out, split)
    }


@pytest.fixture
def made(cli: Cli, tmp_path: Path) -> tuple[Path, Path, list[object]]:
    raw, out = tmp_path / "raw", tmp_path / "out"
    for shade, name in ((40, "ash"), (60, "elm"), (80, "oak")):
        write_class(raw, name, shade)
    words: list[object] = ["folder", "--raw", raw, "--out", out, *CUT]
    assert cli(*words).code == 0
    return raw, out, words


def test_what_was_only_added_is_counted_and_append_is_named(cli, made) -> None:
    raw, out, words = made
    before = hashes(out)
    write_class(raw, "birch", 50)
    error = cli(*words).error
    assert "with other input: the raw data changed: 12 images in 1 folder new, which --append" in (
        error
    )
    assert hashes(out) == before
    (raw / "oak/oak1.png").unlink()
    assert "changed: 12 images in 1 folder new, 1 image gone; use the same" in cli(*words).error


def test_overwrite_says_how_many_images_get_another_number_or_split(cli, made) -> None:
    raw, out, words = made
    before = sealed(out)
    result = cli(*words, "--overwrite")
    assert (result.code, "another class number" in result.out) == (0, False)
    assert sealed(out) == before
    (raw / "ash").rename(raw / "fir")  # behind elm now, and its images are cut anew
    result = cli(*words, "--overwrite")
    assert result.code == 0, result
    after = sealed(out)
    renumbered = sum(before[image][2] != after[image][2] for image in before)
    moved = sum(before[image][0] != after[image][0] for image in before)
    assert renumbered == 24
    assert moved > 0
    assert re.search(
        rf"^of the images of {out}, which is made anew, {renumbered} get another class number "
        rf"and {moved} another split: ",
        result.out,
        re.M,
    )
