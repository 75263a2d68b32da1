"""What is true of every example: in the manifest, and once a format has left some of it out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from dataprep.formats import DatasetInfo
from dataprep.jobs.running.job import kept_info
from dataprep.plugins import load_sink
from dataprep.sealed.set import SealedSet, examples_of
from dataprep_schemas.fields import BOX_LABELS, BOXES, CAPTIONS, Field
from tests.conftest import Made

INFO = DatasetInfo(
    classes=(("A", "Atelectasis"), ("B", "Effusion")),
    multilabel=True,
    colorspace="Grayscale",
    size=(250, 240),
    fields=(BOXES, BOX_LABELS, CAPTIONS, Field("patient_id", "int"), Field("view", "text")),
)


@pytest.mark.parametrize("info", [INFO, replace(INFO, fields=(), size=None)])
def test_a_manifest_gives_back_what_it_was_told(tiny: Made, info: DatasetInfo) -> None:
    sealed = SealedSet.read(tiny.out)
    told = structs.replace(sealed.manifest, examples=examples_of(info))
    found = SealedSet.of(tiny.out, told).info
    assert found == replace(info, classes=sealed.manifest.classes)


@pytest.mark.parametrize(
    ("name", "kept", "lost"),
    [
        ("hdf5", INFO, ()),
        (
            "recordio",
            replace(INFO, fields=()),
            ("box_labels, boxes, captions, patient_id, view",),
        ),
        ("hdf5-arrays", replace(INFO, fields=INFO.fields[2:]), ("box_labels, boxes",)),
    ],
)
def test_what_is_left_out_is_said(name: str, kept: DatasetInfo, lost: tuple[str, ...]) -> None:
    lines: list[str] = []
    assert kept_info(INFO, load_sink(name), lines.append) == kept
    assert lines == [f"sink {name} has no place for {what}: left out" for what in lost]
