"""Three other writers in the loops that their users write, in one process and a program of its own.

``python -m benchmarks.peer_loops WRITER RAW OUT SIZE``, where WRITER is

* ``webdataset``: `ShardWriter` as its documentation uses it: ``.jpg``, ``.cls`` and ``.json``, 1000
  samples a shard;
* ``mds``: MosaicML's `MDSWriter` as its script for ImageNet uses it: opens every image with Pillow,
  which reads the header, then reads the file; shards of 64 MiB, hashed with SHA-1 and xxHash. The
  image's column is ``bytes``: what ``jpeg`` takes differs between versions;
* ``tpu``: what ``imagenet_to_gcs.py`` of tensorflow/tpu does, written anew from a description:
  decode with TensorFlow in a TF1 session to learn an image's size, build a ``tf.train.Example``,
  append it to a ``TFRecordWriter``; two shards, one after the other. It never resizes.

With a SIZE, Pillow brings the shorter side to it as torchvision's ``Resize`` does, and encodes with
quality 95. Starting Python, importing libraries and listing the tree are outside of the time, in
the writers' favour; a ``sync`` is within. Needs nothing of dataprep.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

_SAMPLES = 1000  # a tar
_SHARD_BYTES = 1 << 26
_COLUMNS = {"i": "int", "x": "bytes", "y": "int"}

Write = Callable[[Sequence[Path], dict[str, int], Path, int], None]


def main(writer: str, raw: Path, out: Path, size: int) -> None:
    """Convert a tree, and print the seconds it took; size 0 passes images through."""
    paths = sorted(raw.glob("train/*/*.JPEG"))
    labels = {path.name: label for label, path in enumerate(sorted((raw / "train").iterdir()))}
    write = {"webdataset": _webdataset, "mds": _mds, "tpu": _tpu}[writer]()
    start, processor = time.perf_counter(), time.process_time()
    write(paths, labels, out, size)
    os.sync()
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - processor
    print(json.dumps({"images": len(paths), "seconds": seconds, "cpu_seconds": cpu_seconds}))


def _webdataset() -> Write:
    import webdataset

    def write(paths: Sequence[Path], labels: dict[str, int], out: Path, size: int) -> None:
        out.mkdir()
        pattern = str(out / "train-%06d.tar")
        with webdataset.ShardWriter(pattern, maxcount=_SAMPLES, verbose=0) as sink:
            for path in paths:
                synset = path.parent.name
                sample = {
                    "__key__": path.stem,
                    "jpg": _resized(path, size) if size else path.read_bytes(),
                    "cls": labels[synset],
                    "json": {"synset": synset, "filename": path.name},
                }
                sink.write(sample)

    return write


def _mds() -> Write:
    from streaming.base import MDSWriter

    options = {"columns": _COLUMNS, "hashes": ["sha1", "xxh64"], "size_limit": _SHARD_BYTES}

    def write(paths: Sequence[Path], labels: dict[str, int], out: Path, size: int) -> None:
        with MDSWriter(out=str(out), **options) as sink:
            for number, path in enumerate(paths):
                data = _resized(path, size) if size else _recognized(path)
                sink.write({"i": number, "x": data, "y": labels[path.parent.name]})

    return write


def _tpu() -> Write:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    with tf.Graph().as_default():
        encoded = tf.compat.v1.placeholder(tf.string)
        decoded = tf.io.decode_jpeg(encoded, channels=3)
        session = tf.compat.v1.Session()
    first = BytesIO()
    Image.new("RGB", (16, 16)).save(first, "JPEG")
    session.run(decoded, feed_dict={encoded: first.getvalue()})  # which sets it up

    def feature(value: Any) -> Any:
        if isinstance(value, int):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))

    def example(path: Path, label: int) -> Any:
        with tf.io.gfile.GFile(str(path), "rb") as file:
            data = file.read()
        height, width, channels = session.run(decoded, feed_dict={encoded: data}).shape
        features = {
            "image/height": height,
            "image/width": width,
            "image/colorspace": b"RGB",
            "image/channels": channels,
            "image/class/label": label + 1,
            "image/class/synset": path.parent.name.encode(),
            "image/format": b"JPEG",
            "image/filename": path.name.encode(),
            "image/encoded": data,
        }
        made = {name: feature(value) for name, value in features.items()}
        return tf.train.Example(features=tf.train.Features(feature=made))

    def write(paths: Sequence[Path], labels: dict[str, int], out: Path, _: int) -> None:
        out.mkdir()
        half = -(-len(paths) // 2)
        for number in range(2):
            with tf.io.TFRecordWriter(str(out / f"train-{number:05d}-of-00002")) as file:
                for path in paths[number * half : (number + 1) * half]:
                    file.write(example(path, labels[path.parent.name]).SerializeToString())

    return write


def _recognized(path: Path) -> bytes:
    with Image.open(path):
        return path.read_bytes()


def _resized(path: Path, size: int) -> bytes:
    with Image.open(path) as image:
        factor = size / min(image.size)
        shape = round(image.width * factor), round(image.height * factor)
        smaller = image.convert("RGB").resize(shape, Image.Resampling.BILINEAR)
    encoded = BytesIO()
    smaller.save(encoded, "JPEG", quality=95)
    return encoded.getvalue()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
