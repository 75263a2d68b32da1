"""Encoded images in HDF5: what is stored, for whom, and that it comes back."""

from __future__ import annotations

import hashlib
from pathlib import Path

import h5py
import numpy as np
import pytest

from dataprep.sinks.base import DatasetInfo
from dataprep.sinks.hdf5_bytes import Hdf5Sink
from tests.sinks.hdf5_cases import (
    CLASSES,
    ONE,
    example,
    photographs,
    read,
    write,
)

SINK = Hdf5Sink()


def test_a_lone_shard_tells_its_classes(tmp_path: Path) -> None:
    path = write(SINK, tmp_path / "train.h5", photographs(4), ONE)
    assert read(SINK, path, DatasetInfo()) == photographs(4)
    grey = DatasetInfo(CLASSES, multilabel=True, colorspace="Grayscale")
    examples = [example("a", b"x", (0, 2), grey), example("b", b"yy", (), grey)]
    path = write(SINK, tmp_path / "grey.h5", examples, grey)
    assert read(SINK, path, DatasetInfo()) == examples


@pytest.mark.parametrize("count", [5, 300])
def test_a_user_of_h5py_finds_what_the_documentation_says(tmp_path: Path, count: int) -> None:
    """300 are more than what is held back for one write; 5 are less."""
    examples = photographs(count)
    path = write(SINK, tmp_path / "train.h5", examples, ONE)
    with h5py.File(path) as file:
        offsets = file["offsets"][:]
        assert offsets.dtype == np.int64
        images = file["images"]
        for number, each in enumerate(examples):
            assert bytes(images[offsets[number] : offsets[number + 1]]) == each.encoded
        assert file["labels"].dtype == np.int64
        assert file["labels"][:].tolist() == [each.class_index for each in examples]
        assert file["keys"].asstr()[:].tolist() == [each.key for each in examples]
        assert file["heights"][:].tolist() == [each.height for each in examples]
        assert file["widths"][:].tolist() == [each.width for each in examples]
        codes = h5py.check_enum_dtype(file["formats"].dtype)
        assert [codes[each.format] for each in examples] == file["formats"][:].tolist()
        bounds = file["box_offsets"][:]
        assert [tuple(box) for box in file["boxes"][bounds[2] : bounds[3]].tolist()] == list(
            examples[2].boxes
        )
        assert dict(zip(file.attrs["classes"], file.attrs["class_names"], strict=True)) == dict(
            CLASSES
        )
        assert file.attrs["dataprep_format"] == "hdf5"
        assert file.attrs["dataprep_version"] == 1
        assert file.attrs["colorspace"] == "RGB"
        assert file.attrs["multilabel"] == 0


def test_golden_bytes(tmp_path: Path) -> None:
    """Noted with h5py 3.14 on HDF5 1.14.6."""
    golden = {
        12: "5a1206c01ba2a942fb49b714f7eda692c05d4e50969f8f01df29ededf4755098",
        300: "03edd06ac4c91659a29d98207122b6e293a7143b62a153d3a11e2bdc63d0b730",
    }
    for count, digest in golden.items():
        path = write(SINK, tmp_path / f"{count}", photographs(count), ONE)
        assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
