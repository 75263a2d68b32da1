"""Lines that load a data set, with its own paths and class count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_ALWAYS: Final = (
    "PyTorch",
    """import dataprep, numpy, torch
from PIL import ImageOps

def pixels(picture):  # or a transform of torchvision
    cut = ImageOps.fit(picture.convert("RGB"), (224, 224))
    return torch.from_numpy(numpy.array(cut)).permute(2, 0, 1)

dataset = dataprep.open("OUT", "{split}").to_torch(pixels)  # {classes} classes
train = torch.utils.data.DataLoader(dataset, batch_size=256, shuffle=True, num_workers=2)""",
)

_OF_SINK: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "tfrecord": (
        (
            "TensorFlow",
            """import tensorflow as tf

features = {{"image/encoded": tf.io.FixedLenFeature([], tf.string),
            "image/class/label": tf.io.VarLenFeature(tf.int64)}}

def parse(record):
    found = tf.io.parse_single_example(record, features)
    image = tf.io.decode_image(found["image/encoded"], channels=3, expand_animations=False)
    return image, tf.sparse.to_dense(found["image/class/label"])  # {label_base}

files = tf.data.Dataset.list_files("OUT/{pattern}")
train = files.interleave(tf.data.TFRecordDataset, cycle_length=8).map(parse)""",
        ),
        (
            "DALI",
            """from nvidia.dali import fn, types, tfrecord
import glob

inputs = fn.readers.tfrecord(
    path=sorted(glob.glob("OUT/{pattern}")), index_path=sorted(glob.glob("OUT/{index}")),
    features={{"image/encoded": tfrecord.FixedLenFeature((), tfrecord.string, ""),
              "image/class/label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1)}},
    random_shuffle=True, name="reader")
images = fn.decoders.image(inputs["image/encoded"])""",
        ),
    ),
    "recordio": (
        (
            "MXNet",
            """import mxnet as mx

train = mx.io.ImageRecordIter(
    path_imgrec="OUT/{first}", path_imgidx="OUT/{first_index}", data_shape=(3, 224, 224),
    resize=256, rand_crop=True, batch_size=256, shuffle=True)  # {classes} classes""",
        ),
        (
            "DALI",
            """from nvidia.dali import fn

encoded, labels = fn.readers.mxnet(
    path=["OUT/{first}"], index_path=["OUT/{first_index}"], random_shuffle=True, name="reader")
images = fn.decoders.image(encoded)""",
        ),
    ),
    "arrayrecord": (
        (
            "Grain",
            """import glob
import grain

source = grain.sources.ArrayRecordDataSource(sorted(glob.glob("OUT/{pattern}")))
train = grain.MapDataset.source(source).shuffle(seed=1)  # bytes of tf.train.Example""",
        ),
    ),
    "webdataset": (
        (
            "webdataset",
            """import glob
import webdataset as wds

train = wds.WebDataset(sorted(glob.glob("OUT/{pattern}")), shardshuffle=100)
train = train.shuffle(1000).decode("pil")""",
        ),
    ),
    "energon": (
        (
            "Energon",
            """from megatron.energon import WorkerConfig, get_loader, get_train_dataset

workers = WorkerConfig(rank=0, world_size=1, num_workers=2)
dataset = get_train_dataset(
    "OUT/{split}", worker_config=workers, batch_size=1, shuffle_buffer_size=1000,
    max_samples_per_sequence=100, repeat=False)
train = get_loader(dataset)  # {classes} classes""",
        ),
    ),
    "parquet": (
        (
            "Hugging Face",
            """from datasets import load_dataset

train = load_dataset("OUT", split="{split}", streaming=True).shuffle(buffer_size=1000)
for row in train:
    row["image"], row["{label}"]  # Pillow's image; {classes} classes""",
        ),
    ),
}


def loaders(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(trainer, lines) for each that reads this format."""
    splits = manifest["splits"]
    split = "train" if "train" in splits else next(iter(splits))
    files = splits[split]["shards"][0]["files"] if splits[split]["shards"] else []
    paths = [file["path"] for file in files] or [f"{split}/"]
    first = paths[0]
    index = next(
        (path for path in paths if path.startswith("index/") or path.endswith(".idx")), first
    )
    sink = manifest["sink"]
    kinds = [sink["name"], "energon" if sink["config"].get("energon") == "yes" else ""]
    values = {
        "split": split,
        "classes": len(manifest["classes"]),
        "first": first,
        "first_index": index,
        "pattern": _pattern(first),
        "index": _pattern(index),
        "label": "labels" if manifest["examples"]["multilabel"] else "label",
        "label_base": f"label base: {sink['config'].get('label_base', 0)}",
    }
    chosen = (_ALWAYS, *(lines for kind in kinds for lines in _OF_SINK.get(kind, ())))
    return [(name, lines.format(**values)) for name, lines in chosen]


def _pattern(path: str) -> str:
    """A glob of all shards: ``train/train-00000-of-00008`` is ``train/train-*-of-00008``."""
    head, _, tail = path.rpartition("-of-")
    return f"{head.rpartition('-')[0]}-*-of-{tail}" if head else path
