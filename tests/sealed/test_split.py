"""One split of a finished set: which there are, and what a shard is that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dataprep
from dataprep.errors import DatasetError, SinkError, UsageError
from dataprep.sealed.set import SealedSet
from tests.conftest import Made, Shelf


def test_the_splits_and_what_is_not_one(tiny: Made, tmp_path: Path) -> None:
    assert len(dataprep.open(str(tiny.out), split="validation")) == 6
    assert dataprep.open(tiny.out, split="val").split == "validation"
    with pytest.raises(UsageError, match="no split 'test'; it has: train, validation"):
        dataprep.open(tiny.out, split="test")
    with pytest.raises(DatasetError):
        dataprep.open(tmp_path)


@pytest.mark.parametrize("name", ["tfrecord", "lmdb", "hdf5", "parquet", "recordio"])
def test_a_missing_shard_is_one_line(shelf: Shelf, name: str, tmp_path: Path) -> None:
    out = shelf(name).copy(tmp_path / "out")
    (file, *_) = SealedSet.read(out).manifest.splits["train"].shards[0].files
    (out / file.path).unlink()
    records = dataprep.open(out)
    says = f"{file.path}: No such file or directory; check that it exists"
    for read in (lambda: records[0], lambda: records.encoded([1]), lambda: next(iter(records))):
        with pytest.raises(SinkError, match=re.escape(says)):
            read()
