"""Parquet, as ``datasets.load_dataset(OUT)`` of Hugging Face reads it: an image data set.

``data/train-00000-of-00004.parquet``, numbered even if it is the only one: the pattern that
``datasets`` looks for first, and the only one with any name of a split. So it does not take
``records.parquet`` for data.

docs/formats.md has a table of the columns. The metadata under ``huggingface`` make of ``image`` an
``Image`` and of labels a ``ClassLabel`` of class names, of which no two may be the same: those of
several classes get their identifiers. Under ``dataprep`` are identifiers and names as they are, and
the colour space. Names of files need not be UTF-8, but strings must: of texts, bytes that are not,
and zeros, are a zero and two hexadecimal digits.

A row group ends at 100 rows, as those of image data sets on the hub, or at 16 MiB: a reader holds
one at a time. Pages have checksums, and nothing is compressed, since JPEGs are. docs/formats.md
says why they do not end where their content says (content-defined chunking).
"""

from __future__ import annotations

import glob
import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import parquet
from typing_extensions import override

from dataprep.errors import SinkError, UsageError
from dataprep.formats import (
    Layout,
    PlainSink,
    Record,
    ShardName,
    ShardReader,
    ShardWriter,
    WrittenFile,
)
from dataprep.formats.example import DatasetInfo, Example
from dataprep.formats.hashed_file import HashedFile
from dataprep.formats.reference_readers import import_reader
from dataprep.system.regular_files import open_parquet
from dataprep_schemas.fields import DECLARED, EVERY, MASK, Field, KindName, Value, named
from dataprep_schemas.manifest import Color
from dataprep_schemas.tables import arrow_type

ROWS = 100
GROUP_BYTES = 16 << 20
_LARGEST = (1 << 31) - 2 * GROUP_BYTES  # sizes of pages and places in a group are signed 32 bits
_ROWS_AT_ONCE = 16  # pyarrow ends no page of images between: larger ones leave the cache
_IMAGE: Final = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
_OURS: Final[Mapping[str, pa.DataType]] = {  # fields cannot have these names
    "image": _IMAGE,
    "label": pa.int64(),
    "labels": pa.list_(pa.int64()),
    "key": pa.string(),
    "height": pa.int32(),
    "width": pa.int32(),
}


class _Said(msgspec.Struct, frozen=True):
    """What a schema says under ``dataprep``."""

    classes: tuple[tuple[str, str], ...]
    colorspace: Color


_NO_TEXT = re.compile("[\0\udc80-\udcff]")
_ESCAPED = re.compile("\0([0-9a-f]{2})")


class _Output:
    """The file as pyarrow writes it: front to back, and nothing once it is given up."""

    closed = False  # pyarrow asks

    def __init__(self, path: Path) -> None:
        self.file = HashedFile(path)

    def write(self, data: bytes) -> None:
        if not self.closed:
            self.file.write(data)

    def flush(self) -> None:
        """Nothing: `HashedFile.finish` does."""


class ParquetWriter(ShardWriter):
    """Writes one shard; holds a row group until it is full."""

    def __init__(self, paths: Sequence[Path], info: DatasetInfo) -> None:
        super().__init__(info)
        self._rows: list[tuple[Any, ...]] = []
        self._bytes = 0
        self._schema = _schema_of(info)
        # Rows are shuffled, so that smallest and largest of a group lead nowhere.
        plain = [name for name in self._schema.names if name not in {"image", "key"}]
        self._output = _Output(paths[0])
        self._writer = parquet.ParquetWriter(
            self._output,
            self._schema,
            compression="none",
            use_dictionary=plain,
            write_statistics=plain,
            write_page_checksum=True,
            write_batch_size=_ROWS_AT_ONCE,
        )

    def append(self, example: Example) -> None:
        """Keep a row; write the row group if it is full."""
        if len(example.encoded) > _LARGEST:
            raise SinkError(f"{len(example.encoded)} bytes; Parquet holds at most {_LARGEST}")
        self._rows.append(_row_of(example, self.info))
        self._bytes += len(example.encoded)
        if len(self._rows) == ROWS or self._bytes >= GROUP_BYTES:
            self._write_group()

    def close(self) -> Sequence[WrittenFile]:
        """Write what is left, and the footer."""
        if self._rows:
            self._write_group()
        self._writer.close()
        return (self._output.file.finish(),)

    def abandon(self) -> None:
        """Give the file up; pyarrow would end it when the writer is collected."""
        self._output.closed = True
        self._output.file.abandon()

    def _write_group(self) -> None:
        self._writer.write_table(_table_of(self._rows, self._schema))
        self._rows, self._bytes = [], 0


