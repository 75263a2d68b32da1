"""folder2lmdb's database: what is in it, and its reader."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import lmdb
import msgpack
import pytest

from dataprep.errors import SinkError
from dataprep.sinks.lmdb_torch import LmdbTorchSink
from tests.sinks.examples import MULTI, SINGLE, example, places, write

SINK = LmdbTorchSink()


def test_the_bytes_of_a_value(tmp_path: Path) -> None:
    """By the msgpack specification: array of 3, bin 8, positive fixint or array, fixstr."""
    paths = places(SINK, tmp_path)
    one = replace(example(3, SINGLE), encoded=b"\x89PNG", key="a/b")
    write(SINK, paths, SINGLE, [one])
    many = places(SINK, tmp_path / "multi")
    info = replace(MULTI, classes=MULTI.classes[:4])
    write(SINK, many, info, [replace(one, labels=(1, 3), key="\udcff")])
    for path, value in (
        (paths[0], b"\x93\xc4\x04\x89PNG\x03\xa3a/b"),
        (many[0], b"\x93\xc4\x04\x89PNG\x94\x00\x01\x00\x01\xc4\x01\xff"),
    ):
        with (
            lmdb.open(str(path), subdir=False, readonly=True, lock=False) as environment,
            environment.begin() as transaction,
        ):
            assert transaction.get(b"0") == value
            assert transaction.get(b"__len__") == b"\x01"
            assert transaction.get(b"__keys__") == b"\x91\xc4\x010"


def test_attributes_are_a_fourth_item_that_folder2lmdb_does_not_see(tmp_path: Path) -> None:
    paths = places(SINK, tmp_path)
    info = replace(SINGLE, attributes=(("view", "text"), ("age", "int")))
    one = replace(example(3, info), encoded=b"\x89PNG", key="a/b")
    known: list[dict[str, int | str]] = [{"age": 58, "view": "\udcff"}, {}]
    write(SINK, paths, info, [replace(one, attributes=it) for it in known])
    assert list(SINK.reference_records(paths, info)) == [(b"\x89PNG", (3,))] * 2
    with (
        lmdb.open(str(paths[0]), subdir=False, readonly=True, lock=False) as environment,
        environment.begin() as transaction,
    ):
        assert transaction.get(b"0") == (
            b"\x94\xc4\x04\x89PNG\x03\xa3a/b\x82\xa4view\xc4\x01\xff\xa3age\x3a"
        )
        assert transaction.get(b"1") == b"\x94\xc4\x04\x89PNG\x03\xa3a/b\x80"


GOOD = msgpack.packb([example(0).encoded, 1, "key"])


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ({}, "there is no __len__"),
        ({"__len__": b"\x00", "__keys__": b"\x90", "0": GOOD}, "__len__ is 0 of 3 entries"),
        ({"__len__": b"\x01", "__keys__": b"\x91\xc4\x010", "1": GOOD}, "record 0: there is no 0"),
        ({"__len__": b"\x01", "__keys__": b"\x91\xc4\x010", "0": b"\x91"}, "record 0: "),
        *(
            ({"__len__": b"\x01", "__keys__": b"\x91\xc4\x010", "0": msgpack.packb(value)}, why)
            for value, why in (
                ([b"x", 1, "key"], "record 0: neither JPEG nor PNG"),
                ([GOOD, 14, "key"], "record 0: "),
                ([GOOD, [1], "key"], "record 0: its labels are .*, expected 14"),
            )
        ),
    ],
)
def test_databases_that_are_not_ours(records: dict[str, bytes], why: str, tmp_path: Path) -> None:
    path = tmp_path / "train.lmdb"
    with (
        lmdb.open(str(path), subdir=False, lock=False) as environment,
        environment.begin(write=True) as transaction,
    ):
        for key, value in records.items():
            transaction.put(key.encode(), value)
    with pytest.raises(SinkError, match=why) as caught, SINK.reader([path], SINGLE) as reader:
        list(reader)
    assert str(caught.value).startswith(str(path))
