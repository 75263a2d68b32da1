"""Rows as Arrow tables and back; the columns are those of `dataprep_schemas.tables`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, repeat
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from dataprep.errors import SourceError
from dataprep.rows import Packing, Row, Scanned
from dataprep.system.messages import printable, some_of
from dataprep.system.regular_files import open_parquet
from dataprep_schemas.fields import MASK, Fields, Kind, Table, Value, named
from dataprep_schemas.tables import fields_in, schema_of

MOST_FIELDS: Final = 1000

PLACE: Final = (
    *("key", "container", "offset", "size", "container_mtime"),
    *("packing", "packed_size", "crc32", "restarts"),
)
"""The columns that say where an image is."""

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


def index_tables(scanned: Scanned, classes: Sequence[str], fields: Fields) -> Iterator[pa.Table]:
    """What a unit holds, as tables of the index.

    Args:
        classes: the identifiers that labels are indices into.

    Raises:
        SourceError: a name is not UTF-8.
    """
    schema = schema_of("index", fields)
    for split, rows in scanned.rows.items():
        if rows:
            # Directories are listed in no order, and the same images are to be the same table.
            rows = sorted(rows, key=attrgetter("key"))
            yield _table(schema, len(rows), _row_columns(split, rows, classes, fields))
    masks = sorted(scanned.masks, key=lambda it: it[1].key)
    splits = [split or None for split, _ in masks]
    members = sorted(scanned.members, key=attrgetter("key"))
    for status, those in (("member", members), (MASK.name, [row for _, row in masks])):
        if those:
            columns: dict[str, Any] = {
                "status": pa.repeat(status, len(those)),
                "split": splits if status == MASK.name else None,
                **_place_columns(those),
                "alias": [row.alias or None for row in those],
            }
            yield _table(schema, len(those), columns)
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


def blocks(tables: Iterable[pa.Table], size: int, most: int | None = None) -> Iterator[pa.Table]:
    """The same rows in tables of one size, each in one piece; the last may be smaller.

    Args:
        most: bytes, from which on a table may have fewer rows; None: any number.
    """
    pending: list[pa.Table] = []
    count = bytes_ = 0
    for table in tables:
        pending.append(table)
        count += len(table)
        bytes_ += table.nbytes
        while count >= size or (count and most is not None and bytes_ >= most):
            together = pa.concat_tables(pending)
            yield together.slice(0, size).combine_chunks()
            rest = together.slice(size)
            pending, count, bytes_ = [rest], len(rest), rest.nbytes
    if count:
        yield pa.concat_tables(pending).combine_chunks()


def wrong_column(schema: pa.Schema, table: Table) -> str | None:
    """What keeps columns from being those of a table, and behind them fields; or None.

    A table that was not made here is looked at before any of its names gets into SQL.
    """
    expected = schema_of(table)
    for number, field in enumerate(expected):
        found = schema.field(number) if number < len(schema) else None
        if found is None or (found.name, found.type) != (field.name, field.type):
            return f"no column {field.name} of {field.type} in place {number + 1}"
    # The database makes no difference between A and a.
    told_apart = len({name.lower() for name in schema.names}) == len(schema)
    if not told_apart or len(schema) - len(expected) > MOST_FIELDS:
        return f"columns of the same name, or more than {MOST_FIELDS} of the data set's own"
    try:
        fields_in(schema, table)
    except ValueError as error:
        return str(error)
    return None


def check_index(path: Path, fields: Fields) -> None:
    """Compare a part of the index with what a scan writes.

    Raises:
        SourceError: it is something else.
    """
    try:
        with open_parquet(path) as file:
            schema = file.schema_arrow
    except (OSError, pa.ArrowException) as error:
        raise _forged(str(error).partition("\n")[0]) from error
    wrong = wrong_column(schema, "index")
    if wrong is None and not schema.equals(schema_of("index", fields)):
        wrong = "columns of another data set's own"
    if wrong is not None:
        raise _forged(wrong)


def order_rows(table: pa.Table) -> Iterator[Row]:
    """The rows of a table of the order.

    Raises:
        SourceError: one leads out of the raw directory, or is what no scan finds.
    """
    if (wrong := wrong_column(table.schema, "order")) is not None:
        raise _forged(wrong)
    _check_places(table)
    size = len(table)

    def column(name: str) -> Iterable[Any]:
        values = table.column(name)
        # Most columns of most data sets are empty.
        return repeat(None, size) if values.null_count == size else values.to_pylist()

    fields = fields_in(table.schema, "order")
    return map(
        Row,
        *map(column, ("key", "container", "offset", "size", "modified")),
        _lists(table.column("labels")),
        _values(size, {field.name: (field.rules, column(field.name)) for field in fields}),
        repeat("", size),
        map(_packing, *map(column, ("packing", "packed_size", "crc32", "restarts"))),
        (mtime or 0 for mtime in column("container_mtime")),
        *((tuple(some or ()) for some in column(name)) for name in ("drawn_on", "frame")),
    )


def placed_row(cells: Mapping[str, Any]) -> Row:
    """The row of an image of which only its place is told, by the columns of `PLACE`.

    Raises:
        SourceError: it leads out of the raw directory, or is what no scan finds.
    """
    schema = pa.schema([schema_of("index").field(name) for name in PLACE])
    try:
        table = pa.table({it.name: pa.array([cells.get(it.name)], it.type) for it in schema})
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _forged(f"a place {cells!r:.80}") from error
    if None in (cells.get(name) for name in PLACE[:4]):
        raise _forged(f"a place {cells!r:.80}")
    _check_places(table)
    key, container, offset, size, mtime, *packed = (cells.get(name) for name in PLACE)
    return Row(
        *(str(key), str(container), int(offset or 0), int(size or 0), 0, ()),
        packing=_packing(*packed),
        container_mtime=mtime or 0,
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
    split: str, rows: Sequence[Row], classes: Sequence[str], fields: Fields
) -> dict[str, Any]:
    declared, numbered = {field.name for field in fields}, named(fields, "box_labels")
    for row in rows:
        others = (label for name in numbered for label in row.fields.get(name, ()))
        for label in (*row.labels, *others) if row.fields else row.labels:
            if not 0 <= label < len(classes):
                raise SourceError(
                    f"{printable(row.key)} has the label {label}, and the {len(classes)} classes "
                    "count from 0; make labels that count from 1 one less"
                )
        if not row.fields.keys() <= declared:
            raise SourceError(
                f"{printable(row.key)} has {some_of([*row.fields.keys() - declared])}, of which "
                "the data set does not say that it has any: declare all in `fields`"
            )
    columns: dict[str, Any] = {
        "status": pa.repeat("image", len(rows)),
        "split": pa.repeat(split, len(rows)) if split else None,
        **_place_columns(rows),
        "labels": _named_labels([row.labels for row in rows], classes),
    }
    if any(row.group for row in rows):
        columns["group"] = [row.group or None for row in rows]
    if any(row.drawn_on for row in rows):
        columns["drawn_on"] = [row.drawn_on or None for row in rows]
    if any(row.frame for row in rows):
        columns["frame"] = [row.frame or None for row in rows]
    for field in fields:
        column = [row.fields.get(field.name) for row in rows]
        if field.name in numbered:
            column = [labels and [classes[label] for label in labels] for labels in column]
        columns[field.name] = column
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


def _values(
    size: int, columns: Mapping[str, tuple[Kind, Iterable[Any]]]
) -> Iterator[dict[str, Value]]:
    """What is said of each row, without what is not."""
    known = {
        name: cells if kind.plain else [kind.of_cell(cell) if cell else None for cell in cells]
        for name, (kind, cells) in columns.items()
        if not isinstance(cells, repeat)
    }
    if not known:
        return ({} for _ in range(size))
    rows = zip(*known.values(), strict=True)
    return (
        {name: cell for name, cell in zip(known, row, strict=True) if cell is not None}
        for row in rows
    )


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
