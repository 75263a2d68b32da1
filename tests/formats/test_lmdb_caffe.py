"""Caffe's databases: what is in them, what they refuse, and who else reads them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import lmdb
import pytest

from dataprep.errors import SinkError, UsageError
from dataprep.formats.lmdb import caffe as lmdb_caffe
from dataprep.formats.lmdb.caffe import LmdbSink
from dataprep_schemas import caffe_pb2
from tests.formats.examples import MULTI, SINGLE, example, places, write


def test_one_label_an_image(tmp_path: Path) -> None:
    paths = places(LmdbSink(), tmp_path)
    with pytest.raises(UsageError, match=r"has one: give --sink hdf5-caffe"):
        LmdbSink().open(paths, MULTI)
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


# Datums put together by hand, of the field numbers of BVLC/caffe src/caffe/proto/caffe.proto: a tag
# is (number << 3) | type, fields ascending, as C++ writes them; which fields are set follows from
# src/caffe/util/io.cpp.
# data (4, bytes) "\xff\xd8\xff", label (5) 300, encoded (7) true: ReadFileToDatum
FILE = b"\x22\x03\xff\xd8\xff" + b"\x28\xac\x02" + b"\x38\x01"
# channels (1) 3, height (2) 2, width (3) 1, data (4), label (5) 0, encoded (7) false: CVMatToDatum.
# Two pixels, RGB (1, 2, 3) and (4, 5, 6): planes B, G, R.
PIXELS = b"\x08\x03\x10\x02\x18\x01" + b"\x22\x06\x03\x06\x02\x05\x01\x04" + b"\x28\x00\x38\x00"
GREY = b"\x08\x01\x10\x01\x18\x02" + b"\x22\x02\x07\x08" + b"\x28\x05\x38\x00"


def test_the_bytes_are_caffes() -> None:
    assert lmdb_caffe.file_datum(b"\xff\xd8\xff", 300) == FILE
    assert lmdb_caffe.image_of(FILE) == (b"\xff\xd8\xff", 300, None)
    assert lmdb_caffe.pixels_datum(b"\1\2\3\4\5\6", (2, 1, 3), 0) == PIXELS
    assert lmdb_caffe.image_of(PIXELS) == (b"\1\2\3\4\5\6", 0, (2, 1, 3))
    assert lmdb_caffe.pixels_datum(b"\7\10", (1, 2, 1), 5) == GREY
    assert lmdb_caffe.image_of(GREY) == (b"\7\10", 5, (1, 2, 1))
