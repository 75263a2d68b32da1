"""NVIDIA DALI, on the CPU, reads RecordIO, Caffe's LMDB and WebDataset as well."""

from __future__ import annotations

import runpy
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.interop.conftest import Built, decode

SPLITS = ("train", "validation")


def run(dali: Any, count: int, outputs: Callable[[], tuple[Any, ...]]) -> list[list[Any]]:
    """What a reader named Reader gives, record by record, with the image decoded at the end."""
    pipeline = dali.Pipeline(batch_size=1, num_threads=1, device_id=None)
    with pipeline:
        encoded, *others = outputs()
        pixels = dali.fn.decoders.image(encoded, device="cpu")
        pipeline.set_outputs(encoded, *others, pixels)
    pipeline.build()
    assert pipeline.reader_meta("Reader")["epoch_size"] == count
    return [[np.array(output.at(0)) for output in pipeline.run()] for _ in range(count)]


def check(built: Built, split: str, records: list[list[Any]], labels: list[int]) -> None:
    """Every image in our order, its bytes and label right, decoded about as Pillow does."""
    expected = built.expected(split)
    assert [record[0].tobytes() for record in records] == [image.encoded for image in expected]
    assert labels == [image.label for image in expected]
    for record, image in zip(records, expected, strict=True):
        pixels = decode(image.encoded)
        assert record[-1].shape == pixels.shape
        # Decoders may round the inverse DCT and the chroma differently.
        assert np.abs(record[-1].astype(int) - pixels).mean() < 2


@pytest.mark.parametrize(
    ("split", "shards"), [("validation", "1"), ("train", "train=3,validation=2")]
)
def test_caffe_lmdb(dali, made: Callable[..., Built], split: str, shards: str) -> None:
    built = made("lmdb", "--num_shards", shards)
    databases = sorted({str(path.parent) for path in built.out.rglob("data.mdb")})
    databases = [path for path in databases if split in path]
    assert len(databases) == (1 if shards == "1" else {"train": 3, "validation": 2}[split])
    records = run(
        dali,
        len(built.raw[split]),
        lambda: tuple(dali.fn.readers.caffe(path=databases, name="Reader")),
    )
    check(built, split, records, [int(label.item()) for _, label, _ in records])


@pytest.mark.parametrize(("split", "indexed"), [("train", True), ("validation", False)])
def test_webdataset(dali, made: Callable[..., Built], split: str, indexed: bool) -> None:
    built = made("webdataset")
    archives = sorted(map(str, (built.out / split).glob("*.tar")))
    assert len(archives) == {"train": 3, "validation": 2}[split]
    options = {"index_paths": built.indexes(split)} if indexed else {}
    records = run(
        dali,
        len(built.raw[split]),
        lambda: tuple(
            dali.fn.readers.webdataset(
                paths=archives,
                ext=["jpg;png", "cls", "json"],
                missing_component_behavior="error",
                name="Reader",
                **options,
            )
        ),
    )
    check(built, split, records, [int(record[1].tobytes()) for record in records])


def test_our_index_is_what_dalis_wds2idx_writes(
    dali, made: Callable[..., Built], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = shutil.which("wds2idx", path=str(Path(dali.__file__).parents[5] / "bin"))
    assert script is not None, "the DALI wheel ships wds2idx"
    built = made("webdataset")
    for split in SPLITS:
        for index in map(Path, built.indexes(split)):
            archive = built.out / split / f"{index.stem}.tar"
            theirs = tmp_path / index.name
            monkeypatch.setattr(sys, "argv", [script, str(archive), str(theirs)])
            with suppress(SystemExit):  # which newer releases raise at the end
                runpy.run_path(script, run_name="__main__")
            assert index.read_bytes() == theirs.read_bytes()
