"""NVIDIA DALI, on the CPU, reads TFRecord, RecordIO, Caffe's LMDB and WebDataset, by our indexes.

The features of TFRecord are those of NVIDIA DeepLearningExamples,
TensorFlow/Classification/ConvNets, utils/dali_utils.py.
"""

from __future__ import annotations

import runpy
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.interop.conftest import Built, decode, run_dali

SPLITS = ("train", "validation")
SIDES = ("xmin", "ymin", "xmax", "ymax")


def run(dali: Any, count: int, outputs: Callable[[], tuple[Any, ...]], part: Any = None) -> Any:
    """What a reader named Reader gives, record by record, with the image decoded at the end."""

    def decoded() -> tuple[Any, ...]:
        encoded, *others = outputs()
        return encoded, *others, dali.fn.decoders.image(encoded, device="cpu")

    return run_dali(dali, decoded, count, part)


# --- TFRecord ---


def read(dali: Any, built: Built, split: str, part: tuple[int, int] = (0, 1)) -> Any:
    """What DALI finds in a part of the shards of a split, by name, record by record."""
    tfrecord = dali.tfrecord
    features = {
        "image/encoded": tfrecord.FixedLenFeature((), tfrecord.string, ""),
        "image/class/label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1),
        "image/class/text": tfrecord.FixedLenFeature([], tfrecord.string, ""),
        **{
            f"image/object/bbox/{side}": tfrecord.VarLenFeature(tfrecord.float32, 0.0)
            for side in SIDES
        },
        "image/filename": tfrecord.FixedLenFeature((), tfrecord.string, ""),
    }

    def outputs() -> tuple[Any, ...]:
        found = dali.fn.readers.tfrecord(
            path=built.shards(split),
            index_path=built.indexes(split),
            features=features,
            name="Reader",
            shard_id=part[0],
            num_shards=part[1],
        )
        return tuple(found[key] for key in features)

    records = run(dali, len(built.raw[split]), outputs, part)
    return [dict(zip((*features, "pixels"), record, strict=True)) for record in records]


@pytest.mark.parametrize(
    ("output", "split"), [("flat", "train"), ("by_split", "validation"), ("boxed", "train")]
)
def test_dali_reads_every_image_with_its_label_and_boxes(
    dali: ModuleType, request: pytest.FixtureRequest, output: str, split: str
) -> None:
    built = request.getfixturevalue(output)
    records = read(dali, built, split)
    assert len(records) == len(built.raw[split])
    found = {record["image/filename"].tobytes().decode(): record for record in records}
    assert sorted(found) == sorted(built.raw[split])
    for name, image in built.raw[split].items():
        record = found[name]
        assert record["image/class/label"].tolist() == [image.label]
        if image.kind == "JPEG":
            assert record["image/encoded"].tobytes() == image.data
        assert record["pixels"].shape[2] == 3
        boxes = np.float32(built.boxes.get(name, [])).reshape(-1, 4)
        for position, side in enumerate(SIDES):
            values = record[f"image/object/bbox/{side}"]
            assert values.tolist() == boxes[:, position].tolist()


@pytest.mark.parametrize("split", SPLITS)
def test_two_dali_workers_share_the_images_by_our_index(
    dali: ModuleType, flat: Built, split: str
) -> None:
    names = [
        record["image/filename"].tobytes().decode()
        for shard_id in (0, 1)
        for record in read(dali, flat, split, (shard_id, 2))
    ]
    assert sorted(names) == sorted(flat.raw[split])


def index_by_dali(
    dali: Any, monkeypatch: pytest.MonkeyPatch, script: str, shard: Path, index: Path
) -> bytes:
    """What a script of the DALI wheel writes."""
    path = shutil.which(script, path=str(Path(dali.__file__).parents[5] / "bin"))
    assert path is not None, f"the DALI wheel ships {script}"
    monkeypatch.setattr(sys, "argv", [path, str(shard), str(index)])
    with suppress(SystemExit):  # which newer releases raise at the end
        runpy.run_path(path, run_name="__main__")
    return index.read_bytes()


def test_our_index_is_what_dalis_tfrecord2idx_writes(
    dali: ModuleType, built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without TensorFlow it opens the files itself, which spares the seconds of the import.
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    for split in SPLITS:
        for shard, index in zip(built.shards(split), map(Path, built.indexes(split)), strict=True):
            assert Path(shard).name == index.name  # as DLE's dali_index.sh names them
            theirs = tmp_path / index.name
            made = index_by_dali(dali, monkeypatch, "tfrecord2idx", Path(shard), theirs)
            assert index.read_bytes() == made


# --- the other formats ---


def check(built: Built, split: str, records: list[list[Any]], labels: list[int]) -> None:
    """Every image in our order, its bytes and label right, decoded about as Pillow does."""
    expected = built.expected(split)
    assert [record[0].tobytes() for record in records] == [image.encoded for image in expected]
    assert labels == [image.label for image in expected]
    for record, image in zip(records, expected, strict=True):
        pixels = decode(image.encoded)
        assert record[-1].shape == pixels.shape
        # Decoders may round the inverse DCT and the chroma differently.
        assert np.abs(record[-1].astype(int) - pixels).mean() < 2


@pytest.mark.parametrize(
    ("split", "shards"), [("validation", "1"), ("train", "train=3,validation=2")]
)
def test_caffe_lmdb(dali: ModuleType, made: Callable[..., Built], split: str, shards: str) -> None:
    built = made("lmdb", "--num_shards", shards)
    databases = sorted({str(path.parent) for path in built.out.rglob("data.mdb")})
    databases = [path for path in databases if split in path]
    assert len(databases) == (1 if shards == "1" else {"train": 3, "validation": 2}[split])
    records = run(
        dali,
        len(built.raw[split]),
        lambda: tuple(dali.fn.readers.caffe(path=databases, name="Reader")),
    )
    check(built, split, records, [int(label.item()) for _, label, _ in records])


@pytest.mark.parametrize(("split", "indexed"), [("train", True), ("validation", False)])
def test_webdataset(
    dali: ModuleType, made: Callable[..., Built], split: str, indexed: bool
) -> None:
    built = made("webdataset")
    archives = sorted(map(str, (built.out / split).glob("*.tar")))
    assert len(archives) == {"train": 3, "validation": 2}[split]
    options = {"index_paths": built.indexes(split)} if indexed else {}
    records = run(
        dali,
        len(built.raw[split]),
        lambda: tuple(
            dali.fn.readers.webdataset(
                paths=archives,
                ext=["jpg;png", "cls", "json"],
                missing_component_behavior="error",
                name="Reader",
                **options,
            )
        ),
    )
    check(built, split, records, [int(record[1].tobytes()) for record in records])


def test_our_index_is_what_dalis_wds2idx_writes(
    dali: ModuleType, made: Callable[..., Built], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = made("webdataset")
    for split in SPLITS:
        for index in map(Path, built.indexes(split)):
            archive = built.out / split / f"{index.stem}.tar"
            theirs = index_by_dali(dali, monkeypatch, "wds2idx", archive, tmp_path / index.name)
            assert index.read_bytes() == theirs
