"""Images in a column of a Parquet file: found in place where pages are plain, else copied once.

pyarrow tells where a column begins, and not where its pages do; so their headers are read here.
Source: apache/parquet-format, README.md, Encodings.md and parquet.thrift; and apache/thrift,
doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from dataprep.archives.listing import StoredImage
from dataprep.archives.open_files import FileRange
from dataprep.archives.samples import HEAD, Sample, is_image, opened, varint
from dataprep.errors import SourceError
from dataprep.rows import Packing
from dataprep.system.messages import printable
from dataprep.system.parquet_files import open_parquet

_AT_ONCE: Final = 64  # images
_PAGE_HEADER: Final = 32 << 10  # bytes; statistics of 4 KiB a value may be in it
_DATA_PAGE, _DATA_PAGE_V2 = 0, 3
_PLAIN: Final = 0
_LENGTH: Final = struct.Struct("<I")


class NotInPlaceError(Exception):
    """The images do not lie in the file as they are."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a file.

    Attributes:
        images: path of the bytes of each column of images, by its name: ``image.bytes``.
        names: path of the file name beside the bytes of a column, where there is one.
        fields: the other columns of numbers, texts or lists of them.
        classes: names of the classes that a column's numbers are, by the column's name.
        rows: how many there are.
        packed: bytes of each column of images that have to be copied; 0: they may be read in place.
    """

    images: dict[str, str]
    names: dict[str, str]
    fields: dict[str, pa.DataType]
    classes: dict[str, tuple[str, ...]]
    rows: int
    packed: dict[str, int]

    def image(self, name: str) -> str:
        """The name of the column of images: that, or the only one.

        Raises:
            SourceError: there is none, or several.
        """
        if name in self.images or (not name and len(self.images) == 1):
            return name or next(iter(self.images))
        raise SourceError(
            f"columns of images: {', '.join(map(printable, self.images)) or 'none'}, expected "
            f"{printable(name) or 'one'}; name it with --image_field"
        )


def columns_of(raw: Path, container: str) -> Columns:
    """What columns a file has; images are a struct of bytes and a path, or binary.

    Raises:
        SourceError: it cannot be read, or is no Parquet file.
    """
    with opened(raw, container, "Parquet file"), open_parquet(raw / container) as file:
        schema, metadata = file.schema_arrow, file.metadata
        found = Columns({}, {}, {}, _classes(schema.metadata or {}), metadata.num_rows, {})
        for field in schema:
            kind = field.type
            if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
                found.images[field.name] = f"{field.name}.bytes"
                if kind.get_field_index("path") >= 0:
                    found.names[field.name] = f"{field.name}.path"
            elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
                if _shows_images(file, field.name):
                    found.images[field.name] = field.name
            elif _is_plain(kind):
                found.fields[field.name] = kind
        for name, path in found.images.items():
            found.packed[name] = _packed_bytes(metadata, path)
        return found


def first_rows(raw: Path, container: str, columns: Columns, count: int) -> list[Sample]:
    """The first rows of a file, without places of images.

    Raises:
        SourceError: there are none.
    """
    paths = [*columns.fields, *columns.names.values()]
    with opened(raw, container, "Parquet file"), open_parquet(raw / container) as file:
        batch = next(file.iter_batches(count, columns=paths), None) if columns.rows else None
        if batch is None:
            raise SourceError(f"{printable(container)} has no rows; move it away")
        values = {path: _column_of(pa.table(batch), path).to_pylist() for path in paths}
    image = StoredImage("", container, 0, 0, 0)
    images = dict.fromkeys(columns.images, image)
    rows = range(len(batch))
    return [Sample("", images, {name: some[row] for name, some in values.items()}) for row in rows]


def parquet_samples(
    raw: Path,
    container: str,
    image: str,
    fields: Sequence[str],
    places: Sequence[tuple[int, int] | None],
    packing: Packing,
) -> Iterator[Sample]:
    """The rows of a file.

    Args:
        image: what the field of the image is called.
        fields: paths of the other columns that are wanted.
        places: offset and size of each image; None: there is none.
        packing: as in `Row`.

    Raises:
        SourceError: the file cannot be read, or has not these columns.
    """
    with opened(raw, container, "Parquet file") as (_, status):
        with open_parquet(raw / container) as file:
            table = file.read(columns=[*fields])
            columns = [_column_of(table, path).to_pylist() for path in fields]
        cells = zip(*columns, strict=True) if columns else repeat((), len(places))
        for place, values in zip(places, cells, strict=True):
            images = {}
            if place is not None:
                images[image] = StoredImage("", container, *place, 0, packing, status.st_mtime_ns)
            yield Sample("", images, dict(zip(fields, values, strict=True)))


def _column_of(table: pa.Table, path: str) -> pa.ChunkedArray:
    """A column, or the field of one of structs."""
    top, _, inner = path.partition(".")
    return table[path] if path in table.column_names else pc.struct_field(table[top], inner)


def places_of(raw: Path, container: str, path: str) -> Iterator[tuple[int, int]]:
    """Where each value of a column of bytes lies: offset and size.

    Raises:
        NotInPlaceError: they are compressed, encoded otherwise, or some are missing; places may
            have been given before that turns out.
        SourceError: the file cannot be read, or is damaged.
    """
    with opened(raw, container, "Parquet file") as (descriptor, status):
        with open_parquet(raw / container) as file:
            number = _column(file.metadata, path)
            level = file.schema.column(number).max_definition_level
            if file.schema.column(number).max_repetition_level:
                raise NotInPlaceError
            groups = [
                file.metadata.row_group(group).column(number)
                for group in range(file.metadata.num_row_groups)
            ]
        stream = FileRange(descriptor, 0, status.st_size)
        for chunk in groups:
            if chunk.compression != "UNCOMPRESSED" or chunk.has_dictionary_page:
                raise NotInPlaceError
            at, left = chunk.data_page_offset, chunk.num_values
            end = at + chunk.total_compressed_size
            while left > 0 and at < end:
                page = stream.read_at(at, min(_PAGE_HEADER, end - at))
                header, size = _struct(page, 0)
                at += size
                count, start = _values(stream, header, at, level)
                at += header[3]  # compressed_page_size
                yield from _lengths(stream, start, count, at)
                left -= count
            if left:
                raise ValueError(f"{left} values less than its footer says")


def images_of(raw: Path, container: str, path: str) -> Iterator[bytes | None]:
    """The bytes of each image in order, a few at a time; None where there are none."""
    with opened(raw, container, "Parquet file"), open_parquet(raw / container) as file:
        for batch in file.iter_batches(_AT_ONCE, columns=[path]):
            column = batch.column(0)
            values = column.field("bytes") if pa.types.is_struct(column.type) else column
            for value in values:
                yield value.as_py()


def _values(stream: FileRange, header: dict[int, Any], at: int, level: int) -> tuple[int, int]:
    """How many values a page has, and where they start: all there, and plain."""
    kind = header.get(1)  # of the page
    if kind == _DATA_PAGE and 5 in header:
        count, encoding = header[5][1], header[5][2]
        start = at
        if level:  # lengths of runs: one run of the highest level, or some values are missing
            (size,) = _LENGTH.unpack(stream.read_at(at, 4))
            runs = stream.read_at(at + 4, min(size, 16))
            run, behind = varint(runs, 0)
            if size != behind + 1 or run != count << 1 or runs[behind] != level:
                raise NotInPlaceError
            start += 4 + size
    elif kind == _DATA_PAGE_V2 and 8 in header:
        page = header[8]
        count, encoding, start = page[1], page[4], at + page[5] + page[6]
        if page[2] or page.get(7) is True:  # missing values, or compressed
            raise NotInPlaceError
    else:
        raise NotInPlaceError
    if encoding != _PLAIN:
        raise NotInPlaceError
    return count, start


def _lengths(stream: FileRange, at: int, count: int, end: int) -> Iterator[tuple[int, int]]:
    """Plain values: each with its length in 4 bytes before it."""
    for _ in range(count):
        (size,) = _LENGTH.unpack(stream.read_at(at, 4))
        if at + 4 + size > end:
            raise ValueError(f"a value at byte {at} that leads out of its page")
        yield at + 4, size
        at += 4 + size
    if at != end:
        raise ValueError(f"a page that goes on behind its values, at byte {at}")


def _struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    """A struct of Thrift's compact protocol: numbers, booleans and structs by field; its end."""
    found: dict[int, Any] = {}
    field = 0
    while data[at]:
        delta, kind = data[at] >> 4, data[at] & 15
        at += 1
        if delta:
            field += delta
        else:
            number, at = varint(data, at)
            field = number >> 1 ^ -(number & 1)
        if kind in (1, 2):
            found[field] = kind == 1
        elif kind in (4, 5, 6):
            number, at = varint(data, at)
            found[field] = number >> 1 ^ -(number & 1)
        elif kind == 8:
            size, at = varint(data, at)
            at += size
        elif kind == 12:
            found[field], at = _struct(data, at)
        else:
            raise ValueError(f"a page header with a field of kind {kind}")
    return found, at + 1


