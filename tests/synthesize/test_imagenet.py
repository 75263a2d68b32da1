"""The made-up ImageNet has the original's layout, and the odd images that it promises."""

from __future__ import annotations

import io
import tarfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dataprep.errors import UsageError
from dataprep.synthesize.files import Written
from dataprep.synthesize.imagenet import (
    encode,
    plan_training,
    plan_validation,
    synthesize_imagenet,
)
from dataprep.synthesize.photograph import photograph
from dataprep_schemas import imagenet_classes, imagenet_validation_synsets

SMALL: dict[str, Any] = {
    "classes": 2,
    "images_per_class": 3,
    "validation_images": 4,
    "defects": True,
}


def tree_images(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*.JPEG")
    }


def members(stream: Any) -> dict[str, bytes]:
    """Names and contents, in order."""
    found = {}
    with tarfile.open(fileobj=stream) as archive:
        for member in archive:
            content = archive.extractfile(member)
            assert content is not None
            found[member.name] = content.read()
    return found


def tar_images(directory: Path) -> dict[str, bytes]:
    outer = members(io.BytesIO((directory / "ILSVRC2012_img_train.tar").read_bytes()))
    training = {
        f"train/{name.removesuffix('.tar')}/{image}": content
        for name, inner in outer.items()
        for image, content in members(io.BytesIO(inner)).items()
    }
    flat = members(io.BytesIO((directory / "ILSVRC2012_img_val.tar").read_bytes()))
    return {**{f"validation/{name}": content for name, content in flat.items()}, **training}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Written]:
    directory = tmp_path_factory.mktemp("tree") / "raw"
    return directory, synthesize_imagenet(directory, layout="tree", **SMALL)


def test_both_layouts_hold_the_same_bytes_run_after_run(
    tmp_path: Path, tree: tuple[Path, Written]
) -> None:
    for name in ("first", "second"):
        assert synthesize_imagenet(tmp_path / name, **SMALL) == tree[1]
    images = tar_images(tmp_path / "first")
    assert images == tree_images(tree[0])
    assert len(images) == 2 * 3 + 4 + 4
    assert tree[1].image_bytes == sum(map(len, images.values()))
    names = ["ILSVRC2012_img_train.tar", "ILSVRC2012_img_val.tar"]
    assert sorted(path.name for path in (tmp_path / "first").iterdir()) == names
    for name in names:
        first, second = (tmp_path / run / name for run in ("first", "second"))
        assert first.read_bytes() == second.read_bytes()
        assert first.stat().st_size % tarfile.RECORDSIZE == 0


def test_tree_layout_is_the_originals(tree: tuple[Path, Written]) -> None:
    directory, _ = tree
    assert {path.name for path in directory.iterdir()} == {
        "synset_labels.txt",
        "train",
        "validation",
    }
    labels = (directory / "synset_labels.txt").read_text()
    assert labels == "".join(f"{synset}\n" for synset in imagenet_validation_synsets())
    assert sorted(path.name for path in (directory / "validation").iterdir()) == [
        f"ILSVRC2012_val_{number:08d}.JPEG" for number in (1, 2, 3, 4)
    ]
    for path in (directory / "train").rglob("*.JPEG"):
        synset, number = path.stem.split("_")
        assert path.parent.name == synset
        assert number == str(int(number))


def test_seed_and_size_of_the_set(tmp_path: Path, tree: tuple[Path, Written]) -> None:
    before = tree_images(tree[0])
    synthesize_imagenet(tmp_path / "seed", layout="tree", seed=1, **SMALL)
    other = tree_images(tmp_path / "seed")
    assert other.keys() == before.keys()
    assert not {*other.values()} & {*before.values()} - {b""} - {
        content for content in before.values() if content.startswith(b"<!DOCTYPE")
    }
    larger = {**SMALL, "images_per_class": 4, "validation_images": 5}
    synthesize_imagenet(tmp_path / "larger", layout="tree", **larger)
    validation = {n: b for n, b in before.items() if n.startswith("validation/")}
    assert validation.items() <= tree_images(tmp_path / "larger").items()


