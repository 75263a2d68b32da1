"""What grew by ``--append``, and is then compacted, is an ordinary data set to foreign readers."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import Cli, Made, make
from tests.interop.conftest import imported

READERS = {
    "tfrecord": "tensorflow",
    "webdataset": "webdataset",
    "recordio": "nvidia.dali",
    "lmdb": "nvidia.dali",
    "lmdb-torch": "",
    "hdf5": "",
    "hdf5-arrays": "",
    "arrayrecord": "grain",
    "parquet": "datasets",
}


@pytest.mark.parametrize("sink", READERS)
def test_its_own_reader_reads_a_grown_set_and_a_compacted_one(
    cli: Cli, folders: Made, tmp_path: Path, sink: str
) -> None:
    if READERS[sink]:
        imported(READERS[sink])
    options = ("--fractions", "train=0.7,test=0.3", "--workers", "1", "--sink", sink)
    options += ("--resize", "16x16") if sink == "hdf5-arrays" else ()
    raw = replace(folders.raw.copy(tmp_path / "raw"), options=options)
    made = make(raw, tmp_path / "out", "--num_shards", "2")
    for number in range(8):
        shutil.copy(raw.path / "bar" / f"{number % 4}.jpg", raw.path / "bar" / f"new{number}.jpg")
    for words in (raw.command(made.out, "--append"), ["compact", made.out]):
        assert cli(*words).code == 0
        result = cli("verify", made.out, "--level", "reader")
        assert result.code == 0, result
        assert "32 records: all good (reader: " in result.out
