"""TFRecord shards of tf.train.Example, with NVIDIA DALI's index beside them.

``train/train-00000-of-01024`` (or flat), and ``index/train/train-00000-of-01024`` holding one
line ``<offset> <bytes>`` a record, framing included, as DALI's ``tfrecord2idx`` writes it. The
index has a directory of its own because readers glob ``train-*``.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from typing_extensions import override

from dataprep.archives.tfrecord import FRAMING, HEADER, frame, frames, unframe
from dataprep.errors import SinkError
from dataprep.sinks import Layout, PlainSink, Record, ShardName, tf_example
from dataprep.sinks.example import DatasetInfo, Example
from dataprep.sinks.reference_readers import import_reader
from dataprep.sinks.stream import StreamReader, StreamWriter
from dataprep.system.regular_files import read_regular
from dataprep_schemas.fields import PLAIN, KindName

_EXAMPLE_OVERHEAD = 520  # measured: an Example without its image is 450 to 510 bytes


class TFRecordWriter(StreamWriter):
    """Writes one shard and its DALI index."""

    @override
    def append(self, example: Example) -> None:
        data, index = self.files
        start = data.size
        data.write(*frame(*tf_example.encode(example, self.info)))
        index.write(b"%d %d\n" % (start, data.size - start))


class TFRecordReader(StreamReader):
    """Reads one shard, checking both checksums of every record, and the index if it is given."""

    def offsets(self, sidecars: Sequence[Path]) -> Sequence[int]:
        """By the index; without it, by a walk over the frames."""
        found = [0]
        if not sidecars:
            found = [at - HEADER.size for at, _ in frames(self.pread, self.size)] + [self.size]
        else:
            for line in read_regular(sidecars[0]).splitlines():
                start, size = map(int, line.split())
                if start != found[-1]:
                    raise SinkError(f"{sidecars[0]} says byte {start}, not {found[-1]}")
                found.append(start + size)
        if found[-1] != self.size:
            raise SinkError(f"the last record ends at byte {found[-1]} of {self.size}")
        return found

    def decode(self, number: int, data: bytes) -> Example:  # noqa: ARG002 - others need it
        """The Example of a record."""
        return tf_example.decode(unframe(data), self.info)

    @override
    def image(self, number: int) -> bytes:
        """Both checksums are checked, and the other features passed over."""
        return tf_example.image_of(unframe(self.record(number)))


class TFRecordSink(PlainSink):
    """``--sink tfrecord``; no options: one way to write it, the way the readers expect."""

    name: ClassVar[str] = "tfrecord"
    summary: ClassVar[str] = (
        "tf.train.Example in TFRecord files, with DALI's index: TensorFlow, DALI"
    )
    keeps: ClassVar[Collection[KindName]] = (*PLAIN, "texts", "boxes", "box_labels")
    reference: ClassVar[str] = "tf.data"
    overhead: ClassVar[int] = FRAMING + _EXAMPLE_OVERHEAD
    Writer = TFRecordWriter
    Reader = TFRecordReader

    @override
    def paths(self, shard: ShardName, layout: Layout) -> Sequence[PurePosixPath]:
        """The records, then the index; names as Google's TPU script gives them."""
        data = PurePosixPath(str(shard))
        if layout == "split":
            data = shard.split / data
        return data, PurePosixPath("index", shard.split, str(shard))

    @override
    def reference_records(self, paths: Sequence[Path], info: DatasetInfo) -> Iterator[Record]:
        """The records by ``tf.data.TFRecordDataset`` and ``tf.io.parse_single_example``."""
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # it talks of the processor
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
        tf = import_reader("tensorflow", install="tensorflow-cpu")
        return _tensorflow_records(tf, str(paths[0]), info)


def _tensorflow_records(tf: Any, path: str, info: DatasetInfo) -> Iterator[Record]:
    shape = [len(info.classes)] if info.multilabel else [1]
    features = {
        "image/encoded": tf.io.FixedLenFeature((), tf.string),
        "image/class/label": tf.io.FixedLenFeature(shape, tf.int64),
    }
    parse = tf.io.parse_single_example
    dataset = tf.data.TFRecordDataset(path).map(lambda record: parse(record, features))
    try:
        for found in dataset.as_numpy_iterator():
            label = found["image/class/label"].tolist()
            single = not info.multilabel
            labels = (label[0] - tf_example.LABEL_BASE,) if single else info.labels_of(label)
            yield found["image/encoded"], labels
    except tf.errors.OpError as error:
        raise SinkError(f"{path}: TensorFlow: {error.message}") from error