def test_special_images_are_what_they_are_said_to_be(tree: tuple[Path, Written]) -> None:
    directory, summary = tree
    special = {name.partition("/")[2]: kind for name, kind in summary.special.items()}
    found = Counter()
    for path in directory.rglob("*.JPEG"):
        kind = special.get(path.name, "ordinary")
        if kind in ("truncated", "garbage", "empty", "html"):
            words = "truncated" if kind == "truncated" else "cannot identify"
            with pytest.raises(OSError, match=words), Image.open(path) as image:
                image.load()
            found[kind] += 1
            continue
        with Image.open(path) as image:
            image.load()
            found[kind, image.format, image.mode, image.info.get("adobe")] += 1
    assert found == {
        ("ordinary", "JPEG", "RGB", None): 6,
        ("ordinary", "JPEG", "L", None): 2,
        ("cmyk", "JPEG", "CMYK", 100): 1,
        ("png", "PNG", "RGB", None): 1,
        **dict.fromkeys(("truncated", "garbage", "empty", "html"), 1),
    }


def test_plans_of_every_size_have_official_classes_and_few_odd_images() -> None:
    order = [synset for synset, _ in imagenet_classes()]
    images = plan_training(10, 1, defects=False)
    assert [order.index(image.synset) for image in images] == list(range(50, 1000, 100))
    images = plan_training(100, 130, defects=True)
    assert len(images) == 13_004
    kinds = Counter(image.kind for image in images)
    assert (kinds["cmyk"], kinds["png"], kinds["grey"]) == (1, 1, 260)
    keys = [(image.synset, image.name) for image in images]
    assert keys == sorted(set(keys))
    validation = plan_validation(50_000)
    assert validation[-1].name == "ILSVRC2012_val_00050000.JPEG"
    assert tuple(image.synset for image in validation) == imagenet_validation_synsets()


@pytest.mark.parametrize(
    "wrong", [{"classes": 1001}, {"images_per_class": 0}, {"validation_images": -1}]
)
def test_impossible_numbers_are_refused_before_anything_is_written(
    tmp_path: Path, wrong: dict[str, int]
) -> None:
    with pytest.raises(UsageError, match=f"--{next(iter(wrong))}: .* is not between 1 and"):
        synthesize_imagenet(tmp_path / "raw", **wrong)
    assert not (tmp_path / "raw").exists()


# --- the pictures have the statistics that make photographs photographs


def power_slope(pixels: Any) -> float:
    """Exponent of the radial power spectrum, fitted between the scales of picture and pixel."""
    plane = np.asarray(Image.fromarray(pixels).convert("L")).astype(float)
    side = min(min(plane.shape), 256)
    window = np.hanning(side)
    square = plane[:side, :side]
    square = (square - square.mean()) * window[:, None] * window
    power = np.abs(np.fft.fft2(square)) ** 2
    frequency = np.fft.fftfreq(side) * side
    radius = np.hypot(frequency[:, None], frequency).round().astype(int)
    radial = np.bincount(radius.ravel(), power.ravel()) / np.bincount(radius.ravel())
    bands = list(pairwise(np.unique(np.geomspace(4, side / 3, 14).astype(int))))
    means = [radial[low:high].mean() for low, high in bands]
    centres = [(low + high - 1) / 2 for low, high in bands]
    return float(np.polyfit(np.log(centres), np.log(means), 1)[0])


def test_power_spectra_fall_like_those_of_photographs() -> None:
    # 400 real ImageNet files: 5 % to 95 % of the slopes lie between -3.3 and -1.6.
    # Amplitude 1/f is power -2; white noise has 0.
    slopes = [power_slope(photograph(seed)) for seed in range(40)]
    assert -2.9 < np.mean(slopes) < -1.9
    assert -4.2 < min(slopes) < max(slopes) < -1.0
    noise = np.random.default_rng(0).integers(0, 256, (300, 300, 3), np.uint8)
    assert power_slope(noise) > -0.3


def test_brightness_varies_more_than_colour_and_classes_have_one() -> None:
    bands = [np.asarray(Image.fromarray(photograph(s)).convert("YCbCr")) for s in range(20)]
    deviations = np.mean([band.reshape(-1, 3).std(axis=0) for band in bands], axis=0)
    assert deviations[0] > 3 * deviations[1:].max()
    hues = [
        [np.asarray(Image.fromarray(photograph(s, hue)).convert("YCbCr"))[..., 1] for s in range(9)]
        for hue in (0.0, np.pi)
    ]
    means = [np.mean([picture.mean() for picture in pictures]) for pictures in hues]
    assert means[0] > means[1] + 10


def test_files_are_as_large_as_imagenets() -> None:
    pictures = [photograph(seed, seed % 7) for seed in range(80)]
    assert sum(500 in picture.shape for picture in pictures) > 50
    sizes = [len(encode(picture, "rgb", seed)) for seed, picture in enumerate(pictures)]
    assert 90_000 < np.mean(sizes) < 130_000
    assert 35_000 < np.std(sizes) < 90_000
