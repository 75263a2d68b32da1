"""Caffe's databases: what is in them, what they refuse, and who else reads them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest

from dataprep.errors import SinkError, UsageError
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


def test_keys_are_numbered_and_values_are_datums(tmp_path: Path) -> None:
    sink = LmdbSink()
    paths = places(sink, tmp_path)
    examples = [example(number) for number in range(12)]
    write(sink, paths, SINGLE, examples)
    for number, (one, (key, value)) in enumerate(zip(examples, contents(paths[0]), strict=True)):
        assert key.decode() == f"{number:08d}_{one.key}"
        data = one.encoded
        size = (
            bytes([len(data)])
            if len(data) < 128
            else bytes([len(data) & 127 | 128, len(data) >> 7])
        )
        # data, label, encoded: see test_datum.py
        assert value == b"\x22" + size + data + bytes([0x28, one.class_index, 0x38, 1])


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


def test_pixels_are_what_opencv_would_hold(tmp_path: Path) -> None:
    sink = LmdbSink(datum="raw")
    assert sink.pixels
    assert not LmdbSink().pixels
    paths = places(sink, tmp_path)
    examples = [example(number, RAW) for number in range(3)]
    write(sink, paths, RAW, examples)
    for one, (_, value) in zip(examples, contents(paths[0]), strict=True):
        datum = caffe_pb2.Datum.FromString(value)
        planes = np.frombuffer(datum.data, np.uint8).reshape(3, 5, 4)
        rgb = np.frombuffer(one.encoded, np.uint8).reshape(5, 4, 3)
        for channel in range(3):
            assert (planes[2 - channel] == rgb[:, :, channel]).all()


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
