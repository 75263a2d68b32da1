"""One virtual file over several shards."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import h5py
import pytest

from dataprep.errors import SinkError
from dataprep.sinks.base import DatasetInfo, FinishedShard, ShardName
from dataprep.sinks.hdf5_arrays import Hdf5ArraysSink
from dataprep.sinks.hdf5_bytes import Hdf5Sink
from tests.sinks.hdf5_cases import CLASSES, ONE, arrays, photographs, read, write_split

SHARDS = [photographs(3), [], photographs(4, first=3), photographs(5, first=7)]
ALL = photographs(12)


@pytest.fixture
def master(tmp_path: Path) -> Path:
    (path,) = write_split(Hdf5Sink(), tmp_path / "out", SHARDS, ONE)
    return path


def test_it_is_read_like_a_shard(master: Path) -> None:
    assert read(Hdf5Sink(), master, DatasetInfo()) == ALL
    with Hdf5Sink().reader([master], ONE) as reader:
        assert len(reader) == 12
        for number in (11, 0, 7, 2, 6, 3):
            assert reader[number] == ALL[number]
    references = list(Hdf5Sink().reference_records([master], ONE))
    assert references == [(each.encoded, each.labels) for each in ALL]


def test_a_user_of_h5py_reads_across_shards(master: Path) -> None:
    with h5py.File(master) as file:
        assert file["images"].is_virtual
        assert file["images"][:].tobytes() == b"".join(each.encoded for each in ALL)
        assert file["keys"].asstr()[:].tolist() == [each.key for each in ALL]
        assert h5py.check_enum_dtype(file["formats"].dtype) == {"JPEG": 0, "PNG": 1}
        assert list(file.attrs["classes"]) == [identifier for identifier, _ in CLASSES]


def test_the_directory_may_be_moved(
    master: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "100 %s" / "moved"
    elsewhere.parent.mkdir()
    master.parent.rename(elsewhere)
    assert read(Hdf5Sink(), elsewhere / "train.h5", ONE) == ALL
    monkeypatch.chdir(elsewhere)
    assert read(Hdf5Sink(), Path("train.h5"), ONE) == ALL
    monkeypatch.chdir("train")
    assert read(Hdf5Sink(), Path("../train.h5"), ONE) == ALL


def test_equal_shards_give_equal_bytes(master: Path, tmp_path: Path) -> None:
    (again,) = write_split(Hdf5Sink(), tmp_path / "again", SHARDS, ONE)
    assert again.read_bytes() == master.read_bytes()


def test_a_shard_that_is_missing_is_not_read_as_zeros(master: Path) -> None:
    (master.parent / "train/train-00002-of-00004.h5").unlink()
    with pytest.raises(SinkError, match=r"train-00002-of-00004\.h5 is missing"):
        Hdf5Sink().reader([master], ONE)


def test_a_shard_that_is_damaged_is_found_when_it_is_read(master: Path) -> None:
    shard = master.parent / "train/train-00002-of-00004.h5"
    shard.write_bytes(shard.read_bytes()[:-100])
    with Hdf5Sink().reader([master], ONE) as reader:
        assert reader[2] == ALL[2]
        with pytest.raises(SinkError, match=r"train-00002-of-00004\.h5"):
            reader[3]
        assert reader[7] == ALL[7]


@pytest.fixture
def few_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (66, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_more_shards_than_may_be_open_are_not_read_as_zeros(master: Path, few_files: None) -> None:
    """HDF5 keeps every shard open, and gives zeros for what it cannot open."""
    said = "has 3 shards, and a process may open 66 files"
    with pytest.raises(SinkError, match=said) as caught:
        Hdf5Sink().reader([master], ONE)
    assert "damaged" not in str(caught.value)  # the file is as good as ever


def test_shards_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    small, large = (DatasetInfo(CLASSES, size=size) for size in ((2, 2), (3, 3)))
    sink = Hdf5ArraysSink()
    write_split(sink, tmp_path, [arrays(1, small), []], small)
    shard = tmp_path / "train/train-00001-of-00002.h5"
    (tmp_path / "other").mkdir()
    write_split(sink, tmp_path / "other", [[], arrays(1, large)], large)
    (tmp_path / "other/train/train-00001-of-00002.h5").rename(shard)
    finished = []
    for number in range(2):
        names = tuple(sink.paths(ShardName("train", number, 2), "split"))
        finished.append(FinishedShard(tuple(tmp_path / name for name in names), names, 1))
    with pytest.raises(SinkError, match="dataset images does not fit"):
        sink.finish_split([tmp_path / "master"], small, finished, None)


def test_arrays_have_one_too(tmp_path: Path) -> None:
    info = DatasetInfo(CLASSES, size=(3, 4))
    shards = [arrays(2, info), [], arrays(3, info, first=2)]
    (path,) = write_split(Hdf5ArraysSink(), tmp_path, shards, info)
    assert read(Hdf5ArraysSink(), path, DatasetInfo()) == arrays(5, info)
    with h5py.File(path) as file:
        assert file["images"].shape == (5, 3, 4, 3)
        pixels = [each.encoded for each in arrays(5, info)]
        assert file["images"][1:4].tobytes() == b"".join(pixels[1:4])


def test_nothing_but_empty_shards(tmp_path: Path) -> None:
    (path,) = write_split(Hdf5Sink(), tmp_path, [[], []], ONE)
    assert read(Hdf5Sink(), path, ONE) == []
