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
from itertools import chain, islice, repeat, starmap
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from dataprep.archives.listing import StoredImage
from dataprep.archives.open_files import FileRange, OpenFile, PythonFile, RemoteFile
from dataprep.errors import SourceError
from dataprep.formats.samples import HEAD, Sample, is_image, opened, varint
from dataprep.rows import Packing
from dataprep.system.messages import printable
from dataprep.system.regular_files import open_parquet

_AT_ONCE: Final = 64  # images
_MOST_BATCHES: Final = 1000  # of rows, in which the first image is looked for
_PAGE_HEADER: Final = 32 << 10  # bytes; statistics of 4 KiB a value may be in it
_DATA_PAGE, _DATA_PAGE_V2 = 0, 3
_PLAIN: Final = 0
_LENGTH: Final = struct.Struct("<I")
_MAGIC: Final = b"PAR1"
_UNCOMPRESSED: Final = 0  # of the codecs
_LONGEST_FOOTER: Final = 1 << 28
_AT_MOST: Final = 1 << 20  # bytes that a stream reads at once


class _Chunk(NamedTuple):
    """The pages of a column in a row group."""

    values: int
    unpacked: int  # bytes of them, uncompressed
    size: int  # bytes of the pages, as they lie there
    start: int  # of the first page
    plain: bool  # nothing is compressed, nor in a dictionary
    full: bool  # no value is missing, by its statistics


class NotInPlaceError(Exception):
    """The images do not lie in the file as they are."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a file, by their names."""

    images: dict[str, str]  # path of the bytes of each column of images: ``image.bytes``
    names: dict[str, str]  # path of the file name beside the bytes, where there is one
    fields: dict[str, pa.DataType]  # the other columns of numbers, texts or what nests them
    classes: dict[str, tuple[str, ...]]  # names of the classes that a column's numbers are
    rows: int
    packed: dict[str, int]  # bytes of images that have to be copied; 0: may be read in place
    lacking: dict[str, str]  # path of the bytes of each column of images that may lack some

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


def _open(raw: Path, container: str, source: OpenFile) -> parquet.ParquetFile:
    remote = PythonFile(source) if isinstance(source, RemoteFile) else None
    return open_parquet(raw / container, opened=remote)


def columns_of(raw: Path, container: str) -> Columns:
    """What columns a file has; images are a struct of bytes and a path, or binary.

    Raises:
        SourceError: it cannot be read, or is no Parquet file.
    """
    with opened(raw, container, "Parquet file") as source, _open(raw, container, source) as file:
        stream = FileRange(source, 0, source.size)
        schema = file.schema_arrow
        classes = _classes(schema.metadata or {})
        found = Columns({}, {}, {}, classes, file.metadata.num_rows, {}, {})
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
            chunks = _chunks(stream, source.size, path)
            found.packed[name] = sum(chunk.unpacked for chunk in chunks if not chunk.plain)
            if not all(chunk.full for chunk in chunks):
                found.lacking[name] = path
        return found


def first_rows(raw: Path, container: str, columns: Columns, count: int) -> list[Sample]:
    """The first rows of a file, up to some with images; without the places of these."""
    image = StoredImage("", container, 0, 0, 0)
    paths = [*columns.fields, *columns.names.values()]
    found: list[Sample] = []
    with opened(raw, container, "Parquet file") as source, _open(raw, container, source) as file:
        lacking = columns.lacking
        paths += lacking.values()
        batches = file.iter_batches(count, columns=paths)
        for batch in islice(batches if columns.rows else (), _MOST_BATCHES):
            table = pa.table(batch)
            cells = {path: _column_of(table, path).to_pylist() for path in paths}
            for row in range(len(table)):
                values = {path: some[row] for path, some in cells.items()}
                gone = {name for name, path in lacking.items() if values.pop(path) is None}
                images = dict.fromkeys(columns.images.keys() - gone, image)
                found.append(Sample("", images, values, []))
            if found[-1].images:
                break
    return found


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
    with opened(raw, container, "Parquet file") as source:
        with _open(raw, container, source) as file:
            table = file.read(columns=[*fields])
            columns = [_column_of(table, path).to_pylist() for path in fields]
        cells = zip(*columns, strict=True) if columns else repeat((), len(places))
        for place, values in zip(places, cells, strict=True):
            images = {}
            if place is not None:
                images[image] = StoredImage("", container, *place, 0, packing, source.mtime)
            yield Sample("", images, dict(zip(fields, values, strict=True)), [])


def _column_of(table: pa.Table, path: str) -> pa.ChunkedArray:
    """A column, or the field of one of structs; of nulls, if there is none."""
    top, _, inner = path.partition(".")
    if path in table.column_names:
        return table[path]
    if top in table.column_names:
        return pc.struct_field(table[top], inner)
    return pa.chunked_array([pa.nulls(len(table))])


