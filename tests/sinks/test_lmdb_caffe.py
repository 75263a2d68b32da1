"""Caffe's databases: what is in them, what they refuse, and who else reads them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest

from dataprep.errors import SinkError, UsageError
from dataprep.sinks import lmdb_caffe
from dataprep.sinks.base import DatasetInfo
from dataprep.sinks.lmdb_caffe import LmdbSink
from dataprep_schemas import caffe_pb2
from tests.sinks.examples import MULTI, RAW, SINGLE, example, places, write


def contents(path: Path) -> list[tuple[bytes, bytes]]:
    """All that Caffe's cursor would meet; it opens the directory."""
    with (
        lmdb.open(str(path.parent), readonly=True, lock=False) as environment,
        environment.begin() as transaction,
    ):
        return list(transaction.cursor())


def test_many_labels_are_a_second_database(tmp_path: Path) -> None:
    sink = LmdbSink(labels="multi")
    paths = places(sink, tmp_path)
    assert [path.parent.name for path in paths] == ["train_lmdb", "train_labels_lmdb"]
    examples = [example(number, MULTI) for number in range(5)]
    write(sink, paths, MULTI, examples)
    images, labels = map(contents, paths)
    assert [key for key, _ in images] == [key for key, _ in labels]
    for one, (_, image), (_, vector) in zip(examples, images, labels, strict=True):
        assert caffe_pb2.Datum.FromString(image).label == 0
        datum = caffe_pb2.Datum.FromString(vector)
        assert (datum.channels, datum.height, datum.width, datum.encoded) == (14, 1, 1, False)
        assert list(datum.data) == MULTI.multi_hot(one.labels)
    paths[1].unlink()
    with sink.reader(paths[:1], MULTI) as reader:
        assert [one.labels for one in reader] == [()] * 5  # not known, which is not class 0


@pytest.mark.parametrize(
    ("sink", "info", "option"),
    [
        (LmdbSink(), MULTI, "labels=multi, .* second database, or --sink hdf5-caffe$"),
        (LmdbSink(labels="multi"), SINGLE, "labels=single"),
        (LmdbSink(mean="on"), SINGLE, "mean=off"),
    ],
)
def test_options_that_do_not_fit_the_data(
    sink: LmdbSink, info: DatasetInfo, option: str, tmp_path: Path
) -> None:
    paths = places(sink, tmp_path)
    with pytest.raises(UsageError, match=option):
        sink.open(paths, info)
    assert not any(path.exists() for path in paths)


def test_the_longest_key(tmp_path: Path) -> None:
    sink = LmdbSink()
    paths = places(sink, tmp_path)
    one = replace(example(0), key="ä" * 251)
    write(sink, paths, SINGLE, [one])  # 9 + 502 bytes
    with sink.reader(paths, SINGLE) as reader:
        assert list(reader) == [one]
    with pytest.raises(SinkError, match=r"äää.*xx': .* 513 bytes long; .* at most 511"):
        write(sink, places(sink, tmp_path / "2"), SINGLE, [replace(one, key="ä" * 251 + "xx")])


GOOD = caffe_pb2.Datum(data=example(0).encoded, label=0, encoded=True).SerializeToString()


def put(path: Path, records: dict[bytes, bytes], **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        lmdb.open(str(path), subdir=False, lock=False, **options) as environment,
        environment.begin(write=True) as transaction,
    ):
        for key, value in records.items():
            transaction.put(key, value)
    return path


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ({b"0": b"", b"00000000_x": GOOD}, "record 1: there is no key from 00000001 on"),
        ({b"00000000x": b""}, "record 0: its key is b'00000000x'; expected .* 00000000_"),
        ({b"00000000_x": b"\x22\x01x\x28\x01\x38\x01"}, "record 0: neither JPEG nor PNG"),
        ({b"00000000_x": b"garbage"}, "record 0: DecodeError: "),
    ],
)
def test_databases_that_are_not_ours(records: dict[bytes, bytes], why: str, tmp_path: Path) -> None:
    path = put(tmp_path / "train_lmdb" / "data.mdb", records)
    with pytest.raises(SinkError, match=why) as caught, LmdbSink().reader([path], SINGLE) as reader:
        list(reader)
    assert str(caught.value).startswith(str(path))
    assert str(caught.value).endswith("make the shard again")


