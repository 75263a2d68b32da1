"""What other people's readers give of masks: the numbers that were in the raw data."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from PIL import Image

import dataprep
from dataprep.sealed.set import SealedSet
from tests.interop.test_huggingface import CARD

pytestmark = pytest.mark.thorough

SIZE = (20, 30)
NAMES = ["a", "b", "c", "d"]


def levels_of(name: str) -> Any:
    """With 255, and with numbers whose colours in a palette are others."""
    rng = np.random.default_rng(ord(name))
    return rng.choice([0, 1, 2, 13, 151, 255], SIZE).astype(np.uint8)


@pytest.fixture
def made(tmp_path: Path) -> Callable[[str], Path]:
    """A set of four images, of which the first three have masks, in a format."""

    def make(sink: str) -> Path:
        for folder in ("cat", "masks"):
            (tmp_path / "raw" / folder).mkdir(parents=True)
        for name in NAMES:
            levels = levels_of(name)
            Image.fromarray(levels).save(tmp_path / f"raw/cat/{name}.png")
            if name != "d":
                indexed = Image.frombytes("P", levels.shape[::-1], levels.tobytes())
                indexed.putpalette([255 - number // 3 for number in range(768)])
                indexed.save(tmp_path / f"raw/masks/{name}.png")
        raw, out = tmp_path / "raw", tmp_path / "out"
        return dataprep.folder(raw, out, mask_dir="masks", sink=sink, num_shards=1).out

    return make


def shard_of(out: Path) -> Path:
    """The only one."""
    (shard,) = SealedSet.read(out).manifest.shards()
    return out / shard.files[0].path


def check(found: Iterator[tuple[str, Any]]) -> None:
    """Numbers by the name of the image, None without a mask."""
    masks = dict(found)
    assert sorted(masks) == NAMES
    assert masks.pop("d") is None
    for name, levels in masks.items():
        assert np.asarray(levels).tolist() == levels_of(name).tolist()


def test_tf_data_as_deeplab_parses_them(made: Callable[[str], Path]) -> None:
    tf = pytest.importorskip("tensorflow", reason="needs TensorFlow")
    features = {
        "image/filename": tf.io.FixedLenFeature((), tf.string),
        "image/segmentation/class/encoded": tf.io.FixedLenFeature((), tf.string, ""),
        "image/segmentation/class/format": tf.io.FixedLenFeature((), tf.string, "png"),
    }

    def found() -> Iterator[tuple[str, Any]]:
        for record in tf.data.TFRecordDataset(str(shard_of(made("tfrecord")))):
            parsed = tf.io.parse_single_example(record, features)
            mask = parsed["image/segmentation/class/encoded"]
            assert parsed["image/segmentation/class/format"] == b"png"
            levels = tf.io.decode_png(mask, channels=1)[..., 0].numpy() if mask != b"" else None
            yield parsed["image/filename"].numpy().decode()[0], levels

    check(found())


def test_hugging_face_reads_an_image_of_parquet(made: Callable[[str], Path]) -> None:
    datasets: Any = pytest.importorskip("datasets", reason="needs Hugging Face's datasets")
    rows = datasets.load_dataset(str(made("parquet")), split="train", streaming=True)
    assert isinstance(rows.features["mask"], datasets.Image)
    check((row["key"][-5], row["mask"]) for row in rows)


def test_hugging_face_reads_parts_of_webdataset_with_a_card(made: Callable[[str], Path]) -> None:
    """Without one it refuses a set in whose first five samples not all have a mask."""
    datasets: Any = pytest.importorskip("datasets", reason="needs Hugging Face's datasets")
    out = made("webdataset")
    dataprep.card(out, **CARD)
    rows = datasets.load_dataset(str(out), split="train", streaming=True)
    assert isinstance(rows.features["mask.png"], datasets.Image)
    check((row["__key__"][-1], row["mask.png"]) for row in rows)


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # it leaves files open
def test_webdataset_has_them_as_parts(made: Callable[[str], Path]) -> None:
    webdataset: Any = pytest.importorskip("webdataset", reason="needs webdataset")
    shard = shard_of(made("webdataset"))

    def found() -> Iterator[tuple[str, Any]]:
        samples = webdataset.WebDataset(str(shard), shardshuffle=False).decode("pil")
        for sample in samples:
            mask = sample.get("mask.png")  # which "pil" makes RGB
            assert mask is None or mask.mode == "RGB"
            yield sample["__key__"][-1], mask and np.asarray(mask)[..., 0]

    check(found())


def test_h5py_slices_them(made: Callable[[str], Path]) -> None:
    out = made("hdf5")

    def found() -> Iterator[tuple[str, Any]]:
        with h5py.File(shard_of(out), "r") as file:
            offsets = file["mask_offsets"][:]
            for number, key in enumerate(file["keys"].asstr()[:]):
                stored = file["masks"][offsets[number] : offsets[number + 1]].tobytes()
                yield key[-5], Image.open(io.BytesIO(stored)) if stored else None

    check(found())
