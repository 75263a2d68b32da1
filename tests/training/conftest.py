"""Finished sets to read: in every format, and one of many shards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import dataprep
from dataprep.training.records import Records
from tests.conftest import Cli, Made, everyday, made_once, shared, write_tiny_raw

READABLE = ["tfrecord", "hdf5", "lmdb", "recordio", "webdataset", "parquet"]


# 40 training images in 40 shards.
many = made_once(
    "many",
    lambda raw: write_tiny_raw(raw, classes=4, images=10, validation=1),
    *("--num_shards", "train=40,validation=1", "--workers", "1"),
)


# Readers are tried by tests/formats/test_testing.py; these differ in what they keep open.
@pytest.fixture(scope="session", params=everyday(["tfrecord", "hdf5", "lmdb"], READABLE))
def out(
    request: pytest.FixtureRequest, cli: Cli, tiny: Made, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """24 examples in 6 shards, in every format that stores image files."""
    if request.param == "tfrecord":
        return tiny.out

    def convert(place: Path) -> Path:
        words = ("convert", tiny.out, "--to", place / "out", "--sink", request.param)
        done = cli(*words, "--num_shards", "train=6,validation=2", "--workers", "1")
        assert done.code == 0, done
        return place / "out"

    return shared(tmp_path_factory, f"converted-{request.param}", convert)


@pytest.fixture
def records(out: Path) -> Iterator[Records]:
    with dataprep.open(out) as found:
        yield found
