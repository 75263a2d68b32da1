"""Lines that load a data set, with its own paths and labels.

They are the beginnings of the blocks in docs/reading.md, up to where training begins; a test
compares them, and runs them for every format.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final

from dataprep_schemas.manifest import Manifest, SinkConfig

_ALWAYS: Final[Mapping[str, str]] = {
    "PyTorch": """
import dataprep
import numpy as np
import torch
from PIL import ImageOps
from torch.utils.data import DataLoader


def pixels(picture):  # or a transform of torchvision
    picture = ImageOps.fit(picture.convert("RGB"), (224, 224))
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1)


if __name__ == "__main__":
    dataset = dataprep.open("OUT", split={split}).to_torch(pixels)
    loader = DataLoader(dataset, batch_size=8, shuffle=True, num_workers=2)
""",
}

# Of each sink, trainer by trainer.
_OF_SINK: Final[Mapping[str, Mapping[str, str]]] = {
    "tfrecord": {
        "TensorFlow": """
import tensorflow as tf

features = {{
    "image/encoded": tf.io.FixedLenFeature((), tf.string),
    "image/class/label": tf.io.FixedLenFeature({shape}, tf.int64),
}}


def parse(record):
    example = tf.io.parse_single_example(record, features)
    image = tf.io.decode_image(example["image/encoded"], channels=3, expand_animations=False)
    return tf.image.resize(image, (224, 224)), example["image/class/label"]{minus_base}


files = tf.data.Dataset.list_files({pattern}, shuffle=True)
dataset = files.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=4)
dataset = dataset.shuffle(1000).map(parse, num_parallel_calls=4).batch(8).prefetch(2)
""",
        "DALI": """
from glob import glob

from nvidia.dali import fn, pipeline_def, tfrecord

features = {{
    "image/encoded": tfrecord.FixedLenFeature((), tfrecord.string, ""),
    "image/class/label": tfrecord.FixedLenFeature([{width}], tfrecord.int64, -1),
}}


@pipeline_def(batch_size=8, num_threads=2, device_id=None)
def pipeline():
    found = fn.readers.tfrecord(
        path=sorted(glob({pattern})),
        index_path=sorted(glob({index_pattern})),
        features=features,
        random_shuffle=True,
        name="Reader",
    )
    images = fn.decoders.image(found["image/encoded"], device="cpu")
    return fn.resize(images, size=(224, 224)), found["image/class/label"]{minus_base}
""",
    },
    "lmdb": {
        "Caffe": """
layer {{
  name: "data"  type: "Data"  top: "data"  top: "label"
  include {{ phase: TRAIN }}
  transform_param {{
    force_color: true  mirror: true  crop_size: 224
    mean_value: 104  mean_value: 117  mean_value: 123
  }}
  data_param {{ source: {folder}  backend: LMDB  batch_size: 32  prefetch: 4 }}
}}
""",
    },
    "hdf5-caffe": {
        "Caffe": """
layer {{
  name: "data"  type: "HDF5Data"  top: "data"  top: "label"
  include {{ phase: TRAIN }}
  hdf5_data_param {{ source: {list}  batch_size: 32  shuffle: true }}
}}
""",
    },
    "recordio": {
        "MXNet": """
import mxnet as mx

iterator = mx.io.ImageRecordIter(
    path_imgrec={first},
    path_imgidx={index},  # without it only images near each other are shuffled
    data_shape=(3, 224, 224),
    resize=256,  # the shorter side
    rand_crop=True,
    rand_mirror=True,
    shuffle=True,
    batch_size=8,
    label_width={width},  # the number of classes, where an image has any number of labels
    num_parts=1,  # world size
    part_index=0,  # rank
)
""",
        "DALI": """
from nvidia.dali import fn, pipeline_def


@pipeline_def(batch_size=8, num_threads=2, device_id=None)
def pipeline():
    encoded, labels = fn.readers.mxnet(
        path=[{first}], index_path=[{index}], random_shuffle=True, name="Reader"
    )
    return fn.resize(fn.decoders.image(encoded, device="cpu"), size=(224, 224)), labels
""",
    },
    "arrayrecord": {
        "Grain": """
from glob import glob

import grain
import numpy as np
from PIL import ImageOps

from dataprep.sinks import DatasetInfo, tf_example


class Decode(grain.transforms.Map):
    def map(self, record):
        example = tf_example.decode(record, DatasetInfo())
        picture = example.image().convert("RGB")
        return np.asarray(ImageOps.fit(picture, (224, 224))), {example_label}


