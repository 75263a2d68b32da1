"""The columns of dataprep's tables, which are Parquet files that any reader opens.

``INDEX`` is what scanning found: a file a scan unit, below ``OUT/.dataprep/index``. ``ORDER`` is
the same images in the order they are written, below ``OUT/.dataprep/order``. ``RECORDS`` is
``OUT/records.parquet``: a row for every image that was found. The fields of a data set (boxes, age,
view, …) are columns of the same name behind these in all three: `dataprep_schemas.fields`.

A column that has no value for a row is null.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

from dataprep_schemas.fields import DECLARED, NAME, PLAIN, Field, Fields, Table

if TYPE_CHECKING:
    import pyarrow as pa

_DRAWN_ON: Final = (
    "list<int32>",
    "width and height of the picture that annotations are of; null if nobody says",
)
_FRAME: Final = (
    "list<int32>",
    "of one of several frames in the file: its number, from 1, and how many there are",
)
_PATIENT: Final = ("patient_id", "patient")

_PLACE = {
    "container": ("string", "file to read, relative to the raw directory: archive or image"),
    "offset": ("int64", "where the image starts in it, in bytes; 0: the container is the image"),
    "size": ("int64", "bytes of the image, unpacked"),
    "modified": ("int64", "its modification time, in whole seconds since 1970"),
    "container_mtime": ("int64", "that of the container, in nanoseconds; null if nobody looked"),
    "packing": (
        "string",
        "stored or deflate in a zip archive, gzip in a gzip archive, recordio of a record in "
        "several parts, copy of an image that lies in the index, else null",
    ),
    "packed_size": ("int64", "bytes of the image as it lies there, where it is deflated or framed"),
    "crc32": ("int64", "CRC-32 that a zip archive has of the image"),
    "restarts": ("string", "file of the index: restart points of the gzip archive, or the copies"),
}

INDEX: Mapping[str, tuple[str, str]] = {
    "status": (
        "string",
        "image; member: an image whose labels are in a list; listed: what a list says of an image; "
        "missing: listed but not there; unlisted: there but not listed; ignored: no image; "
        "excluded: listed, and to be left out",
    ),
    "split": ("string", "train, validation, test, …"),
    "key": ("string", "name of the image within its split"),
    "alias": ("string", "another name by which a list may call a member"),
    **_PLACE,
    "labels": ("list<string>", "identifiers of its classes"),
    "drawn_on": _DRAWN_ON,
    "frame": _FRAME,
    "group": ("string", "what it belongs to, such as a patient; never in two splits"),
    "line": ("int64", "of what is listed: its line in the list, from 1, where rows are lines"),
    "reason": ("string", "why it was ignored; of an image that is listed, the list"),
}
"""Name: (type, meaning)."""

ORDER: Mapping[str, tuple[str, str]] = {
    "shard": ("int32", "number of the shard, from 0"),
    "key": INDEX["key"],
    **_PLACE,
    "labels": ("list<int32>", "its classes, as 0-based positions in the class list"),
    "drawn_on": _DRAWN_ON,
    "frame": _FRAME,
}
"""Name: (type, meaning)."""

RECORDS: Mapping[str, tuple[str, str]] = {
    "key": INDEX["key"],
    "split": INDEX["split"],
    "status": (
        "string",
        "stored; repaired: stored in another form than it came in, since not every reader takes "
        "that; warned: stored, though its decoder complained; rejected: not stored; missing: "
        "listed but not there; unlisted: there but not listed; ignored: no image; excluded: left "
        "out by --exclude or --uncertain exclude",
    ),
    "reason": (
        "string",
        "why, if it is not just stored; and last, as `metadata: …`, what a stored file has beside "
        "pixels: EXIF orientation other than 1, EXIF GPS, owner and comment, XMP, IPTC, JPEG "
        "comment, PNG text",
    ),
    "shard": ("int32", "number of its shard in the split, from 0"),
    "position": ("int64", "its place in the shard, from 0"),
    "labels": ("list<int32>", "its classes, as 0-based positions in the class list"),
    "classes": ("list<string>", "their identifiers"),
    "format": ("string", "JPEG, PNG or RAW (pixels), as stored"),
    "height": ("int32", "pixels, as stored"),
    "width": ("int32", "pixels, as stored"),
    "channels": ("int8", "as stored: 1 or 3"),
    "bytes": ("int64", "of the stored image"),
    "xxh3": ("string", "XXH3-128 of the stored image's bytes, 32 hexadecimal digits"),
    "phash": (
        "string",
        "perceptual hash of what was decoded to check or convert it: 64 hexadecimal digits; then "
        "as many of it without 5 % at every edge, and without 10 %; those of nearly the same "
        "pictures differ in few bits; null with --check header",
    ),
    "brightness": ("float", "mean grey level of the same, 0 to 255"),
    "contrast": ("float", "standard deviation of its grey levels"),
    "flat": ("float", "share of its most frequent grey level, 0 to 1"),
    "container": (
        "string",
        "of what is not stored: the file of the raw data that has it, or the list",
    ),
}
"""Name: (type, meaning)."""


def patient_column(fields: Iterable[Field]) -> str | None:
    """The field that says whose an image is, if there is one."""
    names = {field.name for field in fields}
    return next((name for name in _PATIENT if name in names), None)


@cache
def schema_of(table: Table, fields: Fields = ()) -> pa.Schema:
    """The Arrow schema of a table of a data set with these fields."""
    import pyarrow as pa

    columns = {"index": INDEX, "order": ORDER, "records": RECORDS}[table]
    own = {name: kind for name, (kind, _) in columns.items()}
    own |= {field.name: field.rules.column_in(table) for field in fields}
    return pa.schema([(name, arrow_type(kind)) for name, kind in own.items()])


@cache
def arrow_type(name: str) -> pa.DataType:
    """Of a column, by what it is called here: ``list<string>``."""
    import pyarrow as pa

    inner = name.removeprefix("list<").removesuffix(">")
    return pa.type_for_alias(name) if inner == name else pa.list_(arrow_type(inner))


def fields_in(schema: pa.Schema, table: Table) -> Fields:
    """The fields of a data set, whose columns are behind those that all have.

    A text may be of several kinds: then what is declared tells it.

    Raises:
        ValueError: a column is of no field.
    """
    found = []
    for column in [*schema][len(schema_of(table)) :]:
        declared = [DECLARED[column.name]] if column.name in DECLARED else []
        fields = [*declared, *(Field(column.name, kind) for kind in PLAIN)]
        fits = (it for it in fields if arrow_type(it.rules.column_in(table)) == column.type)
        field = next(fits, None)
        if field is None or not NAME.fullmatch(column.name):
            raise ValueError(f"the column {column.name[:255]} of {str(column.type)[:255]}")
        found.append(field)
    return tuple(found)
