"""What is true of every example: in the manifest, and once a format has left some of it out."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dataprep.build.job import dropped_fields
from dataprep.build.manifest import dataset_info, describe_info
from dataprep.plugins import load_sink
from dataprep.sinks import DatasetInfo

INFO = DatasetInfo(
    classes=(("A", "Atelectasis"), ("B", "Effusion")),
    multilabel=True,
    colorspace="Grayscale",
    size=(250, 240),
    attributes=(("patient_id", "int"), ("view", "text")),
    boxes=True,
)


def restored(examples: dict[str, object], **manifest: object) -> DatasetInfo:
    written = {"classes": INFO.classes, "examples": examples, **manifest}
    return dataset_info(json.loads(json.dumps(written)))


@pytest.mark.parametrize("info", [INFO, replace(INFO, attributes=(), boxes=False, size=None)])
def test_a_manifest_gives_back_what_it_was_told(info: DatasetInfo) -> None:
    assert restored(describe_info(info)) == info


@pytest.mark.parametrize(("bbox_sha256", "boxes"), [("00" * 32, True), (None, False)])
def test_early_manifests_have_boxes_if_they_name_their_file(
    bbox_sha256: str | None, *, boxes: bool
) -> None:
    early = describe_info(INFO)
    del early["attributes"], early["boxes"]
    found = restored(early, bbox_sha256=bbox_sha256)
    assert found == replace(INFO, attributes=(), boxes=boxes)
    assert restored(early) == replace(INFO, attributes=(), boxes=False)


@pytest.mark.parametrize("name", ["tfrecord", "webdataset", "hdf5"])
def test_nothing_is_left_out_of_formats_that_keep_all(name: str) -> None:
    assert dropped_fields(INFO, load_sink(name)) == (INFO, ())


@pytest.mark.parametrize("name", ["lmdb", "recordio", "hdf5-caffe"])
def test_what_is_left_out_is_said(name: str) -> None:
    assert dropped_fields(INFO, load_sink(name)) == (
        replace(INFO, attributes=(), boxes=False),
        (
            f"sink {name} has no place for bounding boxes: they are left out",
            f"sink {name} has no place for patient_id, view: they are left out",
        ),
    )
    plain = replace(INFO, attributes=(), boxes=False)
    assert dropped_fields(plain, load_sink(name)) == (plain, ())


@pytest.mark.parametrize("name", ["lmdb-torch", "hdf5-arrays"])
def test_a_format_may_keep_attributes_alone(name: str) -> None:
    found, lines = dropped_fields(INFO, load_sink(name))
    assert found == replace(INFO, boxes=False)
    assert lines == (f"sink {name} has no place for bounding boxes: they are left out",)
