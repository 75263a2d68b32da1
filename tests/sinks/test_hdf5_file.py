"""Opening HDF5 files: damaged ones, locked ones, and none left open."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from dataprep.errors import SinkError
from dataprep.sinks.base import DatasetInfo
from dataprep.sinks.hdf5_arrays import Hdf5ArraysSink
from dataprep.sinks.hdf5_bytes import Hdf5Sink
from tests.sinks.hdf5_cases import CLASSES, ONE, arrays, photographs, read, write

SINK = Hdf5Sink()


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    return write(SINK, tmp_path / "train.h5", photographs(3), ONE)


def test_every_truncated_file_is_refused(shard: Path) -> None:
    whole = shard.read_bytes()
    for size in range(0, len(whole), 97):
        shard.write_bytes(whole[:size])
        with pytest.raises(SinkError, match=r"train\.h5"):
            SINK.reader([shard], ONE)


def test_a_file_that_is_not_there_is_not_called_damaged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        SINK.reader([tmp_path / "train.h5"], ONE)


def test_another_sinks_file_is_named(tmp_path: Path) -> None:
    info = DatasetInfo(CLASSES, size=(2, 2))
    path = write(Hdf5ArraysSink(), tmp_path / "train.h5", arrays(1, info), info)
    with pytest.raises(SinkError, match=r"hdf5-arrays.*, expected .*'hdf5'"):
        SINK.reader([path], info)


def test_locks_of_others_do_not_matter(tmp_path: Path) -> None:
    """Lustre and NFS refuse locks altogether; here another open file holds them."""
    path = write(SINK, tmp_path / "train.h5", photographs(4), ONE)
    with path.open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert read(SINK, path, ONE) == photographs(4)
