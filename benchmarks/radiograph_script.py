"""The loop that everybody writes for ChestX-ray14, over unpacked folders, in its own program.

One process: read the label CSV into a table; of every image open the file with Pillow, make it
grey, which decodes it, and build a ``tf.train.Example`` of the image, its size, its name and 14
zeros and ones; append that to a ``TFRecordWriter``, shards one after another. The image is the
file's own bytes or, with a size, a JPEG of quality 95 whose shorter side has that size. Importing
libraries, reading the CSV and listing the folders are outside of the time; a ``sync`` at the end
is within. Needs TensorFlow and Pillow, and nothing of dataprep.
"""

from __future__ import annotations

import csv
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf
from PIL import Image

_NO_FINDING = "No Finding"
_QUALITY = 95

Labels = Mapping[str, Sequence[int]]


def main(raw: Path, out: Path, size: int, shards: int) -> None:
    """Convert all images of a set and print the seconds it took; size 0 keeps the files' bytes."""
    paths = sorted(raw.glob("images_*/images/*.png"))
    labels = _read_labels(raw / "Data_Entry_2017_v2020.csv")
    out.mkdir()
    _example(paths[0], labels, size)
    start, processor = time.perf_counter(), time.process_time()
    share = -(-len(paths) // shards)
    for number in range(shards):
        name = f"all-{number:05d}-of-{shards:05d}"
        with tf.io.TFRecordWriter(str(out / name)) as writer:
            for path in paths[number * share : (number + 1) * share]:
                writer.write(_example(path, labels, size).SerializeToString())
    os.sync()
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - processor
    print(json.dumps({"images": len(paths), "seconds": seconds, "cpu_seconds": cpu_seconds}))


def _read_labels(path: Path) -> Labels:
    with path.open(newline="") as file:
        found = {
            row["Image Index"]: row["Finding Labels"].split("|") for row in csv.DictReader(file)
        }
    names = sorted({name for own in found.values() for name in own} - {_NO_FINDING})
    return {image: [int(name in own) for name in names] for image, own in found.items()}


def _example(path: Path, labels: Labels, size: int) -> tf.train.Example:
    data = path.read_bytes()
    with Image.open(BytesIO(data)) as image:
        grey = image.convert("L")
    if size:
        factor = size / min(grey.size)
        shape = round(grey.width * factor), round(grey.height * factor)
        grey = grey.resize(shape, Image.Resampling.BILINEAR)
        encoded = BytesIO()
        grey.save(encoded, "JPEG", quality=_QUALITY)
        data = encoded.getvalue()
    features = {
        "image/height": _integers([grey.height]),
        "image/width": _integers([grey.width]),
        "image/class/label": _integers(labels[path.name]),
        "image/filename": _bytes(path.name.encode()),
        "image/encoded": _bytes(data),
    }
    return tf.train.Example(features=tf.train.Features(feature=features))


def _integers(values: Sequence[int]) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def _bytes(value: bytes) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
