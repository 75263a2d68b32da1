"""ArrayRecord: Google's bytes, the same anywhere; and Grain with worker processes."""

from __future__ import annotations

import errno
import hashlib
import os
import resource
import sys
from pathlib import Path

import pytest

from dataprep.errors import SinkError, UsageError
from dataprep.formats import tf_example
from dataprep.formats.array_record import ArrayRecordSink
from tests.formats import examples
from tests.formats.examples import SINGLE, example

module = pytest.importorskip("array_record.python.array_record_module")

RECORDS = [example(number, encoded=b"\xff\xd8" + bytes([number]) * 1000) for number in range(9)]
# Of the nine records of `RECORDS`, as array-record 0.8.6 wrote them.
GOLDEN = "60ec75a0d64cdd03de7cde2b24a356bda1d6ad072ad1aae51d65e2ead95592f1"


def write(path: Path) -> Path:
    (written,) = examples.write(ArrayRecordSink(), [path], SINGLE, RECORDS)
    assert written.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    return path


def test_the_bytes_are_as_they_were(tmp_path: Path) -> None:
    assert hashlib.sha256(write(tmp_path / "a").read_bytes()).hexdigest() == GOLDEN


def test_records_are_those_of_tfrecord_at_random(tmp_path: Path) -> None:
    path = write(tmp_path / "a")
    reader = module.ArrayRecordReader(str(path))
    wanted = [b"".join(tf_example.encode(one, SINGLE)) for one in RECORDS]
    assert reader.read([7, 0, 3]) == [wanted[7], wanted[0], wanted[3]]
    assert "group_size:1," in reader.writer_options_string()
    reader.close()


def test_a_name_need_not_be_utf_8(tmp_path: Path) -> None:
    path = write(tmp_path / os.fsdecode(b"\xff"))
    with ArrayRecordSink().reader([path], SINGLE) as reader:
        assert list(reader) == RECORDS


def test_a_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = write(tmp_path / "a")
    whole = path.read_bytes()
    at = whole.index(RECORDS[4].encoded) + 500
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with ArrayRecordSink().reader([path], SINGLE) as reader:
        assert reader[3] == RECORDS[3]
        with pytest.raises(SinkError, match=r"/a: record 4: .*; make the shard again"):
            reader[4]


def test_a_missing_file_is_not_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ArrayRecordSink().reader([tmp_path / "none"], SINGLE)


def test_a_limit_on_the_size_of_files_is_told_as_such(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    writer = ArrayRecordSink().open([tmp_path / "a"], SINGLE)
    writer.write(RECORDS[0])
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as raised:
            writer.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        writer.abandon()
    assert raised.value.errno == errno.EFBIG


def test_without_its_library_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "array_record.python.array_record_module", None)
    with pytest.raises(UsageError, match=r'pip install "dataprep-shards\[arrayrecord\]"$'):
        ArrayRecordSink().require()
