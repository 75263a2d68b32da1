"""The acceptance test: real photographs, laid out in three ways, come out as they went in.

Set DATAPREP_REAL_IMAGES to a folder of <WordNet id>/*.JPEG, all of ImageNet's or a few. It needs
five times its size in pytest's temporary directory, for as long as it runs.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from PIL import Image

import dataprep
from tests.conftest import hashes

VARIABLE = "DATAPREP_REAL_IMAGES"
Photographs = Mapping[str, Mapping[str, Path]]


def lay_out_tree(raw: Path, photographs: Photographs) -> None:
    """As the TPU script wants it: train/<WordNet id>/*.JPEG, here of symbolic links."""
    for synset, files in photographs.items():
        (raw / "train" / synset).mkdir(parents=True)
        for name, path in files.items():
            (raw / "train" / synset / name).symlink_to(path)


def lay_out_archive(raw: Path, photographs: Photographs) -> None:
    """As published: one archive of class archives, here with everything in reverse order."""
    raw.mkdir()
    with tarfile.open(raw / "ILSVRC2012_img_train.tar", "w") as outer:
        for synset in sorted(photographs, reverse=True):
            inner = raw / f"{synset}.tar"
            write_tar(inner, photographs[synset])
            outer.add(inner, inner.name)
            inner.unlink()


def lay_out_half_unpacked(raw: Path, photographs: Photographs) -> None:
    """As one finds it when unpacking was given up: class archives, every third a folder by now."""
    (raw / "train").mkdir(parents=True)
    for position, synset in enumerate(sorted(photographs)):
        if position % 3 == 2:
            lay_out_tree(raw, {synset: photographs[synset]})
        else:
            write_tar(raw / "train" / f"{synset}.tar", photographs[synset])


def write_tar(path: Path, files: Mapping[str, Path]) -> None:
    with tarfile.open(path, "w") as tar:
        for name in sorted(files, reverse=True):
            tar.add(files[name].resolve(), name)


LAYOUTS: dict[str, Callable[[Path, Photographs], None]] = {
    "tree": lay_out_tree,
    "archive": lay_out_archive,
    "half-unpacked": lay_out_half_unpacked,
}


@pytest.fixture(scope="module")
def photographs() -> dict[str, dict[str, Path]]:
    """The files by class and name."""
    if VARIABLE not in os.environ:
        pytest.skip(f"set {VARIABLE} to a folder of <WordNet id>/*.JPEG")
    folder = Path(os.environ[VARIABLE]).resolve()
    found: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.glob("n????????/*.JPEG")):
        found.setdefault(path.parent.name, {})[path.name] = path
    assert found, f"{VARIABLE} is {folder}, which has no <WordNet id>/*.JPEG"
    return found


@pytest.fixture(scope="module")
def outputs(
    photographs: Photographs, dataprep: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Path]]:
    """What ``dataprep imagenet`` makes of each layout."""
    top = tmp_path_factory.mktemp("real")
    found = {}
    for layout, lay_out in LAYOUTS.items():
        raw, found[layout] = top / f"raw-{layout}", top / f"out-{layout}"
        lay_out(raw, photographs)
        places = ("--raw_data_dir", raw, "--local_scratch_dir", found[layout])
        dataprep("imagenet", *places, "--splits", "train")
        shutil.rmtree(raw)
    yield found
    shutil.rmtree(top)


def check(photographs: Photographs, synset: str, name: str, encoded: bytes) -> None:
    """A stored image is the file itself, unless that is one that JPEG readers cannot use."""
    original = photographs[synset][name].read_bytes()
    with Image.open(io.BytesIO(original)) as image:
        if image.format == "JPEG" and image.mode != "CMYK":
            assert encoded == original, name
            return
    with Image.open(io.BytesIO(encoded)) as image:
        assert (image.format, image.mode) in (("JPEG", "RGB"), ("JPEG", "L")), name


def names(photographs: Photographs) -> list[str]:
    return sorted(name for files in photographs.values() for name in files)


def test_every_layout_gives_the_same_files(outputs: dict[str, Path]) -> None:
    made = {layout: hashes(out) for layout, out in outputs.items()}
    assert len(made["tree"]) >= 3
    assert made["archive"] == made["half-unpacked"] == made["tree"]


def test_no_photograph_is_rejected_or_ignored(
    outputs: dict[str, Path], photographs: Photographs
) -> None:
    splits = json.loads((outputs["tree"] / "manifest.json").read_text())["splits"]
    assert list(splits) == ["train"]
    assert splits["train"]["rejected"] == splits["train"]["ignored"] == 0
    found = splits["train"]["records"], splits["train"]["images_found"]
    assert found == (len(names(photographs)),) * 2


def test_our_reader_gives_every_photograph_back(
    outputs: dict[str, Path], photographs: Photographs, labels: dict[str, int]
) -> None:
    found = []
    for example in dataprep.open(outputs["archive"], "train"):
        assert example.class_index + 1 == labels[example.synset]
        check(photographs, example.synset, example.filename, example.encoded)
        found.append(example.filename)
    assert sorted(found) == names(photographs)


def test_tensorflow_gives_every_photograph_back(
    tf, outputs: dict[str, Path], photographs: Photographs, labels: dict[str, int]
) -> None:
    features = {
        **{
            key: tf.io.FixedLenFeature((), tf.string)
            for key in ("image/encoded", "image/filename", "image/class/synset")
        },
        **{
            key: tf.io.FixedLenFeature((), tf.int64)
            for key in ("image/class/label", "image/height", "image/width", "image/channels")
        },
    }
    found = []
    files = tf.data.Dataset.list_files(f"{outputs['tree']}/train/train-*", shuffle=False)
    for record in files.flat_map(tf.data.TFRecordDataset):
        values = {
            key: value.numpy() for key, value in tf.io.parse_example(record, features).items()
        }
        name, synset = (values[f"image/{key}"].decode() for key in ("filename", "class/synset"))
        assert values["image/class/label"] == labels[synset]
        shape = tuple(values[f"image/{key}"] for key in ("height", "width", "channels"))
        assert tf.io.decode_jpeg(values["image/encoded"], channels=3).shape == shape
        check(photographs, synset, name, values["image/encoded"])
        found.append(name)
    assert sorted(found) == names(photographs)
