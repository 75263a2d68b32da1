"""Radiographs with any number of 14 findings, read by TensorFlow, DALI and webdataset.

What MXNet, lmdb and h5py make of them is with those readers' other tests. The ``imagenet`` command
gives every image one label, so the sinks are asked directly.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dataprep.sinks import DatasetInfo, Sink
from dataprep.sinks.example import Example
from dataprep.sinks.lmdb_caffe import LmdbSink
from dataprep.sinks.recordio import RecordIOSink
from dataprep.sinks.tfrecord import TFRecordSink
from dataprep.sinks.webdataset import WebDatasetSink

CLASSES = tuple((f"f{number}", f"finding {number}") for number in range(14))
INFO = DatasetInfo(classes=CLASSES, multilabel=True)
FINDINGS = [(), (13,), (0, 1, 2), tuple(range(14)), (5, 9)]


def encoded(number: int) -> bytes:
    return b"\x89PNG image %d" % number


def multi_hot() -> list[list[int]]:
    vectors = np.zeros((len(FINDINGS), len(CLASSES)), int)
    for vector, found in zip(vectors, FINDINGS, strict=True):
        vector[list(found)] = 1
    return vectors.tolist()


def write(sink: Sink, *paths: Path) -> list[str]:
    for path in paths:
        path.parent.mkdir(exist_ok=True)
    writer = sink.open(paths, INFO)
    for number, found in enumerate(FINDINGS):
        key = f"{number}.png"
        writer.write(Example(key, encoded(number), "PNG", 8, 8, "RGB", found, "", ""))
    writer.close()
    return [str(path) for path in paths]


def run(dali: Any, outputs: Any) -> list[tuple[bytes, list[int]]]:
    """(image file, numbers) of every record, as DALI gives them."""
    pipeline = dali.Pipeline(batch_size=1, num_threads=1, device_id=None)
    with pipeline:
        pipeline.set_outputs(*outputs())
    pipeline.build()
    records = []
    for _ in FINDINGS:
        image, numbers = (np.asarray(output.at(0)) for output in pipeline.run())
        records.append((image.tobytes(), numbers.ravel().astype(int).tolist()))
    return records


def expected() -> list[tuple[bytes, list[int]]]:
    return [(encoded(number), vector) for number, vector in enumerate(multi_hot())]


def test_tensorflow_parses_fourteen_numbers(tf, tmp_path: Path) -> None:
    data, _ = write(TFRecordSink(), tmp_path / "train-00000-of-00001", tmp_path / "index")
    features = {
        "image/encoded": tf.io.FixedLenFeature((), tf.string),
        "image/class/label": tf.io.FixedLenFeature((14,), tf.int64),
    }
    parsed = [tf.io.parse_single_example(r, features) for r in tf.data.TFRecordDataset(data)]
    assert [
        (found["image/encoded"].numpy(), found["image/class/label"].numpy().tolist())
        for found in parsed
    ] == expected()


def test_dali_parses_fourteen_numbers(dali, tmp_path: Path) -> None:
    data, index = write(TFRecordSink(), tmp_path / "train-00000-of-00001", tmp_path / "index")
    features = {
        "image/encoded": dali.tfrecord.FixedLenFeature((), dali.tfrecord.string, ""),
        "image/class/label": dali.tfrecord.FixedLenFeature([14], dali.tfrecord.int64, -1),
    }

    def outputs() -> list[Any]:
        found = dali.fn.readers.tfrecord(path=[data], index_path=[index], features=features)
        return [found[key] for key in features]

    assert run(dali, outputs) == expected()


def test_dali_reads_recordio(dali, tmp_path: Path) -> None:
    names = ("train.rec", "train.idx", "train.lst")
    data, index, _ = write(RecordIOSink(), *(tmp_path / name for name in names))
    found = run(dali, lambda: dali.fn.readers.mxnet(path=[data], index_path=[index]))
    assert found == expected()


def test_dali_reads_caffes_second_database(dali, tmp_path: Path) -> None:
    names = ("train_lmdb", "train_labels_lmdb")
    write(LmdbSink(labels="multi"), *(tmp_path / name / "data.mdb" for name in names))
    images, vectors = (
        run(dali, lambda name=name: dali.fn.readers.caffe(path=[str(tmp_path / name)]))
        for name in names
    )
    assert [
        (image, [*vector]) for (image, _), (vector, _) in zip(images, vectors, strict=True)
    ] == (expected())


@pytest.mark.filterwarnings(
    # It leaves the archives to the garbage collector.
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore::DeprecationWarning",
)
def test_webdataset_finds_the_labels_in_the_json(tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset", reason="needs webdataset")
    data, _ = write(WebDatasetSink(), tmp_path / "train-00000-of-00001.tar", tmp_path / "index.idx")
    dataset = webdataset.WebDataset(data, shardshuffle=False).decode()
    found = [(sample["json"]["labels"], "cls" in sample) for sample in dataset]
    assert found == [(list(labels), False) for labels in FINDINGS]
