"""The columns of a Parquet shard, and the row of an example; docs/formats.md has a table of them.

The metadata under ``huggingface`` make of ``image`` an ``Image`` and of labels a ``ClassLabel`` of
class names, of which no two may be the same: those of several classes get their identifiers. Under
``dataprep`` are identifiers and names as they are, and the colour space. Names of files need not be
UTF-8, but strings must: of texts, bytes that are not, and zeros, are a zero and two hexadecimal
digits.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from dataprep.errors import SinkError
from dataprep.sinks.example import DatasetInfo, Example
from dataprep.tables import Value
from dataprep_schemas.manifest import Color

IMAGE: Final = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
_OURS: Final[Mapping[str, pa.DataType]] = {
    "image": IMAGE,
    "label": pa.int64(),
    "labels": pa.list_(pa.int64()),
    "key": pa.string(),
    "height": pa.int32(),
    "width": pa.int32(),
    "boxes": pa.list_(pa.list_(pa.float32())),
    "box_labels": pa.list_(pa.int64()),
}
RESERVED: Final = frozenset(_OURS)
"""Names that no attribute can have."""


class _Said(msgspec.Struct, frozen=True):
    """What a schema says under ``dataprep``."""

    classes: tuple[tuple[str, str], ...]
    colorspace: Color


_NO_TEXT = re.compile("[\0\udc80-\udcff]")
_ESCAPED = re.compile("\0([0-9a-f]{2})")


def schema_of(info: DatasetInfo) -> pa.Schema:
    """The columns of a data set, and of which ``datasets`` must be told more than their type."""
    label = {"names": _class_names(info), "_type": "ClassLabel"}
    labels = {"feature": label, "_type": "Sequence"}  # ``datasets`` of any version know this name
    names = ["image", "labels" if info.multilabel else "label", "key", "height", "width"]
    if info.boxes:
        names += ["boxes", "box_labels"] if info.multilabel else ["boxes"]
    told = {"image": {"_type": "Image"}, "label": label, "labels": labels, "box_labels": labels}
    features = {name: told[name] for name in names if name in told}
    kinds = {"int": pa.int64(), "text": pa.string()}
    columns = [(name, _OURS[name]) for name in names]
    columns += [(name, kinds[kind]) for name, kind in info.attributes]
    metadata = {
        "huggingface": {"info": {"features": features}},
        "dataprep": {"classes": info.classes, "colorspace": info.colorspace},
    }
    return pa.schema(columns, {name: json.dumps(value) for name, value in metadata.items()})


def info_of(schema: pa.Schema, info: DatasetInfo) -> DatasetInfo:
    """What is known of the data set; classes are the file's if nobody else knows them.

    Raises:
        SinkError: the file is not dataprep's.
    """
    if b"dataprep" not in (schema.metadata or {}) or not {"image", "key"} <= {*schema.names}:
        raise SinkError("its schema is not that of dataprep's images; `datasets` may read it")
    if info.classes:
        return info
    # Not by msgspec's own parser, which takes no name that is not UTF-8.
    said = msgspec.convert(json.loads(schema.metadata[b"dataprep"]), _Said)
    several = "labels" in schema.names
    return replace(info, classes=said.classes, multilabel=several, colorspace=said.colorspace)


def row_of(example: Example, info: DatasetInfo) -> tuple[Any, ...]:
    """The values of an example, in the order of the columns."""
    row: list[Any] = [
        (example.encoded, _stored(example.filename)),
        example.labels if info.multilabel else example.labels[0],
        _stored(example.key),
        example.height,
        example.width,
    ]
    if info.boxes:
        row.append(example.boxes)
        if info.multilabel:
            row.append(example.box_labels)
    row += (_stored(example.attributes.get(name)) for name, _ in info.attributes)
    return tuple(row)


def table_of(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """Rows as columns; images are copied once, since pyarrow's own conversion copies them often."""
    images, *others = zip(*rows, strict=True)
    files, names = zip(*images, strict=True)
    ends = np.cumsum([0, *map(len, files)], dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(files))]
    encoded = pa.Array.from_buffers(pa.binary(), len(files), buffers)
    columns = [pa.StructArray.from_arrays([encoded, pa.array(names)], fields=list(IMAGE))]
    types = schema.types[1:]
    columns += [pa.array(values, kind) for values, kind in zip(others, types, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def example_of(row: Mapping[str, Any], info: DatasetInfo) -> Example:
    """The inverse of `row_of`, by the names of the columns; format and size are the image's own."""
    return info.example(
        str(_value(row["key"])),
        row["image"]["bytes"],
        tuple(row["labels"]) if "labels" in row else (row["label"],),
        boxes=tuple(map(tuple, row.get("boxes", ()))),
        box_labels=tuple(row.get("box_labels", ())),
        attributes={
            name: _value(value)
            for name, value in row.items()
            if name not in RESERVED and value is not None
        },
    )


def _class_names(info: DatasetInfo) -> list[str]:
    """Of strings that are UTF-8, no two the same: Hugging Face's ClassLabel refuses others."""
    count = Counter(name for _, name in info.classes)
    names = (f"{name} ({key})" if count[name] > 1 else name for key, name in info.classes)
    return [name.encode("utf-8", "backslashreplace").decode() for name in names]


def _stored(value: Value | None) -> Value | None:
    """Text as Unicode that every reader takes."""
    if not isinstance(value, str):
        return value
    return _NO_TEXT.sub(lambda found: f"\0{ord(found[0]) & 0xFF:02x}", value)


def _value(stored: Value) -> Value:
    if not isinstance(stored, str):
        return stored
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16) and 0xDC00 + int(found[1], 16)), stored)
