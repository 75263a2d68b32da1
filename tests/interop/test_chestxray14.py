"""A made-up ChestX-ray14, prepared by the command, in the hands of readers we did not write.

They find the labels that Python's csv module finds in the raw set's CSV, in an order of findings
that is written out in the tests.
"""

from __future__ import annotations

import io
from pathlib import Path
from types import ModuleType
from typing import Any

import h5py
import numpy as np
import pytest
from PIL import Image

import dataprep
from tests.conftest import FINDINGS, Labelled, Made, Shelf, read_labels, shelf_of
from tests.interop.conftest import run_dali, run_mxnet

COUNT = len(FINDINGS)
TEXTS = ("view", "gender")
NUMBERS = ("patient_id", "age", "follow_up")
SINGLE = ("--splits", "test", "--num_shards", "1")

Vectors = dict[str, list[int]]


@pytest.fixture(scope="module")
def expected(radiographs: Made) -> dict[str, Labelled]:
    """What the CSV says of each image of the test list, which is the test split."""
    everything = read_labels(radiographs.raw.path)
    names = (radiographs.raw.path / "test_list.txt").read_text("ascii").split()
    assert any(len(everything[name].findings) > 1 for name in names)
    assert any(not everything[name].findings for name in names)
    return {name: everything[name] for name in names}


@pytest.fixture(scope="module")
def vectors(expected: dict[str, Labelled]) -> Vectors:
    return {name: row.vector() for name, row in expected.items()}


