"""Pixels in HDF5, for numpy and for Caffe."""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePosixPath

import h5py
import numpy as np
import pytest

from dataprep.errors import SinkError
from dataprep.sinks.base import DatasetInfo, Sink
from dataprep.sinks.hdf5_arrays import Hdf5ArraysSink
from dataprep.sinks.hdf5_caffe import Hdf5CaffeSink
from tests.sinks.hdf5_cases import CLASSES, arrays, example, write, write_split

BOTH = pytest.mark.parametrize("sink", [Hdf5ArraysSink(), Hdf5CaffeSink()], ids=lambda s: s.name)
INFO = DatasetInfo(CLASSES, size=(3, 4))
GREY = DatasetInfo(CLASSES, multilabel=True, colorspace="Grayscale", size=(2, 5))


@pytest.mark.parametrize(
    ("sink", "digest"),
    [
        (Hdf5ArraysSink(), "73c0272577abb411b75041e695eeb0b44c3bce2d7b9b370c6f94b0074c02b14f"),
        (Hdf5CaffeSink(), "c0d876e57af9a5baae86ad65c7082fafa7818abd3125cf7aa9fb59a159aec050"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_golden_bytes(sink: Sink, digest: str, tmp_path: Path) -> None:
    """Noted with h5py 3.14 on HDF5 1.14.6."""
    path = write(sink, tmp_path / "train.h5", arrays(4, INFO), INFO)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == digest


def test_a_user_of_h5py_finds_what_the_documentation_says(tmp_path: Path) -> None:
    examples = arrays(5, INFO)
    path = write(Hdf5ArraysSink(), tmp_path / "train.h5", examples, INFO)
    with h5py.File(path) as file:
        images = file["images"][:]
        assert images.shape == (5, 3, 4, 3)
        assert images.dtype == np.uint8
        assert images[3].tobytes() == examples[3].encoded
        assert file["labels"][:].tolist() == [0, 1, 2, 0, 1]
        assert file["keys"].asstr()[4] == "4.png"
    grey = [example("a", bytes(range(10)), (0, 2), GREY, format_="RAW", size=(2, 5))]
    path = write(Hdf5ArraysSink(), tmp_path / "grey.h5", grey, GREY)
    with h5py.File(path) as file:
        assert file["images"].shape == (1, 2, 5, 1)
        assert file["labels"][:].tolist() == [[1, 0, 1]]


def test_caffe_finds_what_its_layer_demands(tmp_path: Path) -> None:
    """caffe/src/caffe/layers/hdf5_data_layer.cpp, caffe/src/caffe/util/hdf5.cpp."""
    pixels = bytes(range(3 * 4 * 3))
    examples = [example("a", pixels, (2,), INFO, format_="RAW", size=(3, 4))]
    path = write(Hdf5CaffeSink(), tmp_path / "train.h5", examples, INFO)
    with h5py.File(path) as file:
        assert file["data"].dtype == np.float32
        assert file["data"].shape == (1, 3, 3, 4)
        assert file["data"][0, :, 0, 0].tolist() == [2, 1, 0]  # B, G, R of the first pixel
        assert file["data"][0, 0, 1].tolist() == [14, 17, 20, 23]  # B of the second row
        assert file["label"].dtype == np.float32
        assert file["label"][:].tolist() == [2]
        assert file.attrs["channel_order"] == "BGR"
    grey = [example("a", bytes(range(10)), (0, 2), GREY, format_="RAW", size=(2, 5))]
    path = write(Hdf5CaffeSink(), tmp_path / "grey.h5", grey, GREY)
    with h5py.File(path) as file:
        assert file["label"][:].tolist() == [[1, 0, 1]]
        assert file["data"].shape == (1, 1, 2, 5)


def test_the_list_of_files_is_relative_to_the_output_directory(tmp_path: Path) -> None:
    shards = [arrays(2, INFO), arrays(1, INFO, first=2)]
    (listing,) = write_split(Hdf5CaffeSink(), tmp_path, shards, INFO)
    assert listing == tmp_path / "train.txt"
    assert listing.read_text() == ("train/train-00000-of-00002.h5\ntrain/train-00001-of-00002.h5\n")
    assert Hdf5CaffeSink().split_paths("val", 1, "flat") == (PurePosixPath("val.txt"),)


def test_caffe_counts_values_in_an_int(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Hdf5CaffeSink()
    assert sink.most_images(DatasetInfo(size=(224, 224))) == 14_266
    assert sink.most_images(DatasetInfo(size=(256, 256))) == 10_922
    assert Hdf5ArraysSink().most_images(INFO) is None
    monkeypatch.setattr("dataprep.sinks.hdf5_caffe._INT_MAX", 2 * 36 + 1)
    write(sink, tmp_path / "fits", arrays(2, INFO), INFO)
    writer = sink.open([tmp_path / "not"], INFO)
    first, second, third = arrays(3, INFO)
    writer.write(first)
    writer.write(second)
    with pytest.raises(SinkError, match=r"2\.png.* more than 2 such images .* more shards"):
        writer.write(third)
    writer.abandon()
