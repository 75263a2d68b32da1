"""The made-up ImageNet has the original's layout, and the odd images that it promises."""

from __future__ import annotations

import io
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dataprep.synthesize.files import Written
from dataprep.synthesize.imagenet import (
    encode,
    photograph,
    plan_training,
    plan_validation,
    synthesize_imagenet,
)
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
    assert {path.name for path in directory.iterdir()} == {"train", "validation"}
    assert sorted(path.name for path in (directory / "validation").iterdir()) == [
        f"ILSVRC2012_val_{number:08d}.JPEG" for number in (1, 2, 3, 4)
    ]
    for path in (directory / "train").rglob("*.JPEG"):
        synset, number = path.stem.split("_")
        assert path.parent.name == synset
        assert number == str(int(number))


def test_special_images_are_what_they_should_be(tree: tuple[Path, Written]) -> None:
    found = Counter[object]()
    for content in tree_images(tree[0]).values():
        try:
            image = Image.open(io.BytesIO(content))
            image.load()
        except OSError as error:
            found["truncated" if "truncated" in str(error) else "no image"] += 1
        else:
            found[image.format, image.mode, image.info.get("adobe")] += 1
    assert found == {
        ("JPEG", "RGB", None): 6,
        ("JPEG", "L", None): 2,
        ("JPEG", "CMYK", 100): 1,
        ("PNG", "RGB", None): 1,
        "truncated": 1,
        "no image": 3,
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


# --- the pictures have the statistics that make photographs photographs


@pytest.mark.thorough
def test_files_are_as_large_as_imagenets() -> None:
    pictures = [photograph(seed, seed % 7) for seed in range(80)]
    assert sum(500 in picture.shape for picture in pictures) > 50
    sizes = [len(encode(picture, "rgb", seed)) for seed, picture in enumerate(pictures)]
    assert 90_000 < np.mean(sizes) < 130_000
    assert 35_000 < np.std(sizes) < 90_000