@pytest.fixture(scope="module")
def made(radiographs: Made, tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    """made(format, *options) -> its test split; each is made when first asked for."""
    return shelf_of(radiographs, tmp_path_factory.mktemp("made"))


def shards(out: Path, split: str) -> list[str]:
    return sorted(str(path) for path in (out / split).iterdir())


def by_image(radiographs: Made) -> dict[bytes, str]:
    """The names of the images, by the bytes that are stored of them."""
    return {example.encoded: example.key for example in dataprep.open(radiographs.out, "test")}


# --- TFRecord ---


def test_tf_data_parses_fourteen_numbers_and_the_attributes(
    tf: ModuleType, radiographs: Made, expected: dict[str, Labelled]
) -> None:
    numbers = {
        f"attribute/{name}": tf.io.FixedLenFeature((), tf.int64, default_value=-1)
        for name in NUMBERS
    }
    texts = {f"attribute/{name}": tf.io.FixedLenFeature((), tf.string) for name in TEXTS}
    features = {
        "image/filename": tf.io.FixedLenFeature((), tf.string),
        "image/encoded": tf.io.FixedLenFeature((), tf.string),
        "image/class/label": tf.io.FixedLenFeature([COUNT], tf.int64),
        **numbers,
        **texts,
    }
    dataset = tf.data.TFRecordDataset(shards(radiographs.out, "test"))
    found = {}
    for batch in dataset.batch(8).map(lambda records: tf.io.parse_example(records, features)):
        names = [name.decode() for name in batch["image/filename"].numpy()]
        for at, name in enumerate(names):
            attributes = {key.split("/")[1]: batch[key].numpy()[at] for key in (*numbers, *texts)}
            found[name] = (batch["image/class/label"].numpy()[at].tolist(), attributes)
            pixels = tf.io.decode_png(batch["image/encoded"][at])
            assert pixels.shape == (24, 24, 1)
    assert found == {
        name: (
            row.vector(),
            {
                key: value.encode() if isinstance(value, str) else value
                for key, value in row.attributes.items()
            },
        )
        for name, row in expected.items()
    }


def test_tf_data_finds_whose_box_is_where(tf: ModuleType, radiographs: Made) -> None:
    lines = (radiographs.raw.path / "BBox_List_2017.csv").read_text("ascii").splitlines()[1:]
    rows = [line.split(",") for line in lines]
    wanted = {
        (row[0], row[1].replace("Infiltrate", "Infiltration"), np.float32(float(row[2]) / 1024))
        for row in rows
    }
    features = {
        "image/filename": tf.io.FixedLenFeature((), tf.string),
        "image/object/bbox/xmin": tf.io.VarLenFeature(tf.float32),
        "image/object/bbox/label": tf.io.VarLenFeature(tf.int64),
        "image/object/class/text": tf.io.VarLenFeature(tf.string),
    }
    files = [
        file for split in ("train", "validation", "test") for file in shards(radiographs.out, split)
    ]
    found = set()
    for record in tf.data.TFRecordDataset(files):
        parsed = tf.io.parse_single_example(record, features)
        sides, labels, texts = (
            tf.sparse.to_dense(parsed[key]).numpy() for key in list(features)[1:]
        )
        assert [text.decode() for text in texts] == [FINDINGS[label] for label in labels]
        name = parsed["image/filename"].numpy().decode()
        found |= {(name, text.decode(), side) for text, side in zip(texts, sides, strict=True)}
    assert found == wanted


def test_dali_parses_fourteen_numbers(
    dali: ModuleType, radiographs: Made, vectors: Vectors
) -> None:
    tfrecord = dali.tfrecord
    features = {
        "image/filename": tfrecord.FixedLenFeature((), tfrecord.string, ""),
        "image/class/label": tfrecord.FixedLenFeature([COUNT], tfrecord.int64, -1),
        "attribute/patient_id": tfrecord.FixedLenFeature([1], tfrecord.int64, -1),
        "image/encoded": tfrecord.FixedLenFeature((), tfrecord.string, ""),
    }

    def outputs() -> list[Any]:
        found = dali.fn.readers.tfrecord(
            path=shards(radiographs.out, "test"),
            index_path=shards(radiographs.out / "index", "test"),
            features=features,
            name="Reader",
        )
        *rest, encoded = (found[key] for key in features)
        pixels = dali.fn.decoders.image(encoded, device="cpu", output_type=dali.types.GRAY)
        return [*rest, pixels]

    found = {}
    for name, labels, patient, pixels in run_dali(dali, outputs, len(vectors)):
        key = name.tobytes().decode()
        found[key] = labels.tolist()
        assert patient.tolist() == [int(key[:8])]
        assert pixels.shape == (24, 24, 1)
    assert found == vectors


# --- RecordIO ---


def test_mxnet_reads_records_and_decodes_images_with_label_width_14(
    radiographs: Made, made: Shelf, vectors: Vectors
) -> None:
    out = made("recordio", *SINGLE).out
    read = run_mxnet(out / "test.rec", COUNT, 8)
    lines = [line.split("\t") for line in (out / "test.lst").read_text("ascii").splitlines()]
    keys = [line[-1] for line in lines]
    assert sorted(keys) == sorted(vectors)
    assert [record["labels"] for record in read["python"]] == [vectors[key] for key in keys]
    assert [[float(cell) for cell in line[1:-1]] for line in lines] == [vectors[k] for k in keys]
    middles = {}
    for encoded, key in by_image(radiographs).items():
        with Image.open(io.BytesIO(encoded)) as image:
            middles[key] = np.asarray(image.convert("RGB"))[8:16, 8:16].astype(int)
    for way in ("with-index", "without-index"):
        batches = read["iterators"][way]
        assert [batch["labels"] for batch in batches] == [vectors[key] for key in keys]
        for batch, key in zip(batches, keys, strict=True):
            assert np.abs(np.array(batch["pixels"]) - middles[key]).max() <= 1


# --- HDF5 ---


@pytest.mark.parametrize("name", ["hdf5", "hdf5-arrays"])
def test_h5py_finds_labels_and_attributes(
    made: Shelf, expected: dict[str, Labelled], name: str
) -> None:
    out = made(name, *SINGLE).out
    with h5py.File(out / "test.h5", "r") as file:
        assert list(file.attrs["classes"]) == list(FINDINGS)
        keys = [key.decode() for key in file["keys"][:]]
        assert sorted(keys) == sorted(expected)
        assert file["labels"].shape == (len(keys), COUNT)
        assert file["labels"][:].tolist() == [expected[key].vector() for key in keys]
        for attribute in (*NUMBERS, *TEXTS):
            column = [
                value.decode() if isinstance(value, bytes) else int(value)
                for value in file[f"attributes/{attribute}"][:]
            ]
            assert column == [expected[key].attributes[attribute] for key in keys]
        if name == "hdf5-arrays":
            assert file["images"].shape == (len(keys), 16, 16, 1)
