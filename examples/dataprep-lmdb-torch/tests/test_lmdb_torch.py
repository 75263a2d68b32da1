"""folder2lmdb's database: dataprep's suite, what is in it, and its reader."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import lmdb
import msgpack
import pytest
from dataprep.errors import SinkError
from dataprep.formats import DatasetInfo, Example
from dataprep.formats.testing import SinkTests
from dataprep.plugins import load_sink
from dataprep_schemas.fields import Field
from PIL import Image

from dataprep_lmdb_torch import LmdbTorchSink

CLASSES = tuple((f"n{number:08d}", f"class {number}") for number in range(4))
SINGLE = DatasetInfo(classes=CLASSES)
MULTI = DatasetInfo(classes=CLASSES, multilabel=True)
SINK = LmdbTorchSink()


class TestConformance(SinkTests):
    sink = load_sink("lmdb-torch")


def example(info: DatasetInfo, key: str = "a/b", **said: object) -> Example:
    labels = (1, 3) if info.multilabel else (3,)
    made = info.example(key, picture(), labels)
    return replace(made, encoded=b"\x89PNG", **said)  # type: ignore[arg-type]


def picture() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (20, 16)).save(file, "PNG")
    return file.getvalue()


def entries(path: Path, info: DatasetInfo, examples: Sequence[Example]) -> dict[bytes, bytes]:
    """Everything in the database that is made of examples."""
    writer = SINK.open([path], info)
    for one in examples:
        writer.write(one)
    writer.close()
    with (
        lmdb.open(str(path), subdir=False, readonly=True, lock=False) as environment,
        environment.begin() as transaction,
    ):
        return {bytes(key): bytes(value) for key, value in transaction.cursor()}


def test_the_bytes_of_a_value(tmp_path: Path) -> None:
    """By the msgpack specification: array of 3, bin 8, positive fixint or array, fixstr."""
    ends = {b"__len__": b"\x01", b"__keys__": b"\x91\xc4\x010"}
    assert entries(tmp_path / "one", SINGLE, [example(SINGLE)]) == {
        b"0": b"\x93\xc4\x04\x89PNG\x03\xa3a/b",
        **ends,
    }
    assert entries(tmp_path / "many", MULTI, [example(MULTI, "\udcff")]) == {
        b"0": b"\x93\xc4\x04\x89PNG\x94\x00\x01\x00\x01\xc4\x01\xff",
        **ends,
    }


def test_attributes_are_a_fourth_item_that_folder2lmdb_does_not_see(tmp_path: Path) -> None:
    path = tmp_path / "train.lmdb"
    info = replace(SINGLE, fields=(Field("view", "text"), Field("age", "int")))
    known: list[dict[str, int | str]] = [{"age": 58, "view": "\udcff"}, {}]
    found = entries(path, info, [example(info, fields=it) for it in known])
    assert found[b"0"] == b"\x94\xc4\x04\x89PNG\x03\xa3a/b\x82\xa4view\xc4\x01\xff\xa3age\x3a"
    assert found[b"1"] == b"\x94\xc4\x04\x89PNG\x03\xa3a/b\x80"
    assert list(SINK.reference_records([path], info)) == [(b"\x89PNG", (3,))] * 2


GOOD = msgpack.packb([picture(), 1, "key"])


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
                ([GOOD, [1], "key"], "record 0: its labels are .*, expected 4"),
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
