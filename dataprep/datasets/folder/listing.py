"""A file that lists images, as rows of the index: CSV, TSV, JSON lines, Parquet, plain lines.

The database reads it: cells are text, in the order of the file. What there are few of, labels and
splits, is looked at once a distinct cell; the rest is SQL, which has null where a row breaks a
rule. That row is then read once more, alone, to say what is wrong with it.
"""

from __future__ import annotations

import csv
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from glob import escape
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NoReturn

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataprep.archives.listing import clean_path
from dataprep.datasets.base import Attribute, refuse_reserved
from dataprep.datasets.folder.classes import ClassList
from dataprep.datasets.folder.options import FolderOptions, ListingOptions
from dataprep.datasets.splits import split_name
from dataprep.errors import SourceError
from dataprep.index.database import open_database, quoted
from dataprep.system.messages import printable, some_of, unreadable

_ROWS: Final = 1 << 17  # rows at once
_CELLS: Final = 1 << 17  # distinct cells that are remembered
_LOOKS: Final = 16  # files looked up at once: on a network each takes a while
_SHOWN: Final = 20  # columns in a message
_DELIMITERS: Final = {"csv": ",", "tsv": "\t"}
_MARK: Final = "attribute "  # before the name of an attribute, where columns have their meanings
_READ_LINES: Final = (  # no byte of a line but its end means anything
    "read_csv({file}, auto_detect=false, hive_partitioning=false, header=false, strict_mode=false, "
    "delim='\x01', quote='', escape='', columns={{'line': 'VARCHAR'}})"
)

# What `clean_path` does, which is asked where this is null.
_KEY: Final = r"""case
when not regexp_matches(path, '(^|/)\.{0,2}(/|$)|\x00') then path
when regexp_matches(path, '(^|/)\.\.(/|$)|\x00') then null
else nullif(array_to_string(
    list_filter(string_split(path, '/'), lambda part: part not in ('', '.')), '/'), '')
end"""
_FOLDER: Final = "coalesce(nullif(regexp_extract(key, '^(.*)/', 1), ''), '.')"
_GROUP: Final = "nullif(trim(\"group\", ' ' || chr(9)), '')"
_SIZE: Final = r"""case when regexp_full_match(size, '[0-9]{1,18}(\.0)?')
then split_part(size, '.', 1)::bigint end"""
_QUERY: Final = """
with cells as not materialized ({cells}),
keyed as not materialized (
    select *, {key} as key from (select * replace (trim(path, ' ' || chr(9)) as path) from cells)),
grouped as not materialized (select * replace ({group} as "group") from keyed)
select blank, key, label, {size} as size, "group", {split} as split{attributes} from grouped
"""


