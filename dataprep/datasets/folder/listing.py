"""A file that lists images, as rows of the index: CSV, TSV, JSON lines, Parquet, plain lines.

The database reads it: cells are text, in the order of the file. What there are few of, labels and
splits, is looked at once a distinct cell; the rest is SQL, which says what is wrong with a row.
"""

from __future__ import annotations

import csv
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataprep.datasets.base import Attribute, refuse_reserved
from dataprep.datasets.folder.classes import ClassList
from dataprep.datasets.folder.options import LISTING_FORMATS, FolderOptions
from dataprep.datasets.splits import split_name
from dataprep.errors import SourceError
from dataprep.system.messages import printable, some_of, unreadable
from dataprep.system.regular_files import open_regular
from dataprep.tables.arrow import ATTRIBUTE, MOST_ATTRIBUTES
from dataprep.tables.database import identifier, open_database, quoted

_ROWS: Final = 1 << 17  # rows at once
_CELLS: Final = 1 << 17  # distinct cells that are remembered
_LONGEST_LINE: Final = 1 << 21  # of a header; the database takes lines of 2 MB
_LOOKS: Final = 16  # files looked up at once: on a network each takes a while
_SHOWN: Final = 20  # columns in a message
_DELIMITERS: Final = {"csv": ",", "tsv": "\t"}
_LINE_ENDS: Final = "lines end in different ways, or in CR alone; expected LF or CR LF throughout"
_MARK: Final = "attribute "  # before the name of an attribute, where columns have their meanings
_PATH: Final = identifier("path")
_LABEL: Final = identifier("label")
_READ_LINES: Final = (  # no byte of a line but its end means anything
    "(select rtrim(coalesce(line, ''), chr(13)) as line from read_csv({file}, auto_detect=false, "
    "hive_partitioning=false, header=false, strict_mode=false, delim='\x01', quote='', escape='', "
    "columns={{'line': 'VARCHAR'}}))"
)

# As `clean_path` does; null where that refuses a path.
_KEY: Final = r"""case
when not regexp_matches(path, '(^|/)\.{0,2}(/|$)|\x00') then path
when regexp_matches(path, '(^|/)\.\.(/|$)|\x00') then null
else nullif(array_to_string(
    list_filter(string_split(path, '/'), lambda part: part not in ('', '.')), '/'), '')
end"""
_BELOW: Final = """case
when starts_with(path, $top) then substr(path, length($top) + 1)
when starts_with(path, $resolved) then substr(path, length($resolved) + 1)
else path end"""
_FOLDER: Final = "coalesce(nullif(regexp_extract(key, '^(.*)/', 1), ''), '.')"
_GROUP: Final = "nullif(trim(\"group\", ' ' || chr(9)), '')"
_SIZE: Final = r"""case when regexp_full_match(size, '[0-9]{1,18}(\.0)?')
then split_part(size, '.', 1)::bigint end"""
# Of what no row may lack.
_NEEDED: Final = {
    "key": "no usable path; expected one below the raw directory, without .. in it, and a label",
    "size": "no size in bytes; expected a whole number; rename the column if it is no size",
    "group": "empty group; expected the image's in the column that --group_by names",
}
_QUERY: Final = """
with cells as not materialized ({cells}),
keyed as not materialized (
    select *, {key} as key, {size} as bytes
    from (select * replace ({below} as path)
    from (select * replace (trim(path, ' ' || chr(9)) as path) from cells))),
grouped as not materialized (select * replace ({group} as "group") from keyed)
select blank, key, label, bytes as size, "group", {split} as split{more} from grouped
"""


