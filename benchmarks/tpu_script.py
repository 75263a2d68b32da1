"""One of the loops: what ``imagenet_to_gcs.py`` does to every image, in its own program.

One process and one loop: read the file, decode it with TensorFlow in a TF1 session to learn its
size, build a ``tf.train.Example`` of the nine features, append it to a ``TFRecordWriter``; shards
one after another. Written anew from a description of that program, and friendlier: the import of
TensorFlow, building the graph and the first decode are outside of the time, and so is listing the
tree; a ``sync`` at the end is within. Needs TensorFlow, and nothing of dataprep.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf


def main(raw: Path, out: Path, count: int, shards: int) -> None:
    """Convert the first ``count`` images of a tree and print the seconds it took."""
    paths = sorted(raw.glob("train/*/*.JPEG"))[:count]
    synsets = sorted(folder.name for folder in (raw / "train").iterdir())
    labels = {synset: label for label, synset in enumerate(synsets, 1)}
    out.mkdir()
    decode = _decoder()
    decode(paths[0].read_bytes())
    start, processor = time.perf_counter(), time.process_time()
    size = -(-len(paths) // shards)
    for number in range(shards):
        name = f"train-{number:05d}-of-{shards:05d}"
        with tf.io.TFRecordWriter(str(out / name)) as writer:
            for path in paths[number * size : (number + 1) * size]:
                writer.write(_example(path, labels[path.parent.name], decode).SerializeToString())
    os.sync()
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - processor
    print(json.dumps({"images": len(paths), "seconds": seconds, "cpu_seconds": cpu_seconds}))


def _decoder() -> Callable[[bytes], Any]:
    with tf.Graph().as_default():
        encoded = tf.compat.v1.placeholder(tf.string)
        decoded = tf.io.decode_jpeg(encoded, channels=3)
        session = tf.compat.v1.Session()
    return lambda data: session.run(decoded, feed_dict={encoded: data})


def _example(path: Path, label: int, decode: Callable[[bytes], Any]) -> tf.train.Example:
    with tf.io.gfile.GFile(str(path), "rb") as file:
        data = file.read()
    height, width, channels = decode(data).shape
    if channels != 3:
        raise ValueError(f"{path.name}: {channels} channels")
    features = {
        "image/height": _integer(height),
        "image/width": _integer(width),
        "image/colorspace": _bytes(b"RGB"),
        "image/channels": _integer(3),
        "image/class/label": _integer(label),
        "image/class/synset": _bytes(path.parent.name.encode()),
        "image/format": _bytes(b"JPEG"),
        "image/filename": _bytes(path.name.encode()),
        "image/encoded": _bytes(data),
    }
    return tf.train.Example(features=tf.train.Features(feature=features))


def _integer(value: int) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


def _bytes(value: bytes) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