class ParquetReader(ShardReader):
    """Reads a row group for a row, and keeps it while the next rows are asked for.

    Of rows here and there it keeps none: a process has many shards open.
    """

    def __init__(self, paths: Sequence[Path], info: DatasetInfo) -> None:
        super().__init__(paths[0], info)
        self._last, self._next = -1, 0
        self._kept: pa.Table | None = None
        with self.opening("footer"):
            self._file = self.opened.enter_context(open_parquet(self.path))
            self.info = _info_of(self._file.schema_arrow, info)
            footer = self._file.metadata
            sizes = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
            self._ends = list(accumulate(sizes))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def read(self, number: int) -> Example:
        """One row of its row group."""
        group = bisect_right(self._ends, number)
        row = number - (self._ends[group - 1] if group else 0)
        table = self._kept if group == self._last else None
        if table is None:
            self._kept = None
            table = self._file.read_row_group(group, use_threads=False)
            if group == self._last or number == self._next:
                self._kept = table
        self._last, self._next = group, number + 1
        (found,) = table.slice(row, 1).to_pylist()
        return _example_of(found, self.info)


class ParquetSink(PlainSink):
    """``--sink parquet``."""

    name: ClassVar[str] = "parquet"
    summary: ClassVar[str] = "Parquet for Hugging Face's load_dataset, pandas and DuckDB"
    keeps: ClassVar[Collection[KindName]] = EVERY
    overhead: ClassVar[int] = 150  # of the small columns, page headers and the footer
    libraries: ClassVar[tuple[str, ...]] = ("pyarrow",)
    reference: ClassVar[str] = "Hugging Face datasets"
    Writer = ParquetWriter
    Reader = ParquetReader

    @override
    def check(self, info: DatasetInfo) -> None:
        """Fields are columns."""
        if clash := [field.name for field in info.fields if field.name.lower() in _OURS]:
            raise UsageError(
                f"parquet has a column {clash[0]!r} of its own, and cannot hold an attribute of "
                "that name: rename it, or choose another format"
            )

    @override
    def stores_classes(self, info: DatasetInfo) -> bool:
        """In each file's schema; ``datasets`` believes the first file's."""
        return True

    @override
    def paths(self, shard: ShardName, layout: Layout) -> Sequence[PurePosixPath]:
        """In ``data``, where ``datasets`` looks for any split."""
        name = f"{shard}.parquet"
        return (PurePosixPath("data", name) if layout == "split" else PurePosixPath(name),)

    @override
    def reference_records(self, paths: Sequence[Path], info: DatasetInfo) -> Iterator[Record]:
        """The shard as ``datasets`` streams it."""
        library = import_reader("datasets", "packaged_modules.parquet", install="datasets")
        files = glob.escape(str(paths[0].absolute()))
        with TemporaryDirectory() as cache:  # of its locks: rows are not kept
            rows = library.load_dataset(
                "parquet", data_files=files, split="train", streaming=True, cache_dir=cache
            )
            for row in rows.cast_column("image", library.Image(decode=False)):
                yield row["image"]["bytes"], tuple(row.get("labels", (row.get("label"),)))


# --- Columns and rows ---