class Listing:
    """A list of images.

    Args:
        raw: the raw directory.
        listing: where it is and how it is read.
        options: what the user wants besides.
        known: the only classes there may be; None if any may.

    Attributes:
        path: where it is.
        name: what messages call it.
        columns: names of its columns by what they say: path, label, split, size, group.

    Raises:
        SourceError: it is unreadable, or its columns are not what the options say.
    """

    def __init__(
        self, raw: Path, listing: ListingOptions, options: FolderOptions, known: ClassList | None
    ) -> None:
        self.path = raw / listing.path
        self.name = printable(listing.path.name)
        self._listing = listing
        self._options = options
        self._known = known
        self._labels = lru_cache(_CELLS)(self._labels_of)
        self._format = listing.format
        self._file = quoted(escape(str(self.path)))
        self._types: dict[str, str] = {}
        try:
            self._names = self._column_names()
        except OSError as error:
            raise unreadable(str(self.path), error) from error
        self.columns = _find_columns(self.name, self._names, listing, options)
        type_ = self._types.get(self.columns["label"], "VARCHAR")
        self._has_json_labels = self._format == "jsonl" or type_ != "VARCHAR"

    def attributes(self) -> tuple[Attribute, ...]:
        """What its columns say of each image: whole numbers, where all cells are, or text.

        Raises:
            SourceError: it cannot be read, or a column has the name of one of dataprep's own.
        """
        names = [meaning for meaning in self.columns if meaning.startswith(_MARK)]
        if not names:
            return ()
        whole = ", ".join(
            f"coalesce(bool_and(regexp_full_match(trim({_identifier(name)}), '(-?[0-9]{{1,18}})?'))"
            f" and bool_or(trim({_identifier(name)}) <> ''), false)"
            for name in names
        )
        with open_database(None) as database, self._explaining():
            row = database.execute(f"select {whole} from ({self._cells()}) where not blank")
            kinds = row.fetchone() or ()
        found = tuple(
            Attribute(name.removeprefix(_MARK), "int" if kind else "text")
            for name, kind in zip(names, kinds, strict=True)
        )
        refuse_reserved(found, f"{self.name}: --attribute_columns")
        return found

    def tables(
        self, raw: Path, top: str, attributes: Sequence[Attribute], *, packed: bool
    ) -> Iterator[pa.Table]:
        """Its rows as rows of the index.

        Args:
            raw: the raw directory.
            top: where paths start, relative to that.
            attributes: as `attributes` found them.
            packed: whether the images are in archives: then the rows say what is listed.
                Otherwise they are images, or files that are missing or no files.

        Raises:
            SourceError: a row is wrong, or a file cannot be looked at.
        """
        first = 0
        empty = True
        head = self._lines_before()
        with open_database(None, ordered=True) as database, self._explaining():
            for batch in database.sql(self._query(attributes)).to_arrow_reader(_ROWS):
                rows = np.arange(first, first + len(batch))
                first += len(batch)
                cells = pa.table(batch).append_column("row", pa.array(rows))
                cells = cells.filter(pc.invert(cells["blank"]))
                empty = empty and not len(cells)
                listed = self._listed(cells, attributes)
                if head is not None:
                    listed = _with(listed, line=pc.add(cells["row"], head + 1))
                listed = _with(listed, reason=self.name)
                if packed:
                    listed = listed.drop(["size", "reason"])
                    yield _with(listed, status="listed", container=self.name)
                elif "size" in self.columns:
                    yield _with(_placed(listed, top), status="image", modified=0)
                else:
                    yield from self._look_up(raw, _placed(listed, top))
        if empty:
            raise SourceError(f"{self.name} lists no images; expected one image a line")

    def _column_names(self) -> list[str]:
        """The names in its header or, in JSON, of its first object."""
        form, path = self._format, self.path
        if form == "parquet":
            with path.open("rb"), open_database(None) as database, self._explaining():
                found = database.execute(f"describe select * from {self._parquet}").fetchall()
            self._types = {name: type_ for name, type_, *_ in found}
            return [name for name, *_ in found]
        with path.open("rb") as binary:
            start = binary.read(4)
        if start.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in start:
            raise SourceError(f"{self.name} is UTF-16 or no text; save it as UTF-8")
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as text:
            try:
                if form == "txt":
                    return ["path", "label"]
                if form == "jsonl":
                    return list(parse_object(text.readline()))
                names = next(csv.reader(text, delimiter=_DELIMITERS[form]), [])
            except (ValueError, csv.Error) as error:
                raise SourceError(f"{self.name}, line 1: {error}; correct the listing") from error
        if not names:
            raise SourceError(
                f"{self.name} is empty or starts with an empty line; expected a header and then "
                "one image a line"
            )
        return names

    @property
    def _parquet(self) -> str:
        return f"read_parquet({self._file}, binary_as_string=true, hive_partitioning=false)"

    def _cells(self) -> str:
        """A query for the cells of its columns, as text; labels that are none as JSON."""
        form = self._format
        if form == "parquet":
            source = self._parquet
            cells = {
                meaning: f"to_json({_identifier(name)})"
                if meaning == "label" and self._has_json_labels
                else f"{_identifier(name)}::varchar"
                for meaning, name in self.columns.items()
            }
        elif form in _DELIMITERS:
            # Their own names may be any text, and the same twice.
            columns = ", ".join(f"'c{place}': 'VARCHAR'" for place in range(len(self._names)))
            source = (
                f"read_csv({self._file}, auto_detect=false, hive_partitioning=false, header=true, "
                f"delim='{_DELIMITERS[form]}', quote='\"', escape='\"', columns={{{columns}}})"
            )
            places = {meaning: self._names.index(name) for meaning, name in self.columns.items()}
            cells = {meaning: f"c{place}" for meaning, place in places.items()}
        else:
            source = _READ_LINES.format(file=self._file)
            source = f"(select rtrim(coalesce(line, ''), chr(13)) as line from {source})"
            # A path may have spaces, and so has that of Caffe's convert_imageset.
            parts = "regexp_extract(line, '^(.*)[ \t]([^ \t]*)$', {})"
            cells = {"path": parts.format(1), "label": parts.format(2)}
            if form == "jsonl":
                source = f"(select line, try_cast(line as json) as object from {source})"
                cells = {
                    meaning: f"json_extract{'' if meaning == 'label' else '_string'}"
                    f"(object, {quoted(_pointer(name))})"
                    for meaning, name in self.columns.items()
                }
            cells |= {"line": "line", "blank": "trim(line, ' ' || chr(9)) = ''"}
        absent = dict.fromkeys(("size", "group", "split", "line"), "null::varchar")
        cells = {**absent, "blank": "false", **cells}
        named = ", ".join(f"{cell} as {_identifier(meaning)}" for meaning, cell in cells.items())
        return f"select {named} from {source}"

    def _query(self, attributes: Sequence[Attribute]) -> str:
        """The rows as the rules have them: null where one is broken."""
        options = self._options
        if "group" in self.columns:
            group = _GROUP
        elif options.group_by == "folder":
            group = _FOLDER
        else:  # the list says who is in which split: it may say so twice of one image
            group = "key" if "split" in self.columns else "null::varchar"
        split = "split" if "split" in self.columns else quoted(options.split_name)
        if options.cut is not None:
            split = options.cut.split_sql('coalesce("group", key)')
        own = "".join(
            f", nullif(trim({_identifier(_MARK + attribute.name)}), '')"
            f"{'::bigint' if attribute.kind == 'int' else ''} as "
            f"{_identifier(_MARK + attribute.name)}"
            for attribute in attributes
        )
        return _QUERY.format(
            cells=self._cells(), key=_KEY, group=group, size=_SIZE, split=split, attributes=own
        )

    def _lines_before(self) -> int | None:
        """How many lines are before the first row; None if rows are not lines."""
        if self._format not in _DELIMITERS:
            return 0
        end = b""
        with self.path.open("rb") as file:
            while chunk := file.read(1 << 20):
                text = (end + chunk).replace(b"\r", b"")
                if b'"' in text or b"\n\n" in text:
                    return None
                end = text[-1:]
        return 1

    def _listed(self, cells: pa.Table, attributes: Sequence[Attribute]) -> pa.Table:
        """What rows say: key, split, labels, group, size, attributes."""
        for name, meaning in (("key", "path"), ("size", "size"), ("group", "group")):
            if meaning in self.columns and cells[name].null_count:
                row = cells.filter(pc.is_null(cells[name]))["row"][0]
                self._refuse(row.as_py(), meaning)
        split = cells["split"]
        if "split" in self.columns:
            split = self._by_cell(cells, "split", _split, pa.string())
        return pa.table(
            {
                "key": cells["key"],
                "split": split,
                "labels": self._by_cell(cells, "label", self._labels, pa.list_(pa.string())),
                "group": cells["group"],
                "size": cells["size"],
                **{attribute.name: cells[_MARK + attribute.name] for attribute in attributes},
            }
        )

    def _by_cell(
        self, cells: pa.Table, name: str, rule: Callable[[str], Any], kind: pa.DataType
    ) -> pa.Array:
        """What a rule makes of a column, each distinct cell looked at once."""
        encoded = cells[name].combine_chunks().fill_null("").dictionary_encode()
        values = []
        for code, cell in enumerate(encoded.dictionary.to_pylist()):
            try:
                values.append(rule(cell))
            except ValueError as error:
                row = cells["row"][pc.index(encoded.indices, code).as_py()]
                raise self._wrong(row.as_py(), str(error)) from error
        return pa.array(values, kind).take(encoded.indices)

    def _labels_of(self, cell: str) -> tuple[str, ...]:
        """The identifiers of the classes in a cell, sorted."""
        separator, none = self._listing.label_separator, self._listing.no_label
        value = json.loads(cell) if cell and self._has_json_labels else cell
        if isinstance(value, list):
            if not separator:
                raise ValueError(
                    "found a list of labels, expected one label; with --label_separator, whatever "
                    "it is, there may be several"
                )
            labels = [_text(label) for label in value]
        else:
            text = _text(value)
            several = [label.strip() for label in text.split(separator)] if separator else [text]
            labels = several if text or not separator else []
        if none and labels == [none]:
            return ()
        if not all(labels):
            advice = "" if separator else "; --label_separator allows images without labels"
            raise ValueError(f"empty label, expected a class{advice}")
        if none in labels:
            raise ValueError(f"label {printable(none)}, which means none, beside others")
        names = labels
        if self._known is not None:
            known = self._known
            labels = [label.strip("/") for label in labels]  # as the list of classes has them
            if unknown := [label for label in labels if label not in known.indices]:
                raise ValueError(
                    f"unknown label {some_of(unknown)}, expected the classes of {known.place}"
                )
            names = [known.classes[known.indices[label]][0] for label in labels]
        if len(set(names)) < len(names):
            twice = next(
                label for label, name in zip(labels, names, strict=True) if names.count(name) > 1
            )
            numbers = ", not zeros and ones" if set(labels) <= {"0", "1"} else ""
            raise ValueError(
                f"label {printable(twice)} twice in one cell; expected names of classes{numbers}, "
                "each once"
            )
        return tuple(sorted(names))

    def _look_up(self, raw: Path, listed: pa.Table) -> Iterator[pa.Table]:
        """The files that are there, and those that are not."""
        paths = listed["container"].to_pylist()
        step = max(1, -(-len(paths) // _LOOKS))
        pieces = [paths[at : at + step] for at in range(0, len(paths), step)]
        with ThreadPoolExecutor(_LOOKS) as pool:
            found = list(chain.from_iterable(pool.map(lambda some: _look(raw, some), pieces)))
        status, size, mtime = zip(*found, strict=True) if found else ((), (), ())
        kinds, nanoseconds = pa.array(status, pa.string()), pa.array(mtime, pa.int64())
        table = _with(listed.drop("size"), status=kinds, size=pa.array(size, pa.int64()))
        seconds = pc.divide(nanoseconds, 1_000_000_000)
        table = _with(table, modified=seconds, container_mtime=nanoseconds)
        yield table.filter(pc.equal(kinds, "image"))
        others = table.filter(pc.not_equal(kinds, "image"))
        others = _with(others.select(["status", "key", "split"]), container=self.name)
        yield others.filter(pc.equal(others["status"], "missing"))
        yield _with(
            others.filter(pc.equal(others["status"], "ignored")), reason="not a regular file"
        )

    def _refuse(self, row: int, meaning: str) -> NoReturn:
        """Say what is wrong with a row's path, size or group."""
        query = f"select path, size, line from ({self._cells()}) limit 1 offset {row}"
        with open_database(None, ordered=True) as database:  # the other one is still being read
            path, size, line = database.execute(query).fetchone() or ("", "", "")
        reason = f"empty {printable(self.columns[meaning])}, expected the {meaning} of the image"
        if meaning == "size":
            reason = f"size {printable(size or 'missing')}, expected a number of bytes"
            if self._listing.size_column is None:
                reason += "; give --size_column '' if that is not a size in bytes"
        elif meaning == "path":
            try:
                if self._format == "jsonl":
                    if parse_object(line).get(self.columns["path"]) and not path:
                        reason = "text that is no UTF-8, such as half of a surrogate pair"
                elif self._format == "txt" and not re.search("[ \t]", line):
                    reason = "found no space; expected a path, a space and a label"
                if path:
                    clean_path(path.strip(" \t"))
            except ValueError as error:
                reason = str(error)
        raise self._wrong(row, reason)

    def _wrong(self, row: int, reason: str) -> SourceError:
        return SourceError(f"{self._place(row)}: {reason}; correct the listing")

    def _place(self, row: int) -> str:
        """A row as an editor shows it; in CSV there may be empty lines, and cells of many."""
        if self._format == "parquet":
            return f"{self.name}, row {row + 1}"
        line = row + 1
        if self._format in _DELIMITERS:
            with self.path.open(encoding="utf-8", errors="replace", newline="") as text:
                reader = csv.reader(text, delimiter=_DELIMITERS[self._format])
                next(islice(filter(None, reader), row + 1, None))
                line = reader.line_num
        return f"{self.name}, line {line}"

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Say in one line what the database cannot read, and where."""
        try:
            yield
        except duckdb.OutOfMemoryException:
            raise
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            # A stream's errors have only the text of those of the database.
            if isinstance(error, OSError) and error.errno is not None:
                raise unreadable(str(self.path), error) from error
            raise SourceError(self._explained(str(error))) from error

    def _explained(self, text: str) -> str:
        first = printable(text.partition("\n")[0])
        if self._format == "parquet":
            return (
                f"{self.name} is damaged or not a Parquet file: {first}; write it again, or rename "
                "it"
            )
        line = re.search(r"CSV Error on Line: (\d+)", text)
        place = f"{self.name}, line {line[1]}" if line else self.name
        if "not utf-8" in text:
            return f"{place}: not UTF-8; save the listing as UTF-8"
        if count := re.search(r"Columns: (\d+) Found: (\d+)", text):
            return (
                f"{place}: found {count[2]} columns, expected {count[1]} as in the header; a cell "
                "that contains the delimiter needs quotes"
            )
        if "unterminated quote" in text:
            return f"{place}: a quoted cell is not closed; expected cells as RFC 4180 has them"
        if "invalid state" in text:
            return f"{place}: lines end in LF and in CR LF; save it with one of them"
        return f"{place} cannot be read: {first}; correct the listing"


def _find_columns(
    place: str, names: Sequence[str], listing: ListingOptions, options: FolderOptions
) -> dict[str, str]:
    """The columns that the options name, or their defaults, by what they say."""

    def optional(name: str | None, usual: str) -> str:
        return name if name is not None else usual if usual in names else ""

    plain = listing.format == "txt"  # its columns have no names that could be others
    wanted = {
        "path": ("path_column", "path" if plain else listing.path_column),
        "label": ("label_column", "label" if plain else listing.label_column),
        "split": ("split_column", optional(listing.split_column, "split")),
        "size": ("size_column", optional(listing.size_column, "size")),
        "group": ("group_by", "" if options.group_by in ("path", "folder") else options.group_by),
    }
    own: Sequence[str] = listing.attribute_columns
    if own == ("all",) and "all" not in names:
        used = {name for meaning, (_, name) in wanted.items() if meaning != "group"}
        own = [name for name in names if name not in used]
    for name in own:
        attribute = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
        if _MARK + attribute in wanted or not attribute:
            raise SourceError(
                f"{place}: column {printable(name)} cannot be told from another one "
                "by letters and digits; name other --attribute_columns"
            )
        wanted[_MARK + attribute] = ("attribute_columns", name)
    for option, name in wanted.values():
        if name and (count := list(names).count(name)) != 1:
            found = f"{count} columns" if count else "no column"
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            raise SourceError(
                f"{place} has {found} {printable(name)}, expected one; it has "
                f"{', '.join(map(printable, names[:_SHOWN]))}{more}; name the right one with "
                f"--{option}"
            )
    columns = {meaning: name for meaning, (_, name) in wanted.items() if name}
    if "split" in columns and options.cut is not None:
        raise SourceError(
            f"{place} has a column {printable(columns['split'])}, and --fractions would cut other "
            "splits; expected one of the two; leave --fractions out, or rename the column"
        )
    return columns


def parse_object(line: str) -> dict[str, object]:
    """A line of JSON.

    Raises:
        ValueError: it is not one object.
    """
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({error}); expected one object a line") from error
    if not isinstance(value, dict):
        raise ValueError(f"found a JSON {type(value).__name__}, expected one object a line")  # noqa: TRY004
    return value


def _pointer(name: str) -> str:
    """A JSON pointer (RFC 6901) to a field."""
    return "/" + name.replace("~", "~0").replace("/", "~1")


def _identifier(name: str) -> str:
    """A column's name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def _text(cell: object) -> str:
    """A label as text: whole numbers without a point, nothing as empty."""
    if cell is None:
        return ""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)  # what a table program makes of whole numbers
    if isinstance(cell, str) or (isinstance(cell, int) and not isinstance(cell, bool)):
        return str(cell).strip()
    raise ValueError(
        f"found {printable(str(cell)[:40])} of type {type(cell).__name__}, expected text or a "
        "whole number"
    )


def _split(cell: str) -> str:
    text = cell.strip()
    if not text:
        raise ValueError("empty split, expected the name of one, such as train")
    try:
        return split_name(text)
    except ValueError as error:
        raise ValueError(f"split {printable(text)}: {error}") from error


def _look(raw: Path, paths: Sequence[str]) -> list[tuple[str, int, int]]:
    """Whether each is a file, how large, and its modification time in nanoseconds."""
    found = []
    for path in paths:
        try:
            status = os.stat(f"{raw}/{path}")  # noqa: PTH116 - a Path takes as long as the call
        except (FileNotFoundError, NotADirectoryError):
            found.append(("missing", 0, 0))
        except OSError as error:
            raise unreadable(path, error) from error
        else:
            kind = "image" if stat.S_ISREG(status.st_mode) else "ignored"
            found.append((kind, status.st_size, status.st_mtime_ns))
    return found


def _placed(listed: pa.Table, top: str) -> pa.Table:
    """With the container that each image is."""
    keys = listed["key"]
    joined = pc.binary_join_element_wise(top, keys, "/") if top else keys
    return _with(listed, container=joined, offset=0)


def _with(table: pa.Table, **columns: Any) -> pa.Table:
    """With more columns; a value stands in every row."""
    for name, value in columns.items():
        is_column = isinstance(value, (pa.Array, pa.ChunkedArray))
        table = table.append_column(name, value if is_column else pa.repeat(value, len(table)))
    return table
