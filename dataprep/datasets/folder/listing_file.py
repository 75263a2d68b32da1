"""The file that lists images, as a query for its cells: CSV, TSV, JSON lines, Parquet, plain lines.

The database reads it, in the order of its rows. All cells are text.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from glob import escape
from itertools import islice
from typing import Final

import duckdb
import pyarrow as pa

from dataprep.datasets.folder.options import FolderOptions, ListingOptions
from dataprep.errors import SourceError
from dataprep.index.database import open_database, quoted
from dataprep.system.messages import printable, unreadable

_DELIMITERS: Final = {"csv": ",", "tsv": "\t"}
_SHOWN: Final = 20  # columns in a message
_READ_LINES: Final = (  # no byte of a line but its end means anything
    "read_csv({file}, auto_detect=false, hive_partitioning=false, header=false, strict_mode=false, "
    "delim='\x01', quote='', escape='', columns={{'line': 'VARCHAR'}})"
)


class ListingFile:
    """A listing of any format.

    Args:
        listing: where it is and how it is read.
        options: what the user wants besides.

    Attributes:
        name: what messages call it.
        columns: names of its columns by what they say: path, label, split, size, group.
        has_json_labels: whether cells of labels are JSON.

    Raises:
        SourceError: it is unreadable, or its columns are not what the options say.
    """

    def __init__(self, listing: ListingOptions, options: FolderOptions) -> None:
        self.name = printable(listing.path.name)
        self._path = listing.path
        self._format = listing.format
        self._file = quoted(escape(str(listing.path)))
        self._types: dict[str, str] = {}
        try:
            self._names = self._column_names()
        except OSError as error:
            raise unreadable(str(listing.path), error) from error
        self.columns = _find_columns(self.name, self._names, listing, options)
        type_ = self._types.get(self.columns["label"], "VARCHAR")
        self.has_json_labels = self._format == "jsonl" or type_ != "VARCHAR"

    @property
    def head(self) -> int:
        """How many lines are before the first row."""
        return 1 if self._format in _DELIMITERS else 0

    def _column_names(self) -> list[str]:
        """The names in its header or, in JSON, of its first object."""
        form, path = self._format, self._path
        if form == "parquet":
            with path.open("rb"), open_database(None) as database, self.explaining():
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

    def cells(self) -> str:
        """A query for the cells of its columns, as text; labels that are none as JSON."""
        form = self._format
        if form == "parquet":
            source = self._parquet
            cells = {
                meaning: f"to_json({_identifier(name)})"
                if meaning == "label" and self.has_json_labels
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
        named = ", ".join(f'{cell} as "{meaning}"' for meaning, cell in cells.items())
        return f"select {named} from {source}"

    def place(self, row: int) -> str:
        """A row as an editor shows it; in CSV there may be empty lines, and cells of many."""
        if self._format == "parquet":
            return f"{self.name}, row {row + 1}"
        line = row + 1
        if self._format in _DELIMITERS:
            with self._path.open(encoding="utf-8", errors="replace", newline="") as text:
                reader = csv.reader(text, delimiter=_DELIMITERS[self._format])
                next(islice(filter(None, reader), row + 1, None))
                line = reader.line_num
        return f"{self.name}, line {line}"

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Say in one line what the database cannot read, and where."""
        try:
            yield
        except duckdb.OutOfMemoryException:
            raise
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            # A stream's errors have only the text of those of the database.
            if isinstance(error, OSError) and error.errno is not None:
                raise unreadable(str(self._path), error) from error
            raise SourceError(self._explained(str(error))) from error

    def _explained(self, text: str) -> str:
        first = printable(text.partition("\n")[0])
        if self._format == "parquet":
            return (
                f"{self.name} is damaged or not a Parquet file: {first}; write it again, or say "
                "with --listing_format what it is"
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