def _schema_of(info: DatasetInfo) -> pa.Schema:
    """The columns of a data set, and of which ``datasets`` must be told more than their type."""
    label = {"names": _class_names(info), "_type": "ClassLabel"}
    labels = {"feature": label, "_type": "Sequence"}  # ``datasets`` of any version know this name
    names = ["image", "labels" if info.multilabel else "label", "key", "height", "width"]
    told = {"image": {"_type": "Image"}, "label": label, "labels": labels}
    told |= dict.fromkeys(named(info.fields, "box_labels"), labels)
    told |= dict.fromkeys(named(info.fields, MASK.kind), told["image"])
    columns = [(name, _OURS[name]) for name in names]
    columns += [(field.name, _type_of(field)) for field in info.fields]
    features = {name: told[name] for name, _ in columns if name in told}
    metadata = {
        "huggingface": {"info": {"features": features}},
        "dataprep": {"classes": info.classes, "colorspace": info.colorspace},
    }
    return pa.schema(columns, {name: json.dumps(value) for name, value in metadata.items()})


def _info_of(schema: pa.Schema, info: DatasetInfo) -> DatasetInfo:
    """What is known of the data set; classes are the file's if nobody else knows them."""
    if b"dataprep" not in (schema.metadata or {}) or not {"image", "key"} <= {*schema.names}:
        raise SinkError("its schema is not that of dataprep's images; `datasets` may read it")
    if info.classes:
        return info
    # Not by msgspec's own parser, which takes no name that is not UTF-8.
    said = msgspec.convert(json.loads(schema.metadata[b"dataprep"]), _Said)
    several = "labels" in schema.names
    return replace(info, classes=said.classes, multilabel=several, colorspace=said.colorspace)


def _row_of(example: Example, info: DatasetInfo) -> tuple[Any, ...]:
    """The values of an example, in the order of the columns."""
    row: list[Any] = [
        (example.encoded, _stored(example.filename)),
        example.labels if info.multilabel else example.labels[0],
        _stored(example.key),
        example.height,
        example.width,
    ]
    values = example.fields
    row += (_stored(values.get(field.name, field.rules.none)) for field in info.fields)
    return tuple(row)


def _type_of(field: Field) -> pa.DataType:
    return _IMAGE if field.kind == MASK.kind else arrow_type(field.rules.column)


def _table_of(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """Rows as columns; images are copied once, since pyarrow's own conversion copies them often."""
    images, *others = zip(*rows, strict=True)
    files, names = zip(*images, strict=True)
    ends = np.cumsum([0, *map(len, files)], dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(files))]
    encoded = pa.Array.from_buffers(pa.binary(), len(files), buffers)
    columns = [pa.StructArray.from_arrays([encoded, pa.array(names)], fields=list(_IMAGE))]
    types = schema.types[1:]
    columns += [pa.array(values, kind) for values, kind in zip(others, types, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def _example_of(row: Mapping[str, Any], info: DatasetInfo) -> Example:
    """The inverse of `_row_of`, by names; format and size are the image's own."""
    return info.example(
        str(_value(row["key"])),
        row["image"]["bytes"],
        tuple(row["labels"]) if "labels" in row else (row["label"],),
        fields={
            name: _value(cell["bytes"] if name == MASK.name else _of_cell(name, cell))
            for name, cell in row.items()
            if name not in _OURS and cell is not None
        },
    )


def _of_cell(name: str, cell: Any) -> Value:
    return DECLARED[name].rules.of_cell(cell) if name in DECLARED else cell


def _class_names(info: DatasetInfo) -> list[str]:
    """Of strings that are UTF-8, no two the same: Hugging Face's ClassLabel refuses others."""
    count = Counter(name for _, name in info.classes)
    names = (f"{name} ({key})" if count[name] > 1 else name for key, name in info.classes)
    return [name.encode("utf-8", "backslashreplace").decode() for name in names]


def _stored(value: Value) -> Value:
    """Text as Unicode that every reader takes."""
    if isinstance(value, tuple):
        return tuple(map(_stored, value)) if isinstance((*value, None)[0], str) else value
    if isinstance(value, bytes):
        return {"bytes": value} if value else None
    if not isinstance(value, str):
        return value
    return _NO_TEXT.sub(lambda found: f"\0{ord(found[0]) & 0xFF:02x}", value)


def _value(stored: Value) -> Value:
    if isinstance(stored, tuple):
        return tuple(map(_value, stored)) if isinstance((*stored, None)[0], str) else stored
    if not isinstance(stored, str):
        return stored
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16) and 0xDC00 + int(found[1], 16)), stored)
