"""The data set has the original's layout, and the odd images that it promises."""

from __future__ import annotations

import io
import tarfile
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, UnidentifiedImageError

from dataprep.errors import UsageError
from dataprep.synthesize.imagenet.dataset import Summary, synthesize_imagenet
from dataprep.synthesize.imagenet.plan import ImageNetPlan
from dataprep.synthesize.staging import MARKER
from dataprep_schemas import imagenet_classes, imagenet_validation_synsets

SMALLEST = {"classes": 2, "images_per_class": 3, "validation_images": 4}


def tree_images(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*.JPEG")
    }


def tar_images(directory: Path) -> dict[str, bytes]:
    images = {}
    with tarfile.open(directory / "ILSVRC2012_img_val.tar") as archive:
        for name, content in members(archive):
            images[f"validation/{name}"] = content
    with tarfile.open(directory / "ILSVRC2012_img_train.tar") as outer:
        for inner_name, inner in members(outer):
            with tarfile.open(fileobj=io.BytesIO(inner)) as archive:
                for name, content in members(archive):
                    images[f"train/{inner_name.removesuffix('.tar')}/{name}"] = content
    return images


def members(archive: tarfile.TarFile) -> list[tuple[str, bytes]]:
    found = []
    for member in archive:
        stream = archive.extractfile(member)
        assert stream is not None
        found.append((member.name, stream.read()))
    return found


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Summary]:
    directory = tmp_path_factory.mktemp("tree") / "raw"
    return directory, synthesize_imagenet(directory, layout="tree", defects=True, **SMALLEST)


@pytest.fixture(scope="module")
def tar(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Summary]:
    directory = tmp_path_factory.mktemp("tar") / "raw"
    return directory, synthesize_imagenet(directory, defects=True, threads=3, **SMALLEST)


def test_both_layouts_hold_the_same_bytes(
    tree: tuple[Path, Summary], tar: tuple[Path, Summary]
) -> None:
    images = tree_images(tree[0])
    assert images == tar_images(tar[0])
    assert len(images) == 2 * 3 + 4 + 4
    assert tree[1].image_bytes == tar[1].image_bytes == sum(map(len, images.values()))


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_tars_are_equal_byte_for_byte_on_any_number_of_threads(
    tmp_path: Path, tar: tuple[Path, Summary], threads: int
) -> None:
    synthesize_imagenet(tmp_path, defects=True, threads=threads, **SMALLEST)
    for name in ("ILSVRC2012_img_train.tar", "ILSVRC2012_img_val.tar"):
        assert (tmp_path / name).read_bytes() == (tar[0] / name).read_bytes()


def test_another_seed_gives_other_pictures_under_the_same_names(
    tmp_path: Path, tree: tuple[Path, Summary]
) -> None:
    synthesize_imagenet(tmp_path, layout="tree", seed=1, **SMALLEST)
    other, images = tree_images(tmp_path), tree_images(tree[0])
    assert set(other) < set(images)
    assert all(other[name] != images[name] for name in other)


def test_a_larger_set_contains_the_pictures_of_a_smaller_one(
    tmp_path: Path, tree: tuple[Path, Summary]
) -> None:
    synthesize_imagenet(tmp_path, layout="tree", classes=2, images_per_class=4, validation_images=5)
    larger = tree_images(tmp_path)
    validation = {n: b for n, b in tree_images(tree[0]).items() if n.startswith("validation/")}
    assert validation.items() <= larger.items()


def test_tar_layout_is_the_originals(tar: tuple[Path, Summary]) -> None:
    directory, summary = tar
    assert {path.name for path in directory.iterdir()} == {
        "ILSVRC2012_img_train.tar",
        "ILSVRC2012_img_val.tar",
        MARKER,
    }
    with tarfile.open(directory / "ILSVRC2012_img_train.tar") as outer:
        entries = outer.getmembers()
    assert [entry.name for entry in entries] == [f"{synset}.tar" for synset in summary.synsets]
    assert {(entry.mode, entry.uid, entry.gid, entry.uname) for entry in entries} == {
        (0o644, 0, 0, "")
    }
    for path in directory.glob("*.tar"):
        assert path.stat().st_size % tarfile.RECORDSIZE == 0


def test_tree_layout_is_the_originals(tree: tuple[Path, Summary]) -> None:
    directory, summary = tree
    assert {path.name for path in directory.iterdir()} == {
        "synset_labels.txt",
        "train",
        "validation",
        MARKER,
    }
    labels = (directory / "synset_labels.txt").read_text()
    assert labels.splitlines() == list(imagenet_validation_synsets())
    assert labels.endswith("\n")
    assert sorted(path.name for path in (directory / "validation").iterdir()) == [
        f"ILSVRC2012_val_{number:08d}.JPEG" for number in (1, 2, 3, 4)
    ]
    for path in (directory / "train").rglob("*.JPEG"):
        synset, number = path.stem.split("_")
        assert path.parent.name == synset
        assert synset in summary.synsets
        assert number == str(int(number))


