"""The acceptance test: real photographs come out as they went in.

Set DATAPREP_REAL_IMAGES to a folder of <WordNet id>/*.JPEG, all of ImageNet's or a few. It needs
three times its size in pytest's temporary directory, for as long as it runs.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image

import dataprep

VARIABLE = "DATAPREP_REAL_IMAGES"
Photographs = Mapping[str, Mapping[str, Path]]


def write_tar(path: Path, files: Mapping[str, Path]) -> None:
    with tarfile.open(path, "w") as tar:
        for name in sorted(files, reverse=True):
            tar.add(files[name].resolve(), name)


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
def out(
    photographs: Photographs, dataprep: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """What ``dataprep imagenet`` makes of them as published, but in reverse order."""
    top = tmp_path_factory.mktemp("real")
    raw, out = top / "raw", top / "out"
    raw.mkdir()
    with tarfile.open(raw / "ILSVRC2012_img_train.tar", "w") as outer:
        for synset in sorted(photographs, reverse=True):
            inner = raw / f"{synset}.tar"
            write_tar(inner, photographs[synset])
            outer.add(inner, inner.name)
            inner.unlink()
    places = ("--raw_data_dir", raw, "--local_scratch_dir", out)
    dataprep("imagenet", *places, "--splits", "train")
    shutil.rmtree(raw)
    yield out
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


def test_no_photograph_is_rejected_or_ignored(out: Path, photographs: Photographs) -> None:
    splits = json.loads((out / "manifest.json").read_text())["splits"]
    assert list(splits) == ["train"]
    assert splits["train"]["rejected"] == splits["train"]["ignored"] == 0
    found = splits["train"]["records"], splits["train"]["images_found"]
    assert found == (len(names(photographs)),) * 2


def test_our_reader_gives_every_photograph_back(
    out: Path, photographs: Photographs, labels: dict[str, int]
) -> None:
    found = []
    for example in dataprep.open(out, "train"):
        assert example.class_index + 1 == labels[example.synset]
        check(photographs, example.synset, example.filename, example.encoded)
        found.append(example.filename)
    assert sorted(found) == names(photographs)


def test_tensorflow_gives_every_photograph_back(
    tf: ModuleType, out: Path, photographs: Photographs, labels: dict[str, int]
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
    files = tf.data.Dataset.list_files(f"{out}/train/train-*", shuffle=False)
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
