"""Parquet: pyarrow's own bytes, the columns, row groups, and what is kept of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from dataprep.errors import SinkError, UsageError
from dataprep.formats import DatasetInfo, ShardName
from dataprep.formats.example import Example
from dataprep.formats.parquet import sink as sink_module
from dataprep.formats.parquet.sink import ROWS, ParquetSink
from dataprep_schemas.fields import BOX_LABELS, BOXES, CAPTIONS, Field
from tests.formats import examples as examples_
from tests.formats.examples import MULTI, SINGLE, example

SINK = ParquetSink()
PLAIN = replace(SINGLE, classes=(("n1", "crane"), ("n2", "crane"), ("\udce9", "caf\udce9")))
PLAIN_ONES = (Field("view", "text"), Field("age", "int"))
FULL = replace(MULTI, fields=(BOXES, BOX_LABELS, CAPTIONS, *PLAIN_ONES))

# What the docs of `datasets` say of a ClassLabel and an Image, written down.
FEATURES: dict[str, Any] = {
    "image": {"_type": "Image"},
    "label": {"names": ["crane (n1)", "crane (n2)", "caf\\udce9"], "_type": "ClassLabel"},
}
# Of pyarrow 25.0.1, made once by pyarrow alone as `test_the_bytes_are_pyarrows_own` does.
GOLDEN = {"25.0.1": "898188696bfac619b959d8998eab346d0ac0f208e9fa7883c8a4eb9dd7868ec5"}


def write(path: Path, info: DatasetInfo, examples: Sequence[Example]) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    (written,) = examples_.write(SINK, [path], info, examples)
    assert written.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    return path


def few(count: int = 3) -> list[Example]:
    return [replace(example(number, SINGLE), labels=(number % 3,)) for number in range(count)]


def test_the_bytes_are_pyarrows_own(tmp_path: Path) -> None:
    """Of a table that pyarrow makes of plain rows, without a line of ours."""
    examples = [
        replace(
            it,
            encoded=b"image %d" % number,
            key=f"n{number:08d}/ä_{number}.JPEG",
            height=3 + number,
            width=4 + number,
        )
        for number, it in enumerate(few())
    ]
    said = {"classes": PLAIN.classes, "colorspace": "RGB"}
    metadata = {"huggingface": {"info": {"features": FEATURES}}, "dataprep": said}
    schema = pa.schema(
        [
            ("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
            *(("label", pa.int64()), ("key", pa.string())),
            *(("height", pa.int32()), ("width", pa.int32())),
        ],
        {name: json.dumps(value) for name, value in metadata.items()},
    )
    rows = [
        {
            "image": {"bytes": it.encoded, "path": it.key.rpartition("/")[2]},
            "label": it.labels[0],
            "key": it.key,
            "height": it.height,
            "width": it.width,
        }
        for it in examples
    ]
    parquet.write_table(
        pa.Table.from_pylist(rows, schema),
        tmp_path / "theirs",
        compression="none",
        use_dictionary=["label", "height", "width"],
        write_statistics=["label", "height", "width"],
        write_page_checksum=True,
    )
    ours = write(tmp_path / "ours", PLAIN, examples).read_bytes()
    assert ours == (tmp_path / "theirs").read_bytes()
    for one in examples:
        assert ours.count(one.encoded) == 1
    if pa.__version__ in GOLDEN:
        assert hashlib.sha256(ours).hexdigest() == GOLDEN[pa.__version__]


def test_columns_are_those_of_the_data_set(tmp_path: Path) -> None:
    boxed = {"boxes": ((0.0, 0.25, 0.5, 1.0),), "box_labels": (13,)}
    said = {"captions": ("two lungs", "\udce9"), "age": 58, "view": "z\0\udce9"}
    one = replace(example(5, FULL), labels=(1, 3), fields=boxed)
    rows = [
        replace(one, fields=boxed | said),
        replace(one, key="\udcff/b"),
    ]
    table = parquet.read_table(write(tmp_path / "it", FULL, rows))
    both = {"labels": [1, 3], "boxes": [[0.0, 0.25, 0.5, 1.0]], "box_labels": [13]}
    assert table.drop_columns(["image", "height", "width"]).to_pylist() == [
        {
            **both,
            "key": one.key,
            "view": "z\x0000\x00e9",
            "age": 58,
            "captions": ["two lungs", "\x00e9"],
        },
        {**both, "key": "\x00ff/b", "view": None, "age": None, "captions": []},
    ]
    assert table.column("image")[1].as_py() == {"bytes": one.encoded, "path": "b"}
    with SINK.reader([tmp_path / "it"], DatasetInfo()) as reader:  # which finds out by itself
        found = list(reader)
        assert reader.info == replace(FULL, fields=())
    assert [it.key for it in found] == [one.key, "\udcff/b"]
    assert [it.fields for it in found] == [boxed | said, boxed]


def test_row_groups_end_at_so_many_rows_or_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def groups(path: Path) -> list[int]:
        footer = parquet.ParquetFile(path).metadata
        return [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]

    examples = few(count=2 * ROWS + 7)
    assert groups(write(tmp_path / "rows", PLAIN, examples)) == [ROWS, ROWS, 7]
    monkeypatch.setattr(sink_module, "GROUP_BYTES", 2 * len(examples[0].encoded))
    assert set(groups(write(tmp_path / "bytes", PLAIN, examples))) <= {1, 2, 3}


def test_neighbours_are_read_from_one_row_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    original = parquet.ParquetFile.read_row_group

    def noting(self: Any, group: int, **options: Any) -> Any:
        read.append(group)
        return original(self, group, **options)

    monkeypatch.setattr(parquet.ParquetFile, "read_row_group", noting)
    examples = few(count=2 * ROWS)
    with SINK.reader([write(tmp_path / "it", PLAIN, examples)], PLAIN) as reader:
        assert [it.key for it in reader] == [it.key for it in examples]
        assert read == [0, 1]
        read.clear()
        for number in (ROWS + 5, 3, ROWS + 9, ROWS + 7, ROWS + 8):
            assert reader[number].key == examples[number].key
        assert read == [0, 1, 1]  # the first was still there; of the rest, one row is no reason


def test_a_flipped_bit_in_an_image_is_noticed(tmp_path: Path) -> None:
    examples = few()
    path = write(tmp_path / "it", PLAIN, examples)
    data = bytearray(path.read_bytes())
    data[data.index(examples[1].encoded) + 300] ^= 4
    path.write_bytes(data)
    with (
        SINK.reader([path], PLAIN) as reader,
        pytest.raises(SinkError, match=r"it: record 0: OSError: .*CRC .*; make the shard again$"),
    ):
        list(reader)


def test_what_it_cannot_hold_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"column 'Label' of its own, .* rename it"):
        SINK.check(replace(PLAIN, fields=(Field("age", "int"), Field("Label", "text"))))
    monkeypatch.setattr(sink_module, "_LARGEST", 100)
    writer = SINK.open([tmp_path / "it"], PLAIN)
    with pytest.raises(SinkError, match="bytes; Parquet holds at most 100"):
        writer.write(few()[0])
    writer.abandon()


def test_other_parquet_files_are_not_taken_for_it(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"image": [b"x"], "key": ["a"]}), tmp_path / "it")
    with pytest.raises(SinkError, match="it: footer: its schema is not that of dataprep's images"):
        SINK.reader([tmp_path / "it"], PLAIN)


def test_shards_are_where_datasets_looks_for_any_split() -> None:
    for layout, place in (
        ("split", "data/odd-00000-of-00001.parquet"),
        ("flat", "odd-00000-of-00001.parquet"),
    ):
        assert [str(path) for path in SINK.paths(ShardName("odd", 0, 1), layout)] == [place]  # type: ignore[arg-type]