def test_good_images_decode_and_special_ones_are_what_they_are_said_to_be(
    tree: tuple[Path, Summary],
) -> None:
    directory, summary = tree
    specials = {f"train/{i.synset}/{i.name}": i.special for i in summary.special_images}
    assert sorted(specials.values()) == ["cmyk", "empty", "garbage", "html", "png", "truncated"]
    modes = {}
    for name, content in tree_images(directory).items():
        if specials.get(name) in (None, "cmyk", "png"):
            with Image.open(io.BytesIO(content)) as image:
                image.load()
                modes[name] = (image.format, image.mode, image.info.get("adobe"))
    by_special = {special: modes.get(name) for name, special in specials.items()}
    assert by_special["cmyk"] == ("JPEG", "CMYK", 100)
    assert by_special["png"] == ("PNG", "RGB", None)
    ordinary = [mode[:2] for name, mode in modes.items() if name not in specials]
    assert set(ordinary) == {("JPEG", "RGB"), ("JPEG", "L")}
    assert ordinary.count(("JPEG", "L")) == summary.grey_images == 2


@pytest.mark.parametrize("seed", range(3))
def test_damaged_images_cannot_be_decoded(tmp_path: Path, seed: int) -> None:
    summary = synthesize_imagenet(
        tmp_path,
        layout="tree",
        defects=True,
        seed=seed,
        classes=1,
        images_per_class=1,
        validation_images=1,
    )
    damaged = {i.special: tmp_path / "train" / i.synset / i.name for i in summary.special_images}
    assert set(damaged) == {"truncated", "garbage", "empty", "html"}
    for special, path in damaged.items():
        with pytest.raises(OSError, match="truncated" if special == "truncated" else "identify"):
            decode(path)
    with pytest.raises(UnidentifiedImageError):
        decode(damaged["html"])


def decode(path: Path) -> None:
    with Image.open(path) as image:
        image.load()


def test_pictures_of_a_class_resemble_each_other(tmp_path: Path) -> None:
    synthesize_imagenet(tmp_path, layout="tree", classes=4, images_per_class=20)
    colours, labels = [], []
    for path in sorted((tmp_path / "train").rglob("*.JPEG")):
        with Image.open(path) as image:
            colours.append(np.asarray(image.convert("YCbCr"), float)[..., 1:].mean(axis=(0, 1)))
        labels.append(path.parent.name)
    points, names = np.array(colours), np.array(labels)
    total = points.var(axis=0).sum()
    within = np.mean([points[names == name].var(axis=0).sum() for name in set(labels)])
    assert within < 0.75 * total


def test_classes_are_spread_over_the_official_ones() -> None:
    order = [synset for synset, _ in imagenet_classes()]
    positions = [order.index(synset) for synset in ImageNetPlan(classes=10).synsets]
    assert positions == list(range(50, 1000, 100))
    assert list(ImageNetPlan(classes=1000).synsets) == order


def test_validation_images_have_the_official_classes() -> None:
    images = list(ImageNetPlan(validation_images=50_000).validation())
    assert images[-1].name == "ILSVRC2012_val_00050000.JPEG"
    assert tuple(image.synset for image in images) == imagenet_validation_synsets()


def test_full_size_plan_has_one_cmyk_one_png_and_two_percent_grey() -> None:
    plan = ImageNetPlan(classes=100, images_per_class=130, defects=True)
    images = list(plan.training())
    kinds = [image.kind for image in images]
    assert len(images) == plan.total - plan.validation_images == 13_004
    assert (kinds.count("cmyk"), kinds.count("png"), kinds.count("grey")) == (1, 1, 260)
    keys = [(image.synset, image.name) for image in images]
    assert keys == sorted(set(keys))


@pytest.mark.parametrize(
    "wrong", [{"classes": 0}, {"classes": 1001}, {"images_per_class": 0}, {"validation_images": -1}]
)
def test_impossible_numbers_are_refused_before_anything_is_written(
    tmp_path: Path, wrong: dict[str, int]
) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        synthesize_imagenet(tmp_path / "raw", **wrong)
    assert not (tmp_path / "raw").exists()


def test_few_images_are_in_memory_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, peak, finished = 0, 0, 0
    lock = threading.Lock()

    def paint(seed: int, look: object) -> np.ndarray:
        nonlocal begun, peak
        with lock:
            begun += 1
            peak = max(peak, begun - finished)
        return np.zeros((8, 8, 3), np.uint8)

    def progress(count: int) -> None:
        nonlocal finished
        finished += count

    monkeypatch.setattr("dataprep.synthesize.imagenet.dataset.photograph", paint)
    synthesize_imagenet(tmp_path, classes=3, images_per_class=200, threads=2, progress=progress)
    assert begun == finished == 650
    assert peak <= 4 * 2 + 1
