"""Rows as Arrow tables and back; the columns are those of `dataprep_schemas.tables`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, repeat
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from dataprep.errors import SourceError
from dataprep.rows import Box, Packing, Row, Scanned, Value
from dataprep.system.messages import printable
from dataprep.system.regular_files import open_parquet
from dataprep_schemas.tables import CAPTIONS, INDEX, ORDER, OwnKind, schema_of

Attributes = tuple[tuple[str, OwnKind], ...]
"""Name and kind of a data set's own columns."""

MOST_ATTRIBUTES: Final = 1000
ATTRIBUTE: Final = re.compile("[A-Za-z0-9_]{1,255}")
"""The names of a data set's own columns, as the manifest has them."""

_LEADS_OUT: Final = r"^/|(^|/)\.\.(/|$)|\x00"
_NO_NAME: Final = r"[/\x00]"
# What a row's packing says behind its kind, by the names of the columns.
_PACKINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "stored": ("crc32",),
    "deflate": ("packed_size", "crc32"),
    "recordio": ("packed_size",),
    "gzip": ("restarts",),
    "copy": ("restarts",),
}
_SIDES: Final = ("xmin", "ymin", "xmax", "ymax")
_CAPTIONS: Final = (CAPTIONS[0], pa.list_(pa.string()))


def index_tables(
    scanned: Scanned, classes: Sequence[str], attributes: Attributes
) -> Iterator[pa.Table]:
    """What a unit holds, as tables of the index.

    Args:
        classes: the identifiers that labels are indices into.

    Raises:
        SourceError: a name is not UTF-8.
    """
    schema = schema_of("index", attributes)
    for split, rows in scanned.rows.items():
        if rows:
            # Directories are listed in no order, and the same images are to be the same table.
            rows = sorted(rows, key=attrgetter("key"))
            yield _table(schema, len(rows), _row_columns(split, rows, classes, attributes))
    if scanned.members:
        members = sorted(scanned.members, key=attrgetter("key"))
        columns: dict[str, Any] = {
            "status": pa.repeat("member", len(members)),
            **_place_columns(members),
            "alias": [member.alias or None for member in members],
        }
        yield _table(schema, len(members), columns)
    if scanned.unmatched:
        unmatched = scanned.unmatched
        columns = {
            "status": [entry.kind for entry in unmatched],
            "split": [entry.split or None for entry in unmatched],
            "key": [entry.name for entry in unmatched],
            "container": [entry.where for entry in unmatched],
        }
        yield _table(schema, len(unmatched), columns)
    if scanned.ignored:
        columns = {
            "status": ["ignored"] * len(scanned.ignored),
            # Only for people to read, so what is no UTF-8 need not be refused.
            "key": [printable(entry.name) for entry in scanned.ignored],
            "container": [printable(entry.container) for entry in scanned.ignored],
            "reason": [entry.reason for entry in scanned.ignored],
        }
        yield _table(schema, len(scanned.ignored), columns)
    for table in scanned.tables:
        yield fitted(table, schema)


def fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with all columns of the schema, null where it has none."""
    known = {name: table.column(name) for name in table.column_names}
    return _table(schema, len(table), known)


def blocks(tables: Iterable[pa.Table], size: int) -> Iterator[pa.Table]:
    """The same rows in tables of one size, each in one piece; the last may be smaller."""
    pending: list[pa.Table] = []
    count = 0
    for table in tables:
        pending.append(table)
        count += len(table)
        while count >= size:
            together = pa.concat_tables(pending)
            yield together.slice(0, size).combine_chunks()
            pending, count = [together.slice(size)], count - size
    if count:
        yield pa.concat_tables(pending).combine_chunks()


def wrong_column(schema: pa.Schema, expected: pa.Schema) -> str | None:
    """What keeps columns from being the expected ones, and behind them a data set's own; or None.

    A table that was not made here is looked at before any of its names gets into SQL.
    """
    for number, field in enumerate(expected):
        found = schema.field(number) if number < len(schema) else None
        if found is None or (found.name, found.type) != (field.name, field.type):
            return f"no column {field.name} of {field.type} in place {number + 1}"
    own = [*schema][len(expected) :]
    # The database makes no difference between A and a.
    if len({name.lower() for name in schema.names}) < len(schema) or len(own) > MOST_ATTRIBUTES:
        return f"columns of the same name, or more than {MOST_ATTRIBUTES} of the data set's own"
    for field in own:
        good = field.type in (pa.int64(), pa.string()) or (field.name, field.type) == _CAPTIONS
        if not good or not ATTRIBUTE.fullmatch(field.name):
            return f"the column {field.name[:255]} of {str(field.type)[:255]}"
    return None


def check_index(path: Path, attributes: Sequence[str]) -> None:
    """Compare a part of the index with what a scan writes.

    Args:
        attributes: names of the data set's own columns.

    Raises:
        SourceError: it is something else.
    """
    try:
        with open_parquet(path) as file:
            schema = file.schema_arrow
    except (OSError, pa.ArrowException) as error:
        raise _forged(str(error).partition("\n")[0]) from error
    wrong = wrong_column(schema, schema_of("index"))
    if wrong is None and schema.names[len(INDEX) :] != [*attributes]:
        wrong = "columns of another data set's own"
    if wrong is not None:
        raise _forged(wrong)


def order_rows(table: pa.Table) -> Iterator[Row]:
    """The rows of a table of the order.

    Raises:
        SourceError: one leads out of the raw directory, or is what no scan finds.
    """
    if (wrong := wrong_column(table.schema, schema_of("order"))) is not None:
        raise _forged(wrong)
    _check_places(table)
    size = len(table)

    def column(name: str) -> Iterable[Any]:
        values = table.column(name)
        # Most columns of most data sets are empty.
        return repeat(None, size) if values.null_count == size else values.to_pylist()

    own = {name: column(name) for name in table.column_names[len(ORDER) :]}
    captions = own.pop(CAPTIONS[0], repeat(None, size))
    return map(
        Row,
        *map(column, ("key", "container", "offset", "size", "modified")),
        _lists(table.column("labels")),
        (
            tuple(tuple(map(box.__getitem__, _SIDES)) for box in boxes or ())
            for boxes in column("boxes")
        ),
        (tuple(labels or ()) for labels in column("box_labels")),
        _attributes(size, own),
        repeat("", size),
        map(_packing, *map(column, ("packing", "packed_size", "crc32", "restarts"))),
        (mtime or 0 for mtime in column("container_mtime")),
        (tuple(texts or ()) for texts in captions),
        (tuple(size or ()) for size in column("drawn_on")),
    )


def _table(schema: pa.Schema, size: int, columns: Mapping[str, Any]) -> pa.Table:
    """A table of all columns of the schema, null where nothing is given."""
    try:
        return pa.table(
            [
                pa.nulls(size, field.type)
                if columns.get(field.name) is None
                else _column(columns[field.name], field.type)
                for field in schema
            ],
            schema=schema,
        )
    except UnicodeEncodeError as error:
        raise SourceError(
            f"a name is not UTF-8: {printable(str(error.object))}; rename the file, or make the "
            "archive again with names in UTF-8"
        ) from error


def _column(values: Any, type_: pa.DataType) -> Any:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values if values.type == type_ else values.cast(type_)
    return pa.array(values, type_)


def _row_columns(
    split: str, rows: Sequence[Row], classes: Sequence[str], attributes: Attributes
) -> dict[str, Any]:
    for row in rows:
        for label in (*row.labels, *row.box_labels):
            if not 0 <= label < len(classes):
                raise SourceError(
                    f"{printable(row.key)} has the label {label}, and the {len(classes)} classes "
                    "count from 0; make labels that count from 1 one less"
                )
        if row.captions and CAPTIONS not in attributes:
            raise SourceError(
                f"{printable(row.key)} has captions; a data set with any must say so (has_captions)"
            )
    columns: dict[str, Any] = {
        "status": pa.repeat("image", len(rows)),
        "split": pa.repeat(split, len(rows)) if split else None,
        **_place_columns(rows),
        "labels": _named_labels([row.labels for row in rows], classes),
    }
    if any(row.group for row in rows):
        columns["group"] = [row.group or None for row in rows]
    if any(row.boxes for row in rows):
        columns["boxes"] = [_boxes(row.boxes) for row in rows]
    if any(row.box_labels for row in rows):
        named = [tuple(classes[label] for label in row.box_labels) or None for row in rows]
        columns["box_labels"] = named
    if any(row.drawn_on for row in rows):
        columns["drawn_on"] = [row.drawn_on or None for row in rows]
    for name, kind in attributes:
        columns[name] = [
            row.captions or None if kind == "texts" else row.attributes.get(name) for row in rows
        ]
    return columns


def _place_columns(rows: Sequence[Row]) -> dict[str, Any]:
    """Where images are: the same of rows and members."""
    columns: dict[str, Any] = {
        "key": [row.key for row in rows],
        "container": [row.container for row in rows],
        "offset": [row.offset for row in rows],
        "size": [row.size for row in rows],
        "modified": [row.modified for row in rows],
        "container_mtime": [row.container_mtime or None for row in rows],
    }
    if any(row.packing for row in rows):
        said = [row.packing and _said(*row.packing) for row in rows]
        for name in ("packing", "packed_size", "crc32", "restarts"):
            columns[name] = [each.get(name) if each else None for each in said]
    return columns


def _named_labels(labels: Sequence[tuple[int, ...]], classes: Sequence[str]) -> pa.Array:
    """Labels by name: a list of strings a row."""
    ends = accumulate(map(len, labels), initial=0)
    # Not taken from an array of all classes: to make that for ten images takes longer than they do.
    names = pa.array([classes[label] for some in labels for label in some], pa.string())
    return pa.ListArray.from_arrays(pa.array([*ends], pa.int32()), names)


def _lists(column: pa.ChunkedArray) -> Iterator[tuple[int, ...]]:
    """Lists of integers, as tuples; quick where each has one."""
    flat = column.combine_chunks().flatten().to_pylist()
    if len(flat) == len(column):
        lengths = pc.list_value_length(column)
        if pc.all(pc.equal(lengths, 1)).as_py():
            return zip(flat)
    return map(tuple, column.to_pylist())


def _attributes(size: int, columns: Mapping[str, Iterable[Any]]) -> Iterator[dict[str, Value]]:
    """What is known of each row, without what is not."""
    known = {name: cells for name, cells in columns.items() if not isinstance(cells, repeat)}
    if not known:
        return ({} for _ in range(size))
    rows = zip(*known.values(), strict=True)
    return (
        {name: cell for name, cell in zip(known, row, strict=True) if cell is not None}
        for row in rows
    )


def _boxes(boxes: Sequence[Box]) -> list[dict[str, float]] | None:
    return [dict(zip(_SIDES, box, strict=True)) for box in boxes] or None


def _said(kind: Any, *values: Any) -> dict[str, Any]:
    """A packing as columns."""
    return dict(zip(_PACKINGS[kind], values, strict=True), packing=kind)


def _packing(kind: str | None, size: int | None, crc: int | None, restarts: str | None) -> Packing:
    """The inverse of `_said`."""
    if kind is None:
        return ()
    columns = {"packed_size": size, "crc32": crc, "restarts": restarts}
    values = [columns[name] for name in _PACKINGS.get(kind, ())]
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        raise _forged(f"a packing {kind!r}")
    return kind, *known


def _check_places(table: pa.Table) -> None:
    """Look at what a forged index would open: scans name nothing above the raw directory."""
    for name, wrong in (("container", _LEADS_OUT), ("restarts", _NO_NAME)):
        bad = table.filter(pc.match_substring_regex(table.column(name), wrong))
        for value in bad.column(name).slice(0, 1).to_pylist():
            raise _forged(f"{name} {value}")
    for name in ("offset", "size", "packed_size"):
        least = pc.min(table.column(name)).as_py()
        if least is not None and least < 0:
            raise _forged(f"{name} {least}")


def _forged(finding: str) -> SourceError:
    return SourceError(
        f"the index has {printable(finding)}, which no scan finds: somebody else has written it; "
        "start anew with --overwrite, and without --index_dir or with another"
    )
