#!/usr/bin/env bash
# NVIDIA DALI 2.4.0, fn.readers.tfrecord: where a record lacks a feature, it gives neither the default
# that FixedLenFeature was told nor what its documentation says, "an empty tensor", but a scalar that
# nothing has set, mostly 0. So an age that nobody knows is 0 though -1 was asked, and an
# image without boxes has one coordinate. And FixedLenFeature of several texts gives the first alone.
# TensorFlow gives the defaults and no coordinates, and refuses the texts.
#
# Output seen; the second record of two has no feature but its number:
#   dali 2.4.0, tensorflow 2.21.0
#   age:      dali [61] and [0], of shapes (1,) and (), tensorflow [61] and [-1]
#   weight:   dali [1.5] and [0.0], of shapes (1,) and (), tensorflow [1.5] and [-1.0]
#   boxes:    dali 4 and 1 values, tensorflow 4 and 0
#   captions: dali b'A cat.' of 2, tensorflow InvalidArgumentError
#
# Ends with 0 while that is so, with 1 if it has changed.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet "nvidia-dali-cuda120==2.4.0" "tensorflow-cpu==2.21.0"
cat > "$place/read.py" <<'PYTHON'
import sys
from importlib.metadata import version

import numpy as np
import tensorflow as tf
from nvidia.dali import Pipeline, fn, tfrecord

path = sys.argv[1] + "/train"
FULL = {
    "number": tf.train.Feature(int64_list=tf.train.Int64List(value=[1])),
    "age": tf.train.Feature(int64_list=tf.train.Int64List(value=[61])),
    "weight": tf.train.Feature(float_list=tf.train.FloatList(value=[1.5])),
    "boxes": tf.train.Feature(float_list=tf.train.FloatList(value=[0.25, 0.25, 0.5, 0.5])),
    "captions": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"A cat.", b"A mat."])),
}
examples = [
    tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()
    for feature in (FULL, {"number": FULL["number"]})
]
with tf.io.TFRecordWriter(path) as file:
    for example in examples:
        file.write(example)
with open(path + ".idx", "w") as file:
    sizes = [len(example) + 16 for example in examples]  # with its framing
    file.write(f"0 {sizes[0]}\n{sizes[0]} {sizes[1]}\n")


def asked(library):
    one, many = library.FixedLenFeature, library.VarLenFeature
    default = (lambda value: (value,)) if library is tfrecord else (lambda value: ())
    return {
        "age": one([1], library.int64, -1),
        "weight": one([1], library.float32, -1.0),
        "boxes": many(library.float32, *default(0.0)),
        **({"captions": one((), library.string, "")} if library is tfrecord else {}),
    }


pipeline = Pipeline(batch_size=1, num_threads=1, device_id=None)
with pipeline:
    found = fn.readers.tfrecord(path=[path], index_path=[path + ".idx"], features=asked(tfrecord))
    pipeline.set_outputs(*found.values())
pipeline.build()
runs = ([np.array(output.at(0)) for output in pipeline.run()] for _ in examples)
dali = [dict(zip(found, values)) for values in runs]


class Of:  # as DALI calls them
    FixedLenFeature, VarLenFeature = tf.io.FixedLenFeature, tf.io.VarLenFeature
    int64, float32, string = tf.int64, tf.float32, tf.string


flow = []
for example in examples:
    parsed = tf.io.parse_single_example(example, asked(Of))
    flow.append({name: getattr(it, "values", it).numpy() for name, it in parsed.items()})
text = bytes(dali[0]["captions"])
try:
    refused = tf.io.parse_single_example(
        examples[0], {"captions": tf.io.FixedLenFeature((), tf.string, "")}
    )
except tf.errors.InvalidArgumentError as error:
    refused = type(error).__name__

print(f"dali {version('nvidia-dali-cuda120')}, tensorflow {tf.__version__}")
for name in ("age", "weight"):
    said = [[it[name].reshape(-1).tolist() for it in each] for each in (dali, flow)]
    shapes = " and ".join(str(it[name].shape) for it in dali)
    words = (f"{name + ':':9} dali {said[0][0]} and {said[0][1]}, of shapes {shapes}",)
    print(*words, f"tensorflow {said[1][0]} and {said[1][1]}", sep=", ")
counts = [[it["boxes"].size for it in each] for each in (dali, flow)]
print("boxes:    dali {} and {} values, tensorflow {} and {}".format(*counts[0], *counts[1]))
print(f"captions: dali {text} of 2, tensorflow {refused}")
right = flow[1]["age"].tolist() == [-1] and counts[1] == [4, 0] and isinstance(refused, str)
as_seen = dali[1]["age"].shape == () and counts[0] == [4, 1] and text == b"A cat."
sys.exit(0 if right and as_seen else 1)
PYTHON
TF_CPP_MIN_LOG_LEVEL=3 "$place/venv/bin/python" -W ignore "$place/read.py" "$place" 2> "$place/log" ||
  { status=$?; tail -5 "$place/log"; exit "$status"; }
