"""Opening HDF5 files: damaged ones, locked ones, and none left open."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

import h5py
import pytest

from dataprep.errors import SinkError
from dataprep.sinks import hdf5_file
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


def external(file: h5py.File, place: Path) -> None:
    """The labels are in another file."""
    del file["labels"]
    file["labels"] = h5py.ExternalLink(place, "/labels")


def storage(file: h5py.File, place: Path) -> None:
    """The labels are bytes of another file."""
    del file["labels"]
    file.create_dataset("labels", (2,), "i8", external=[(str(place), 0, 16)])


def virtual(file: h5py.File, place: Path) -> None:
    """The labels are put together from another file."""
    del file["labels"]
    layout = h5py.VirtualLayout((2,), "i8")
    layout[:] = h5py.VirtualSource(place, "labels", (2,))
    file.create_virtual_dataset("labels", layout)


def soft(file: h5py.File, place: Path) -> None:
    """The labels are something else."""
    del file["labels"]
    file["labels"] = h5py.SoftLink("/keys")


def endless(file: h5py.File, place: Path) -> None:
    """Ten thousand million labels, none of which was ever written."""
    del file["labels"]
    file.create_dataset("labels", (10**10,), "i8", chunks=(1 << 10,))


@pytest.mark.parametrize("forge", [external, storage, virtual, soft, endless])
def test_what_leads_out_of_a_file_is_refused(
    forge: Callable[[h5py.File, Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "shard.h5"
    with h5py.File(path, "w") as file:
        file["labels"] = [0, 1]
        file["keys"] = [b"a", b"b"]
    hdf5_file.open_file(path).close()
    with h5py.File(path, "r+") as file:
        forge(file, Path("/etc/passwd"))
    with pytest.raises(SinkError, match=r"labels .*expected plain datasets"):
        hdf5_file.open_file(path)