def places_of(raw: Path, container: str, path: str) -> Iterator[tuple[int, int]]:
    """Where each value of a column of bytes lies: offset and size.

    Raises:
        NotInPlaceError: they are compressed, encoded otherwise, or some are missing; places may
            have been given before that turns out.
        SourceError: the file cannot be read, or is damaged.
    """
    with opened(raw, container, "Parquet file") as source:
        with _open(raw, container, source) as file:
            paths = [file.schema.column(number).path for number in range(len(file.schema))]
            column = file.schema.column(paths.index(path))
            level = column.max_definition_level
            if column.max_repetition_level:
                raise NotInPlaceError
        stream = FileRange(source, 0, source.size)
        chunks = _chunks(stream, source.size, path)
        for chunk in chunks:
            if not chunk.plain:
                raise NotInPlaceError
            at, left = chunk.start, chunk.values
            end = at + chunk.size
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
    with opened(raw, container, "Parquet file") as source, _open(raw, container, source) as file:
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


def _chunks(stream: FileRange, size: int, path: str) -> list[_Chunk]:
    """What the footer says of a column in each row group.

    pyarrow would say it as well, but ends the process where a footer is damaged.
    """
    length, magic = struct.unpack("<I4s", stream.read_at(size - 8, 8))
    if magic != _MAGIC or length > min(size - 8, _LONGEST_FOOTER):
        raise ValueError(f"a footer of {length} bytes")
    pieces = range(size - 8 - length, size - 8, _AT_MOST)
    footer = b"".join(stream.read_at(at, min(_AT_MOST, size - 8 - at)) for at in pieces)
    metadata, _ = _struct(footer, 0)
    found = []
    for group in metadata[4]:  # row_groups
        (chunk,) = (
            each[3] for each in group[1] if b".".join(each[3][3]) == path.encode()
        )  # columns, meta_data
        plain = chunk[4] == _UNCOMPRESSED and 11 not in chunk  # codec, dictionary_page_offset
        statistics = chunk.get(12)
        full = isinstance(statistics, dict) and statistics.get(3) == 0  # null_count
        found.append(_Chunk(chunk[5], chunk[6], chunk[7], chunk[9], plain, full))
    return found


def _struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    """A struct of Thrift's compact protocol by the numbers of its fields, and where it ends."""
    found: dict[int, Any] = {}
    field = 0
    while data[at]:
        delta, kind = data[at] >> 4, data[at] & 15
        at += 1
        if delta:
            field += delta
        else:
            field, at = _zigzag(data, at)
        if kind in (1, 2):
            found[field] = kind == 1
        else:
            found[field], at = _value(data, at, kind)
    return found, at + 1


def _value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind in (1, 2, 3):  # a boolean in a list, a byte
        return data[at], at + 1
    if kind in (4, 5, 6):
        return _zigzag(data, at)
    if kind == 7:  # a double
        if at + 8 > len(data):  # or a list that lies about its length would have no end
            raise ValueError("a footer that ends within a number")
        return None, at + 8
    if kind == 8:
        size, at = varint(data, at)
        return data[at : at + size], at + size
    if kind in (9, 10):
        count, kind, at = data[at] >> 4, data[at] & 15, at + 1
        if count == 15:
            count, at = varint(data, at)
        values = []
        for _ in range(count):
            value, at = _value(data, at, kind)
            values.append(value)
        return values, at
    if kind == 12:
        return _struct(data, at)
    raise ValueError(f"a field of kind {kind}")


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    number, at = varint(data, at)
    return number >> 1 ^ -(number & 1), at


def _shows_images(file: parquet.ParquetFile, name: str) -> bool:
    for batch in islice(file.iter_batches(_AT_ONCE, columns=[name]), _MOST_BATCHES):
        for value in batch.column(0).drop_null().slice(0, 1).to_pylist():
            return is_image(value[:HEAD])
    return not file.metadata.num_rows


def _is_plain(kind: pa.DataType) -> bool:
    """Whether a column has values as JSON has them."""
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if any(test(kind) for test in (*lists, pa.types.is_dictionary)):
        return _is_plain(kind.value_type)
    if pa.types.is_struct(kind):
        return all(_is_plain(field.type) for field in kind)
    tests = (
        pa.types.is_boolean,
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_string,
        pa.types.is_large_string,
    )
    return any(test(kind) for test in tests)


def _classes(metadata: dict[bytes, bytes]) -> dict[str, tuple[str, ...]]:
    """The names of classes that Hugging Face's ``datasets`` keeps in the schema."""
    features = json.loads(metadata.get(b"huggingface", b"{}")).get("info", {}).get("features", {})
    return dict(chain.from_iterable(starmap(_classes_below, features.items())))


def _classes_below(name: str, feature: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The same of one feature, or of all that it nests: ``objects.category``."""
    if isinstance(feature, list):  # older ones say a list by one
        feature = feature[0]
    feature = feature.get("feature", feature)
    if feature.get("_type") == "ClassLabel":
        yield name, tuple(map(str, feature["names"]))
    elif not isinstance(feature.get("_type"), str):
        for inner, each in feature.items():
            yield from _classes_below(f"{name}.{inner}", each)
