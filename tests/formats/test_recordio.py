"""RecordIO: MXNet's own bytes, round trips, and sidecars that must agree."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.errors import SinkError
from dataprep.formats import DatasetInfo, recordio
from dataprep.formats.example import Example
from dataprep.formats.recordio import LENGTH_LIMIT, RecordIOSink, frame, unframe
from tests.formats import examples as examples_
from tests.formats.examples import MULTI, SINGLE, example, picture

THREE = replace(MULTI, classes=MULTI.classes[:3])
MAGIC = bytes.fromhex("0a23d7ce")

# Written by MXNet 1.9.1, pack() and MXIndexedRecordIO.write_idx() of mx.recordio, as record 0:
#   IRHeader(0, 7.0, 0, 0) and b"\xff\xd8abcde"; and
#   IRHeader(0, np.float32([1, 0, 1]), 0, 0) and b"ab" + MAGIC + b"cd" + 2 * MAGIC + b"x".
GOLDEN_SINGLE = bytes.fromhex(
    "0a23d7ce1f000000000000000000e04000000000000000000000000000000000ffd8616263646500"
)
GOLDEN_MULTI = bytes.fromhex(
    "0a23d7ce2c0000200300000000000000000000000000000000000000000000000000803f000000000000803f"
    "61620a23d7ce63640a23d7ce000000400a23d7ce0100006078000000"
)


def with_aligned_magic(number: int) -> bytes:
    for blank in range(4):
        data = picture(number, comment=b"x" * blank + MAGIC + MAGIC + b"end" + MAGIC)
        if data.find(MAGIC) % 4 == 0:
            return data
    raise AssertionError


def write(directory: Path, examples: Sequence[Example], info: DatasetInfo) -> list[Path]:
    directory.mkdir(exist_ok=True)
    paths = [directory / f".train{suffix}.12ab.partial" for suffix in (".rec", ".idx", ".lst")]
    examples_.write(RecordIOSink(), paths, info, examples)
    return paths


def read(paths: Sequence[Path], info: DatasetInfo) -> list[Example]:
    return examples_.read(RecordIOSink(), paths, info)


def test_the_bytes_are_those_of_mxnet(tmp_path: Path) -> None:
    raw = example(7, encoded=b"\xff\xd8abcde", key="a/b c.JPEG")
    paths = write(tmp_path / "single", [raw, raw], SINGLE)
    data = paths[0].read_bytes()
    assert data[: len(data) // 2] == GOLDEN_SINGLE
    assert paths[1].read_bytes() == b"0\t0\n1\t40\n"
    assert paths[2].read_bytes() == b"0\t7.000000\ta/b c.JPEG\n1\t7.000000\ta/b c.JPEG\n"
    tricky = b"ab" + MAGIC + b"cd" + MAGIC + MAGIC + b"x"
    paths = write(tmp_path / "multi", [example(0, THREE, encoded=tricky, labels=(0, 2))], THREE)
    assert paths[0].read_bytes() == GOLDEN_MULTI
    assert paths[2].read_bytes() == b"0\t1.000000\t0.000000\t1.000000\tn00000000/0.JPEG\n"


@pytest.mark.parametrize("key", ["a\tb", "a\nb", "a\rb"])
def test_what_it_cannot_hold_is_refused_and_leaves_nothing(tmp_path: Path, key: str) -> None:
    paths = [tmp_path / name for name in ("a", "b", "c")]
    writer = RecordIOSink().open(paths, SINGLE)
    with pytest.raises(SinkError, match=r"a tab or a line end .*; rename the image$"):
        writer.write(example(0, key=key))
    writer.close()
    assert [path.stat().st_size for path in paths] == [0, 0, 0]


def test_a_label_that_float32_cannot_hold_is_refused(tmp_path: Path) -> None:
    writer = RecordIOSink().open([tmp_path / name for name in "abc"], DatasetInfo())
    with pytest.raises(SinkError, match="inexact"):
        writer.write(example(0, labels=((1 << 24) + 1,)))
    writer.abandon()


def test_too_large_an_image_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / name for name in "abc"]
    writer = RecordIOSink().open(paths, SINGLE)
    monkeypatch.setattr(recordio, "LENGTH_LIMIT", 1000)
    with pytest.raises(SinkError, match=r"'n00000000/0\.JPEG': 1000 bytes; RecordIO holds less"):
        writer.write(example(0, encoded=bytes(1000 - 24)))
    writer.close()
    assert paths[0].stat().st_size == 0


@pytest.mark.parametrize("which", [0, 1, 2], ids=["rec", "idx", "lst"])
def test_every_truncation_of_every_file_is_noticed(tmp_path: Path, which: int) -> None:
    one = example(2, encoded=with_aligned_magic(2))
    paths = write(tmp_path, [one, example(4)], SINGLE)
    data = paths[which].read_bytes()
    for size in range(len(data) - (which == 1)):  # the index without its last line's end is whole
        paths[which].write_bytes(data[:size])
        with pytest.raises(SinkError, match=r"partial"):
            read(paths, SINGLE)


def test_the_sidecars_of_another_shard_are_refused(tmp_path: Path) -> None:
    one = write(tmp_path / "one", [example(n) for n in (0, 1, 4)], SINGLE)
    other = write(tmp_path / "other", [example(n, size=n * 700) for n in (4, 2, 0)], SINGLE)
    shutil.copy(other[1], one[1])
    with pytest.raises(SinkError, match=r"record \d: a record of \d+ bytes, expected|fill the"):
        read(one, SINGLE)
    again = write(tmp_path / "again", [example(n) for n in (0, 1, 4)], SINGLE)
    with pytest.raises(SinkError, match=r"line 1 of its \.lst has another number or label"):
        read([*again[:2], other[2]], SINGLE)


# Magics at every alignment, adjacent and at the ends.
payloads = st.lists(st.one_of(st.just(MAGIC), st.binary(max_size=9)), max_size=8).map(b"".join)


@given(payloads)
def test_records_come_back(record: bytes) -> None:
    one = b"".join(frame(b"head", record))
    assert unframe(one) == b"head" + record
    starts = [at for at in range(0, len(one), 4) if one[at : at + 4] == MAGIC]
    flags = [one[at + 7] >> 5 for at in starts]  # an aligned magic always begins a part
    assert flags == [0] or (flags[0], flags[-1]) == (1, 3)
    assert set(flags[1:-1]) <= {2}
    assert len(one) % 4 == 0
    for size in range(len(one)):
        with pytest.raises(SinkError, match=r"the file ends within|bytes, expected"):
            unframe(one[:size])


def test_too_long_a_record_is_refused() -> None:
    with pytest.raises(SinkError, match="536870912 bytes; RecordIO holds less than 536870912"):
        frame(b"", bytes(LENGTH_LIMIT))
