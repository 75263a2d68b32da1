"""A list of images as rows of the index.

Cells are text, in the order of the file. What there are few of, labels and splits, is looked at
once a distinct cell; the rest is SQL, which has null where a row breaks a rule. That row is then
read once more, alone, to say what is wrong with it.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataprep.archives.relative_paths import clean_path
from dataprep.datasets.folder.class_list import ClassList
from dataprep.datasets.folder.listing_file import ListingFile, parse_object
from dataprep.datasets.folder.options import FolderOptions, ListingOptions
from dataprep.datasets.split_names import split_name
from dataprep.errors import SourceError
from dataprep.index.database import open_database, quoted
from dataprep.system.messages import printable, some_of, unreadable

_ROWS: Final = 1 << 17  # rows at once
_CELLS: Final = 1 << 17  # distinct cells that are remembered
_LOOKS: Final = 16  # files looked up at once: on a network each takes a while

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
select blank, key, label, {size} as size, "group", {split} as split from grouped
"""


class Listing:
    """A list of images.

    Args:
        listing: where it is and how it is read.
        options: what the user wants besides.
        known: the only classes there may be; None if any may.

    Attributes:
        file: the listing.

    Raises:
        SourceError: it is unreadable, or its columns are not what the options say.
    """

    def __init__(
        self, listing: ListingOptions, options: FolderOptions, known: ClassList | None
    ) -> None:
        self.file = ListingFile(listing, options)
        self._listing = listing
        self._options = options
        self._known = known
        self._labels = lru_cache(_CELLS)(self._labels_of)

    def tables(self, raw: Path, top: str, *, packed: bool) -> Iterator[pa.Table]:
        """Its rows as rows of the index.

        Args:
            raw: the raw directory.
            top: where paths start, relative to that.
            packed: whether the images are in archives: then the rows say what is listed.
                Otherwise they are images, or files that are missing or no files.

        Raises:
            SourceError: a row is wrong, or a file cannot be looked at.
        """
        first = 0
        empty = True
        with open_database(None, ordered=True) as database, self.file.explaining():
            for batch in database.sql(self._query()).to_arrow_reader(_ROWS):
                rows = np.arange(first, first + len(batch))
                first += len(batch)
                cells = pa.table(batch).append_column("row", pa.array(rows))
                cells = cells.filter(pc.invert(cells["blank"]))
                empty = empty and not len(cells)
                listed = self._listed(cells)
                if packed:
                    yield _with(listed.drop("size"), status="listed", container=self.file.name)
                elif "size" in self.file.columns:
                    yield _with(_placed(listed, top), status="image", modified=0)
                else:
                    yield from self._look_up(raw, _placed(listed, top))
        if empty:
            raise SourceError(f"{self.file.name} lists no images; expected one image a line")

    def _query(self) -> str:
        """The rows as the rules have them: null where one is broken."""
        options = self._options
        if "group" in self.file.columns:
            group = _GROUP
        elif options.group_by == "folder":
            group = _FOLDER
        else:  # the list says who is in which split: it may say so twice of one image
            group = "key" if "split" in self.file.columns else "null::varchar"
        split = "split" if "split" in self.file.columns else quoted(options.split_name)
        if options.cut is not None:
            split = options.cut.split_sql('coalesce("group", key)')
        return _QUERY.format(
            cells=self.file.cells(), key=_KEY, group=group, size=_SIZE, split=split
        )

    def _listed(self, cells: pa.Table) -> pa.Table:
        """What rows say: key, split, labels, group, size, line."""
        for name, meaning in (("key", "path"), ("size", "size"), ("group", "group")):
            if meaning in self.file.columns and cells[name].null_count:
                row = cells.filter(pc.is_null(cells[name]))["row"][0]
                self._refuse(row.as_py(), meaning)
        split = cells["split"]
        if "split" in self.file.columns:
            split = self._by_cell(cells, "split", _split, pa.string())
        return pa.table(
            {
                "key": cells["key"],
                "split": split,
                "labels": self._by_cell(cells, "label", self._labels, pa.list_(pa.string())),
                "group": cells["group"],
                "size": cells["size"],
                "line": pc.add(cells["row"], self.file.head + 1),
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
        separator = self._listing.label_separator
        value = json.loads(cell) if cell and self.file.has_json_labels else cell
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
        if not all(labels):
            advice = "" if separator else "; --label_separator allows images without labels"
            raise ValueError(f"empty label, expected a class{advice}")
        names = labels
        if self._known is not None:
            known = self._known
            labels = [label.strip("/") for label in labels]  # as the list of classes has them
            if unknown := [label for label in labels if label not in known.indices]:
                raise ValueError(
                    f"unknown label {some_of(unknown)}, expected the classes of {known.place}"
                    f"{known.advice(unknown)}"
                )
            names = [known.classes[known.indices[label]][0] for label in labels]
        if len(set(names)) < len(names):
            _refuse_twice(labels, names)
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
        others = _with(others.select(["status", "key", "split"]), container=self.file.name)
        yield others.filter(pc.equal(others["status"], "missing"))
        yield _with(
            others.filter(pc.equal(others["status"], "ignored")), reason="not a regular file"
        )

    def _refuse(self, row: int, meaning: str) -> NoReturn:
        """Say what is wrong with a row's path, size or group."""
        query = f"select path, size, line from ({self.file.cells()}) limit 1 offset {row}"
        with open_database(None, ordered=True) as database:  # the other one is still being read
            path, size, line = database.execute(query).fetchone() or ("", "", "")
        reason = (
            f"empty {printable(self.file.columns[meaning])}, expected the {meaning} of the image"
        )
        if meaning == "size":
            advice = "; give --size_column '' if that is not a size in bytes"
            reason = (
                f"size {printable(size or 'missing')}, expected a number of bytes"
                f"{advice if self._listing.size_column is None else ''}"
            )
        elif meaning == "path":
            try:
                if self._listing.format == "jsonl":
                    if parse_object(line).get(self.file.columns["path"]) and not path:
                        reason = "text that is no UTF-8, such as half of a surrogate pair"
                elif self._listing.format == "txt" and not re.search("[ \t]", line):
                    reason = "found no space; expected a path, a space and a label"
                if path:
                    clean_path(path.strip(" \t"))
            except ValueError as error:
                reason = str(error)
        raise self._wrong(row, reason)

    def _wrong(self, row: int, reason: str) -> SourceError:
        return SourceError(f"{self.file.place(row)}: {reason}; correct the listing")


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


def _refuse_twice(labels: Sequence[str], names: Sequence[str]) -> NoReturn:
    """Refuse a class twice, as in a cell that has a zero or a one for each class there is."""
    repeated = [label for label, name in zip(labels, names, strict=True) if names.count(name) > 1]
    expected = "each class once"
    if set(labels) <= {"0", "1"}:
        expected = "names of classes, not zeros and ones"
    raise ValueError(f"label {printable(repeated[0])} twice in one cell; expected {expected}")


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
    return _with(listed.drop("line"), container=joined, offset=0)


def _with(table: pa.Table, **columns: Any) -> pa.Table:
    """With more columns; a value stands in every row."""
    for name, value in columns.items():
        is_column = isinstance(value, (pa.Array, pa.ChunkedArray))
        table = table.append_column(name, value if is_column else pa.repeat(value, len(table)))
    return table
