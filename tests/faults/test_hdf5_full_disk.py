"""HDF5 on a disk that fills up at any moment: one OSError, no open file, no crash at exit."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import h5py
import pytest

from dataprep.sinks.base import DatasetInfo, Sink
from dataprep.sinks.hdf5_arrays import Hdf5ArraysSink
from dataprep.sinks.hdf5_bytes import Hdf5Sink
from dataprep.sinks.hdf5_caffe import Hdf5CaffeSink
from tests.sinks.hdf5_cases import arrays, photographs, write

INFO = DatasetInfo(
    tuple((f"{number}", f"a name of some length {number}") for number in range(900)), size=(64, 64)
)


@pytest.mark.parametrize(
    "sink", [Hdf5Sink(), Hdf5ArraysSink(), Hdf5CaffeSink()], ids=lambda sink: sink.name
)
def test_a_shard(sink: Sink, small_disk: Callable[[str], Path], tmp_path: Path) -> None:
    images = arrays(120, INFO) if sink.pixels else photographs(400, INFO)
    whole = write(sink, tmp_path / "whole", images, INFO).read_bytes()
    disk = small_disk(f"{len(whole) + 8192}")
    failed = 0
    for missing in [*range(4096, 200_000, 12288), len(whole) // 2, len(whole)]:
        filler = disk / "filler"
        filler.write_bytes(bytes(min(missing + 8192, len(whole) + 8192)))
        writer = sink.open([disk / "shard"], INFO)
        with pytest.raises(OSError, match="No space left") as caught:
            write_all(writer, images)
        assert caught.value.errno == errno.ENOSPC
        writer.abandon()
        writer.abandon()
        failed += 1
        (disk / "shard").unlink()
        filler.unlink()
        assert h5py.h5f.get_obj_count(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_FILE) == 0
    assert failed > 10
    assert write(sink, disk / "shard", images, INFO).read_bytes() == whole


def write_all(writer: object, images: list[object]) -> None:
    for each in images:
        writer.write(each)  # type: ignore[attr-defined]
    writer.close()  # type: ignore[attr-defined]