def _column(metadata: Any, path: str) -> int:
    """The number of a column of bytes by its path."""
    group = metadata.row_group(0)
    paths = [group.column(number).path_in_schema for number in range(group.num_columns)]
    return paths.index(path)


def _packed_bytes(metadata: Any, path: str) -> int:
    total = 0
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(_column(metadata, path))
        plain = chunk.compression == "UNCOMPRESSED" and not chunk.has_dictionary_page
        total += 0 if plain else chunk.total_uncompressed_size
    return total


def _shows_images(file: Any, name: str) -> bool:
    for batch in file.iter_batches(1, columns=[name]):
        value = batch.column(0)[0].as_py()
        return value is not None and is_image(value[:HEAD])
    return False


def _is_plain(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _is_plain(kind.value_type)
    tests = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_string,
        pa.types.is_large_string,
    )
    return any(test(kind) for test in tests)


def _classes(metadata: dict[bytes, bytes]) -> dict[str, tuple[str, ...]]:
    """The names of classes that Hugging Face's ``datasets`` keeps in the schema."""
    features = json.loads(metadata.get(b"huggingface", b"{}")).get("info", {}).get("features", {})
    found = {}
    for name, feature in features.items():
        if isinstance(feature, list):  # older ones say a list by one
            feature = feature[0]
        feature = feature.get("feature", feature)
        if feature.get("_type") == "ClassLabel":
            found[name] = tuple(map(str, feature["names"]))
    return found