if __name__ == "__main__":
    source = grain.sources.ArrayRecordDataSource(sorted(glob({pattern})))
    sampler = grain.samplers.IndexSampler(
        len(source),
        num_epochs=1,
        shuffle=True,
        seed=1,
        shard_options=grain.sharding.NoSharding(),  # of ranks: ShardOptions(rank, world_size)
    )
    loader = grain.DataLoader(
        data_source=source,
        sampler=sampler,
        operations=[Decode(), grain.transforms.Batch(batch_size=8)],
        worker_count=2,
    )
""",
    },
    "webdataset": {
        "webdataset": """
from glob import glob

import webdataset
from torch.utils.data import DataLoader

if __name__ == "__main__":
    urls = sorted(glob({pattern}))
    dataset = webdataset.WebDataset(urls, shardshuffle=100, nodesplitter=webdataset.split_by_node)
    dataset = dataset.shuffle(1000).decode("pil").to_tuple("jpg;png", "{label_part}")
    loader = DataLoader(dataset, batch_size=None, num_workers=2)
""",
        "Energon": """
from megatron.energon import WorkerConfig, get_loader, get_train_dataset

if __name__ == "__main__":
    dataset = get_train_dataset(
        {folder},
        worker_config=WorkerConfig.default_worker_config(num_workers=2),
        batch_size=None,
        shuffle_buffer_size=1000,
        max_samples_per_sequence=100,
        repeat=False,  # once through; by default it never ends
    )
    loader = get_loader(dataset)
""",
    },
    "parquet": {
        "Hugging Face": """
import numpy as np
import torch
from datasets import load_dataset
from PIL import ImageOps
from torch.utils.data import DataLoader


def prepared(row):
    picture = ImageOps.fit(row["image"].convert("RGB"), (224, 224))
    pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1)
    return {{"pixels": pixels, "labels": {row_label}}}


if __name__ == "__main__":
    stream = load_dataset("OUT", split={split}, streaming=True)
    stream = stream.shuffle(buffer_size=1000).map(prepared).select_columns(["pixels", "labels"])
    loader = DataLoader(stream, batch_size=8, num_workers=2)
""",
    },
}


def trainers(sink: SinkConfig, *, multilabel: bool) -> dict[str, str]:
    """Those that read a format, with lines in which a data set's own words have places."""
    found = {**_ALWAYS, **_OF_SINK.get(sink.name, {})}
    if multilabel or ("energon", "yes") not in sink.config.items():
        found.pop("Energon", None)  # samples with several labels are for a cooker of the user's
    return found


def loaders(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """(trainer, lines) for each that reads this format."""
    split = "train" if "train" in manifest.splits else next(iter(manifest.splits))
    paths = [file.path for file in manifest.splits[split].shards[0].files]
    first = paths[0]
    index = next((path for path in paths if path.endswith(".idx")), paths[-1])
    classes, multilabel = len(manifest.classes), manifest.examples.multilabel
    values = {
        "split": _literal(split),
        "list": _literal(f"{split}.txt"),
        "first": _literal(f"OUT/{first}"),
        "folder": _literal(f"OUT/{PurePosixPath(first).parent}"),
        "pattern": _literal(f"OUT/{_pattern(first)}"),
        "index": _literal(f"OUT/{index}"),
        "index_pattern": _literal(f"OUT/{_pattern(index)}"),
        "width": classes if multilabel else 1,
        "shape": f"[{classes}]" if multilabel else "()",
        "minus_base": "" if multilabel else " - 1",
        "label_part": "json" if multilabel else "cls",
        "example_label": "example.class_index",
        "row_label": 'row["label"]',
    }
    if multilabel:
        values["example_label"] = f"np.isin(range({classes}), example.labels)"
        values["row_label"] = f'np.isin(range({classes}), row["labels"])'
    for trainer, lines in trainers(manifest.sink, multilabel=multilabel).items():
        yield trainer, lines.strip().format(**values)


def _pattern(path: str) -> str:
    """A glob of all shards: ``train/train-00000-of-00008.tar`` is ``train/train-*.tar``."""
    head, _, tail = path.rpartition("-of-")
    before = glob.escape(head.rpartition("-")[0])
    return f"{before}-*{PurePosixPath(tail).suffix}" if head else glob.escape(path)


def _literal(text: str) -> str:
    """A string of Python, for whatever a manifest says; in double quotes if it needs no escape."""
    inner = repr(text)[1:-1]
    return f'"{inner}"' if inner == text and '"' not in text else repr(text)