def test_labels_of_another_shard_are_an_error(tmp_path: Path) -> None:
    sink = LmdbSink(labels="multi")
    paths = places(sink, tmp_path / "a")
    write(sink, paths, MULTI, [example(0, MULTI), example(1, MULTI)])
    others = places(sink, tmp_path / "c")
    write(sink, others, MULTI, [example(1, MULTI), example(0, MULTI)])
    with (
        sink.reader([paths[0], others[1]], MULTI) as reader,
        pytest.raises(SinkError, match=r"record 0: its key .* in the labels' database"),
    ):
        list(reader)


class Mean:
    """As much of the statistics as the sink looks at."""

    def __init__(self, image: np.ndarray[Any, np.dtype[np.float64]] | None) -> None:
        self._image = image

    def mean_image(self) -> np.ndarray[Any, np.dtype[np.float64]] | None:
        return self._image


def test_the_mean_file(tmp_path: Path) -> None:
    sink = LmdbSink(datum="raw", mean="on")
    assert [str(path) for path in sink.split_paths("train", 4, "split")] == [
        "train_mean.binaryproto"
    ]
    path = tmp_path / "mean"
    # one row of two pixels; RGB (1, 2, 3) and (0.1, 5, 6)
    image = np.array([[[1, 2, 3], [0.1, 5, 6]]], np.float64)
    (written,) = sink.finish_split([path], RAW, [], Mean(image))  # type: ignore[arg-type]
    # By hand: num 1, channels 3, height 1, width 2 (fields 1 to 4), data (5, packed float32),
    # as BVLC/caffe tools/compute_image_mean.cpp fills a BlobProto; planes B, G, R.
    golden = bytes.fromhex(
        "0801 1003 1801 2002 2a1800004040 0000c040 00000040 0000a040 0000803f cdcccc3d"
    )
    assert path.read_bytes() == golden
    assert written.bytes == len(golden)
    for statistics in (None, Mean(None)):
        with pytest.raises(UsageError, match="no mean image"):
            sink.finish_split([tmp_path / "2"], RAW, [], statistics)  # type: ignore[arg-type]


# Datums put together by hand, of the field numbers of BVLC/caffe src/caffe/proto/caffe.proto: a tag
# is (number << 3) | type, fields ascending, as C++ writes them; which fields are set follows from
# src/caffe/util/io.cpp.
# data (4, bytes) "\xff\xd8\xff", label (5) 300, encoded (7) true: ReadFileToDatum
FILE = b"\x22\x03\xff\xd8\xff" + b"\x28\xac\x02" + b"\x38\x01"
# channels (1) 3, height (2) 2, width (3) 1, data (4), label (5) 0, encoded (7) false: CVMatToDatum.
# Two pixels, RGB (1, 2, 3) and (4, 5, 6): planes B, G, R.
PIXELS = b"\x08\x03\x10\x02\x18\x01" + b"\x22\x06\x03\x06\x02\x05\x01\x04" + b"\x28\x00\x38\x00"
GREY = b"\x08\x01\x10\x01\x18\x02" + b"\x22\x02\x07\x08" + b"\x28\x05\x38\x00"
VECTOR = b"\x08\x03\x10\x01\x18\x01" + b"\x22\x03\x00\x01\x01" + b"\x38\x00"


def test_the_bytes_are_caffes() -> None:
    assert lmdb_caffe.file_datum(b"\xff\xd8\xff", 300) == FILE
    assert lmdb_caffe.image_of(FILE) == (b"\xff\xd8\xff", 300, None)
    assert lmdb_caffe.pixels_datum(b"\1\2\3\4\5\6", (2, 1, 3), 0) == PIXELS
    assert lmdb_caffe.image_of(PIXELS) == (b"\1\2\3\4\5\6", 0, (2, 1, 3))
    assert lmdb_caffe.pixels_datum(b"\7\10", (1, 2, 1), 5) == GREY
    assert lmdb_caffe.image_of(GREY) == (b"\7\10", 5, (1, 2, 1))
    assert lmdb_caffe.vector_datum([0, 1, 1]) == VECTOR
