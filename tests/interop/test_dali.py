"""NVIDIA DALI, on the CPU, reads the TFRecord shards through our index, and makes the same index.

The features are those of NVIDIA DeepLearningExamples, TensorFlow/Classification/ConvNets,
utils/dali_utils.py.
"""

from __future__ import annotations

import runpy
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SPLITS = ("train", "validation")
SIDES = ("xmin", "ymin", "xmax", "ymax")


def read(dali, built, split: str, **options: Any) -> list[dict[str, Any]]:
    """What DALI finds in the shards of a split, record by record."""
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

    @dali.pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def pipeline() -> Any:
        found = dali.fn.readers.tfrecord(
            path=built.shards(split),
            index_path=built.indexes(split),
            features=features,
            name="Reader",
            **options,
        )
        pixels = dali.fn.decoders.image(found["image/encoded"], device="cpu")
        return (*(found[key] for key in features), pixels)

    built_pipeline = pipeline()
    built_pipeline.build()
    meta = built_pipeline.reader_meta("Reader")
    assert meta["epoch_size"] == len(built.raw[split])
    first, last = (
        meta["epoch_size"] * (options.get("shard_id", 0) + step) // options.get("num_shards", 1)
        for step in (0, 1)
    )
    found = []
    for _ in range(last - first):
        values = [np.asarray(output.at(0)) for output in built_pipeline.run()]
        found.append(dict(zip((*features, "pixels"), values, strict=True)))
    return found


@pytest.mark.parametrize(
    ("output", "split"), [("flat", "train"), ("by_split", "validation"), ("boxed", "train")]
)
def test_dali_reads_every_image_with_its_label_and_boxes(
    dali, request: pytest.FixtureRequest, output: str, split: str
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
def test_two_dali_workers_share_the_images_by_our_index(dali, flat, split: str) -> None:
    names = [
        record["image/filename"].tobytes().decode()
        for shard_id in (0, 1)
        for record in read(dali, flat, split, shard_id=shard_id, num_shards=2)
    ]
    assert sorted(names) == sorted(flat.raw[split])


def test_our_index_is_what_dalis_tfrecord2idx_writes(
    dali, built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = shutil.which("tfrecord2idx", path=str(Path(dali.__file__).parents[5] / "bin"))
    assert script is not None, "the DALI wheel ships tfrecord2idx"
    # Without TensorFlow it opens the files itself, which spares the seconds of the import.
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    for split in SPLITS:
        for shard, index in zip(built.shards(split), built.indexes(split), strict=True):
            assert Path(shard).name == Path(index).name  # as DLE's dali_index.sh names them
            theirs = tmp_path / Path(index).name
            monkeypatch.setattr(sys, "argv", [script, shard, str(theirs)])
            runpy.run_path(script, run_name="__main__")
            assert Path(index).read_bytes() == theirs.read_bytes()