class Listing:
    """A list of images.

    Args:
        known: the only classes there may be; None if any may.

    Attributes:
        path: where it is.
        name: what messages call it.
        columns: names of its columns by what they say: path, label, split, size, group.

    Raises:
        SourceError: it is unreadable, or its columns are not what the options say.
    """

    def __init__(self, path: Path, options: FolderOptions, known: ClassList | None) -> None:
        self.path = path
        self.name = printable(path.name)
        self._options = options
        self._known = known
        self._labels = lru_cache(_CELLS)(self._labels_of)
        self._format = LISTING_FORMATS[path.suffix.lower()]
        self._file = quoted(path)
        try:
            self._names = self._column_names()
        except UnicodeDecodeError as error:
            raise SourceError(f"{self.name} is not UTF-8; save it as UTF-8") from error
        except OSError as error:
            raise unreadable(str(path), error) from error
        except (ValueError, csv.Error) as error:
            raise SourceError(f"{self.name}, line 1: {error}; correct the listing") from error
        self.columns = _find_columns(self.name, self._names, options, plain=self._format == "txt")
        self._own = _attribute_columns(self.name, self._names, self.columns, options)

    def attributes(self) -> tuple[Attribute, ...]:
        """What its columns say of each image: whole numbers, where all cells are, or text.

        Raises:
            SourceError: it cannot be read, or a column has the name of one of dataprep's own.
        """
        if not self._own:
            return ()
        whole = ", ".join(
            f"coalesce(bool_and(regexp_full_match(trim({cell}), '(-?[0-9]{{1,18}})?'))"
            f" and bool_or(trim({cell}) <> ''), false)"
            for cell in map(_marked, self._own)
        )
        with open_database(None, [self.path]) as database, self._explaining():
            query, values = self._cells()
            row = database.execute(f"select {whole} from ({query}) where not blank", values)
            kinds = row.fetchone() or ()
        found = tuple(
            Attribute(name, "int" if kind else "text")
            for name, kind in zip(self._own, kinds, strict=True)
        )
        refuse_reserved(found, f"{self.name}: --attribute_columns")
        return found

    def tables(
        self, raw: Path, top: str, attributes: Sequence[Attribute], *, packed: bool
    ) -> Iterator[pa.Table]:
        """Its rows as rows of the index.

        Args:
            packed: whether the images are in archives: then the rows say what is listed.
                Otherwise they are images, or files that are missing.

        Raises:
            SourceError: a row is wrong, or a file cannot be looked at.
        """
        own = "".join(
            f", nullif(trim({_marked(attribute.name)}), '')"
            f"{'::bigint' if attribute.kind == 'int' else ''} as {_marked(attribute.name)}"
            for attribute in attributes
        )
        first = 0
        empty = True
        with open_database(None, [self.path], ordered=True) as database, self._explaining():
            query, values = self._query(own, raw / top)
            for batch in database.sql(query, params=values).to_arrow_reader(_ROWS):
                rows = np.arange(first, first + len(batch))
                first += len(batch)
                cells = pa.table(batch).append_column("row", pa.array(rows))
                cells = cells.filter(pc.invert(cells["blank"]))
                empty = empty and not len(cells)
                listed = self._listed(cells, attributes)
                if packed:
                    yield _with(listed.drop("size"), status="listed", container=self.name)
                    continue
                keys = listed["key"]
                place = pc.binary_join_element_wise(top, keys, "/") if top else keys
                listed = _with(listed, container=place, offset=0, reason=self.name)
                if "size" in self.columns:
                    yield _with(listed, status="image", modified=0)
                else:
                    yield from self._look_up(raw, listed)
        if empty:
            raise SourceError(f"{self.name} lists no images; expected one image a line")

    def _column_names(self) -> list[str]:
        """The names in its header, a line, or, in JSON, of its first object."""
        if self._format == "parquet":
            with (
                open_regular(self.path),
                open_database(None, [self.path]) as database,
                self._explaining(),
            ):
                found = database.execute(f"describe select * from {self._parquet}").fetchall()
            return [name for name, *_ in found]
        with open_regular(self.path) as file:
            line = file.readline(_LONGEST_LINE).decode("utf-8-sig")
        if "\0" in line:
            raise ValueError("UTF-16 or no text; save it as UTF-8")
        if self._format == "txt":
            return ["path", "label"]
        if self._format == "jsonl":
            value = json.loads(line)
            if not isinstance(value, dict):
                raise ValueError("expected one JSON object a line")
            return list(value)
        if not line.strip():
            raise ValueError("found nothing, expected a header and then one image a line")
        if "\r" in line.rstrip("\r\n"):
            raise ValueError(_LINE_ENDS)
        delimiter = _DELIMITERS[self._format]
        names = next(csv.reader([line], delimiter=delimiter))
        others = ";,\t|".replace(delimiter, "")
        if len(names) == 1 and (other := re.search(f"[{others}]", names[0])):
            raise ValueError(f"cells are separated by {other[0]!r}, expected {delimiter!r}")
        return names

    @property
    def _parquet(self) -> str:
        return f"read_parquet({self._file}, binary_as_string=true, hive_partitioning=false)"

    @property
    def _has_json_labels(self) -> bool:
        return self._format in ("jsonl", "parquet")

    def _cells(self) -> tuple[str, dict[str, object]]:
        """A query for the cells of its columns, as text; labels of JSON and Parquet as JSON.

        And its parameters.
        """
        cells = dict.fromkeys(map(identifier, ("size", "group", "split")), "null::varchar")
        blank = "false"
        values: dict[str, object] = {}
        wanted = [(identifier(meaning), name) for meaning, name in self.columns.items()]
        wanted += [(_marked(attribute), name) for attribute, name in self._own.items()]
        # Their own names may be any text, and the same twice.
        places = [f"c{place}" for place in range(len(self._names))]
        if self._format == "parquet":
            source = f"{self._parquet} as given({', '.join(places)})"
            for meaning, name in wanted:
                cell = places[self._names.index(name)]
                cells[meaning] = f"to_json({cell})" if meaning == _LABEL else f"{cell}::varchar"
        elif self._format in _DELIMITERS:
            columns = ", ".join(f"'{place}': 'VARCHAR'" for place in places)
            source = (
                f"read_csv({self._file}, auto_detect=false, hive_partitioning=false, header=true, "
                f"delim='{_DELIMITERS[self._format]}', quote='\"', escape='\"', "
                f"columns={{{columns}}})"
            )
            cells |= {meaning: places[self._names.index(name)] for meaning, name in wanted}
        else:
            source = _READ_LINES.format(file=self._file)
            blank = "trim(line, ' ' || chr(9)) = ''"
            if self._format == "jsonl":
                source = f"(select line, try_cast(line as json) as object from {source})"
                for number, (meaning, name) in enumerate(wanted):
                    extract = "json_extract" if meaning == _LABEL else "json_extract_string"
                    cells[meaning] = f"{extract}(object, $field{number})"
                    values[f"field{number}"] = _pointer(name)
            else:
                # A path may have spaces, and so has that of Caffe's convert_imageset.
                parts = "regexp_extract(line, '^(.*)[ \t]([^ \t]*)$', {})"
                cells |= {_PATH: parts.format(1), _LABEL: parts.format(2)}
        named = ", ".join(f"{cell} as {meaning}" for meaning, cell in cells.items())
        return f"select {blank} as blank, {named} from {source}", values

    def _query(self, more: str, top: Path) -> tuple[str, dict[str, object]]:
        """The rows as the rules have them, null where one is broken, and more columns.

        And the parameters.
        """
        options = self._options
        cells, values = self._cells()
        for name, place in (("top", top), ("resolved", top.resolve())):
            values[name] = f"{place}/".encode(errors="ignore").decode()
        if "group" in self.columns:
            group = _GROUP
        elif options.group_by == "folder":
            group = _FOLDER
        else:  # the list says who is in which split: it may say so twice of one image
            group = "key" if "split" in self.columns else "null::varchar"
        if options.cut is not None:
            split, cut = options.cut.split_sql('coalesce("group", key)')
            values |= cut
        elif "split" in self.columns:
            split = "split"
        else:
            split, values["split"] = "$split", options.split_name
        return _QUERY.format(
            cells=cells, key=_KEY, below=_BELOW, group=group, size=_SIZE, split=split, more=more
        ), values

    def _listed(self, cells: pa.Table, attributes: Sequence[Attribute]) -> pa.Table:
        """What rows say: key, split, labels, group, size, attributes."""
        for name, expected in _NEEDED.items():
            if cells[name].null_count and (name == "key" or name in self.columns):
                row = cells["row"].filter(cells[name].is_null())[0].as_py()
                raise self._wrong(row, expected)
        split = cells["split"]
        if "split" in self.columns:
            split = self._by_cell(cells, "split", split_name, pa.string())
        return pa.table(
            {
                "key": cells["key"],
                "split": split,
                "labels": self._by_cell(cells, "label", self._labels, pa.list_(pa.string())),
                "group": cells["group"],
                "size": cells["size"],
                **{attribute.name: cells[f"{_MARK}{attribute.name}"] for attribute in attributes},
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
                raise self._wrong(row.as_py(), f"{name} {cell or 'empty'}: {error}") from error
        return pa.array(values, kind).take(encoded.indices)

    def _labels_of(self, cell: str) -> tuple[str, ...]:
        """The identifiers of the classes in a cell, sorted."""
        separator, none = self._options.label_separator, self._options.no_label
        value = json.loads(cell) if cell and self._has_json_labels else cell
        if isinstance(value, list) and not separator:
            raise ValueError(
                "a list of labels, expected one label; with --label_separator, whatever it is, "
                "there may be several"
            )
        if not isinstance(value, list):
            text = _text(value)
            value = text.split(separator) if separator and text else [] if separator else [text]
        labels = [_text(label) for label in value]
        if none and labels == [none]:
            return ()
        if not all(labels):
            advice = "" if separator else "; --label_separator allows images without labels"
            raise ValueError(f"empty label, expected a class{advice}")
        if none in labels:
            raise ValueError(f"{none}, which means none, beside others")
        if self._known is not None:
            labels = [label.strip("/") for label in labels]  # as the list of classes has them
            if unknown := [label for label in labels if label not in self._known.indices]:
                raise ValueError(
                    f"unknown label {some_of(unknown)}, expected the classes of {self._known.place}"
                )
        if len(set(labels)) < len(labels):
            raise ValueError("a label twice in one cell, expected names of classes, each once")
        return tuple(sorted(labels))

    def _look_up(self, raw: Path, listed: pa.Table) -> Iterator[pa.Table]:
        """The files that are there, and those that are not."""
        paths = listed["container"].to_pylist()
        step = max(1, -(-len(paths) // _LOOKS))
        pieces = [paths[at : at + step] for at in range(0, len(paths), step)]
        with ThreadPoolExecutor(_LOOKS) as pool:
            found = list(chain.from_iterable(pool.map(lambda some: _look(raw, some), pieces)))
        size = pa.array([each and each[0] for each in found], pa.int64())
        mtime = pa.array([each and each[1] for each in found], pa.int64())
        there = size.is_valid()
        images = _with(listed.drop("size"), status="image", size=size, container_mtime=mtime)
        images = images.filter(there)
        yield _with(images, modified=pc.divide(images["container_mtime"], 1_000_000_000))
        missing = listed.select(["key", "split"]).filter(pc.invert(there))
        yield _with(missing, status="missing", container=self.name)

    def _wrong(self, row: int, reason: str) -> SourceError:
        """What is wrong with a row, named as an editor shows it: in CSV, cells may have lines."""
        if self._format == "parquet":
            place = f"row {row + 1}"
        elif self._format in _DELIMITERS:
            with self.path.open(encoding="utf-8", errors="replace", newline="") as text:
                reader = csv.reader(text, delimiter=_DELIMITERS[self._format])
                next(islice(filter(None, reader), row + 1, None))
                place = f"line {reader.line_num}"
        else:
            place = f"line {row + 1}"
        return SourceError(f"{self.name}, {place}: {printable(reason)}; correct the listing")

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Say in one line what the database cannot read, and where."""
        try:
            yield
        except duckdb.OutOfMemoryException:
            raise
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            first, *more = filter(None, str(error).splitlines())
            line = re.search(r"on Line: (\d+)", first)
            place = f"{self.name}, line {line[1]}" if line else self.name
            reason = "; ".join(more[:2]) if line else first
            reason = _LINE_ENDS if "state machine" in first else reason
            raise SourceError(f"{place}: {printable(reason)}; correct the listing") from error


def _find_columns(
    place: str, names: list[str], options: FolderOptions, *, plain: bool
) -> dict[str, str]:
    """The columns that the options name, or their defaults, by what they say."""
    split = options.split_column
    columns = {  # the columns of plain lines have no names that could be others
        "path": "path" if plain else options.path_column,
        "label": "label" if plain else options.label_column,
        "split": split if split is not None else "split" if "split" in names else "",
        "size": "size" if "size" in names else "",
        "group": "" if options.group_by in ("path", "folder") else options.group_by,
    }
    columns = {meaning: name for meaning, name in columns.items() if name}
    for meaning, name in columns.items():
        option = "group_by" if meaning == "group" else f"{meaning}_column"
        _require_one(place, names, name, option)
    if "split" in columns and options.cut is not None:
        raise SourceError(
            f"{place} has a column {printable(columns['split'])}, and --fractions would cut other "
            "splits; expected one of the two; leave --fractions out, or rename the column"
        )
    return columns


def _attribute_columns(
    place: str, names: list[str], used: Mapping[str, str], options: FolderOptions
) -> dict[str, str]:
    """The columns that are kept, by attribute: what is no letter or digit becomes ``_``."""
    own: Sequence[str] = options.attribute_columns
    if own == ("all",) and "all" not in names:
        others = {name for meaning, name in used.items() if meaning != "group"}
        own = [name for name in names if name and name not in others]
    columns = {re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_"): name for name in own}
    # The database makes no difference between A and a.
    told_apart = len({name.lower() for name in columns}) == len(own)
    if not (told_apart and len(own) <= MOST_ATTRIBUTES and all(map(ATTRIBUTE.fullmatch, columns))):
        raise SourceError(
            f"{place}: --attribute_columns {some_of(own)} cannot be attributes; expected "
            f"{MOST_ATTRIBUTES:,} at most, with 255 letters and digits at most that tell them "
            "apart; name fewer, or rename them"
        )
    for name in own:
        _require_one(place, names, name, "attribute_columns")
    return columns


def _require_one(place: str, names: list[str], name: str, option: str) -> None:
    if (count := names.count(name)) != 1:
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        raise SourceError(
            f"{place} has {count or 'no'} columns {printable(name)}, expected one; it has "
            f"{', '.join(map(printable, names[:_SHOWN]))}{more}; name the right one with --{option}"
        )


def _marked(attribute: str) -> str:
    """An attribute's column in SQL, where columns are called by their meanings, too."""
    return identifier(f"{_MARK}{attribute}")


def _pointer(name: str) -> str:
    """A JSON pointer (RFC 6901) to a field."""
    return "/" + name.replace("~", "~0").replace("/", "~1")


def _text(cell: object) -> str:
    """A label as text: whole numbers without a point, nothing as empty."""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)  # what a table program makes of whole numbers
    if cell is not None and not isinstance(cell, str | int):
        raise ValueError(f"a {type(cell).__name__}, expected text or a whole number")
    return "" if cell is None else str(cell).strip()


def _look(raw: Path, paths: Sequence[str]) -> list[tuple[int, int] | None]:
    """The size and the modification time in nanoseconds of each; None where there is no file."""
    found: list[tuple[int, int] | None] = []
    for path in paths:
        try:
            status = os.stat(f"{raw}/{path}")  # noqa: PTH116 - a Path takes as long as the call
        except (FileNotFoundError, NotADirectoryError):
            found.append(None)
        except OSError as error:
            raise unreadable(path, error) from error
        else:
            is_file = stat.S_ISREG(status.st_mode)
            found.append((status.st_size, status.st_mtime_ns) if is_file else None)
    return found


def _with(table: pa.Table, **columns: Any) -> pa.Table:
    """With more columns; a value stands in every row."""
    for name, value in columns.items():
        is_column = isinstance(value, (pa.Array, pa.ChunkedArray))
        table = table.append_column(name, value if is_column else pa.repeat(value, len(table)))
    return table
