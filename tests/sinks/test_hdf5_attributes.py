"""Attributes and box labels in HDF5: how a user of h5py finds them, and what has no place."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from dataprep.errors import SinkError
from dataprep.sinks.base import DatasetInfo
from dataprep.sinks.example import Example
from dataprep.sinks.hdf5_arrays import Hdf5ArraysSink
from dataprep.sinks.hdf5_bytes import Hdf5Sink
from dataprep.sinks.hdf5_caffe import Hdf5CaffeSink
from tests.sinks.hdf5_cases import CLASSES, arrays, photographs, read, write

INFO = DatasetInfo(
    CLASSES, multilabel=True, attributes=(("patient_id", "int"), ("view", "text")), boxes=True
)
LOWEST = -(2**63)
ATTRIBUTES: list[dict[str, int | str]] = [
    {"patient_id": 7, "view": "PA"},
    {},
    {"view": "Röntgen \udcff"},
    {"patient_id": LOWEST + 1},
    {"patient_id": 2**63 - 1, "view": "AP"},
]
BOX_LABELS = ((), (2,), (0, 1), (), ())  # as many as boxes, or nothing is said
EXAMPLES = [
    replace(it, attributes=attributes, box_labels=labels)
    for it, attributes, labels in zip(photographs(5, INFO), ATTRIBUTES, BOX_LABELS, strict=True)
]


def check_attributes(file: h5py.File) -> None:
    patients, views = file["attributes/patient_id"], file["attributes/view"]
    assert patients.dtype == np.int64
    assert patients[:].tolist() == [7, LOWEST, LOWEST, LOWEST + 1, 2**63 - 1]
    assert patients.attrs["missing"] == LOWEST
    assert [bytes(it) for it in views[:]] == [b"PA", b"", b"R\xc3\xb6ntgen \xff", b"", b"AP"]
    assert h5py.check_string_dtype(views.dtype) == ("utf-8", 10)
    assert views.attrs["missing"] == ""


def test_a_user_of_h5py_finds_what_the_documentation_says(tmp_path: Path) -> None:
    path = write(Hdf5Sink(), tmp_path / "train.h5", EXAMPLES, INFO)
    with h5py.File(path) as file:
        check_attributes(file)
        assert file["box_labels"].dtype == np.int64
        assert file["box_labels"][:].tolist() == [2, 0, 1, -1]
    assert read(Hdf5Sink(), path, INFO) == EXAMPLES
    assert read(Hdf5Sink(), path, DatasetInfo()) == EXAMPLES


def test_the_time_of_day_is_not_in_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = []
    for number in range(2):
        started = int(time.time())
        contents.append(write(Hdf5Sink(), tmp_path / str(number), EXAMPLES, INFO).read_bytes())
        while int(time.time()) == started and not number:
            time.sleep(0.02)
    assert contents[0] == contents[1]


def test_arrays_have_attributes_and_caffes_files_do_not(tmp_path: Path) -> None:
    info = replace(INFO, size=(2, 3), multilabel=False, boxes=False)
    plain = arrays(2, info)
    examples = [replace(it, attributes={"view": "PA"}) for it in plain]
    path = write(Hdf5ArraysSink(), tmp_path / "arrays.h5", examples, info)
    assert read(Hdf5ArraysSink(), path, info) == examples
    info = replace(info, attributes=())
    path = write(Hdf5CaffeSink(), tmp_path / "caffe.h5", examples, info)
    assert read(Hdf5CaffeSink(), path, info) == plain
    with h5py.File(path) as file:
        assert sorted(file) == ["data", "keys", "label"]


@pytest.mark.parametrize(
    ("view", "message"),
    [
        ("x" * 4097, "more than 4096 bytes, and it has one of 4097"),
        ("zero\0", "ends in a zero byte"),
    ],
)
def test_a_value_without_a_place_is_refused(tmp_path: Path, view: str, message: str) -> None:
    good: Example = EXAMPLES[0]
    writer = Hdf5Sink().open([tmp_path / "train.h5"], INFO)
    writer.write(good)
    with pytest.raises(SinkError, match=rf"^'n01440764/.*{message}"):
        writer.write(replace(good, attributes={"view": view}))
    writer.write(good)
    writer.close()
    writer.abandon()
    assert read(Hdf5Sink(), tmp_path / "train.h5", INFO) == [good, good], "nothing of it is left"
