"""Reading a data set in a bucket: checked before anybody sees a byte, shared, evicted, forked."""

from __future__ import annotations

from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import dataprep
from dataprep.sealed.records import Records
from tests.datasets.packing import ones, write_folders


@pytest.fixture
def out(tmp_path: Path) -> Path:
    write_folders(tmp_path / "raw", ones())
    raw, out = tmp_path / "raw", tmp_path / "out"
    dataprep.prepare("folder", raw_data_dir=raw, local_scratch_dir=out, num_shards=3)
    return out


@pytest.fixture
def address(bucket: Any, out: Path) -> str:
    """Where it is in a bucket."""
    dataprep.push(out, f"s3://{bucket.name}/sets/one")
    return f"s3://{bucket.name}/sets/one"


def everything(records: Records) -> list[tuple[str, bytes, tuple[int, ...]]]:
    return [(one.key, one.encoded, one.labels) for one in records]


def test_the_same_records(out: Path, address: str, tmp_path: Path) -> None:
    ours = dataprep.open(address, "train", cache=tmp_path / "cache")
    assert everything(ours) == everything(dataprep.open(out, "train"))
    assert [one.key for one in ours.__getitems__([3, 0, 2])] == [ours[at].key for at in (3, 0, 2)]
    assert ours.labels.tolist() == dataprep.open(out, "train").labels.tolist()
    assert address in repr(ours)


def _read(records: Records, numbers: list[int]) -> list[bytes]:
    return records.encoded(numbers)


@pytest.mark.parametrize("kind", ["fork", "spawn"])
def test_other_processes_read_it_too(kind: str, out: Path, address: str, tmp_path: Path) -> None:
    ours = dataprep.open(address, "train", cache=tmp_path / "cache")
    numbers = list(range(len(ours)))
    with get_context(kind).Pool(2) as pool:
        found = pool.starmap(_read, [(ours, numbers)] * 4)
    assert found == [dataprep.open(out, "train").encoded(numbers)] * 4
