"""Reads the files of a published layout as one list, whose rows the database joins."""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any, Final
from unicodedata import normalize

from dataprep.datasets.folder.layouts import (
    HELPERS,
    ITSELF,
    LAYOUTS,
    NUMBER,
    VARIABLE,
    Layout,
    Table,
)
from dataprep.datasets.lists import READ_LINES, ClassList, ListFile
from dataprep.errors import SourceError, UsageError
from dataprep.system.messages import counted, printable, unreadable
from dataprep.system.regular_files import open_regular, read_regular
from dataprep.tables.database import column_list, identifier, open_database, quoted

_FOLDERS: Final = ("", "annotations", "Anno", "Eval", "devkit")  # that lists are published in
_LONGEST: Final = 1 << 16  # bytes of a line that names columns
_FILE: Final = 1 << 40  # rows: those of a second file are behind them
# The cells of each line that says something, in the order of the file.
_LINES: Final = (
    "(select row_number() over () as row, {cut} as cells from "
    "(select trim(line, ' ' || chr(9)) as line from {lines}) where line <> '')"
)
_ELEMENTS: Final = (
    "(select row_number() over () as row, cells from "
    "(select unnest(${name}::varchar[][], max_depth := 1) as cells))"
)


def layouts_at(raw: Path, named: Sequence[Path] = ()) -> list[tuple[Layout, list[Path]]]:
    """The published layouts whose files are there, with these.

    Args:
        raw: a directory, for lists that nobody names.
        named: files of a layout's first table; then only these of it are read.
    """
    roots = [path.parent for path in named[:1]] or [raw]
    roots += [roots[0].parent] * (roots[0].name in _FOLDERS and bool(named))
    found = []
    for layout in LAYOUTS.values():
        first = layout.tables[0].splits
        if (named or not layout.by_name) and all(path.name in first for path in named):
            tables = [_there(table, roots) for table in layout.tables]
            tables[0] = [*named] or tables[0]
            if all(map(_fits, layout.tables, tables)):
                found.append((layout, [path for paths in tables for path in paths]))
    return found


def _there(table: Table, roots: Sequence[Path]) -> list[Path]:
    """The files of a table that are there, each in the first place that has it."""
    found: dict[str, Path] = {}
    for name, root, folder in product(table.splits, roots, _FOLDERS):
        if name not in found and (path := root / folder / name).is_file():
            found[name] = path
    return [*found.values()]


def _fits(table: Table, paths: Sequence[Path]) -> bool:
    said = (not table.first or re.fullmatch(table.first, _head(it, 1)[0]) for it in paths)
    return all(said) if paths else not table.needed


def folders_of_images(raw: Path, layout: Layout, paths: Sequence[Path]) -> list[str]:
    """The folders that are there and may have a layout's images, from the raw directory."""
    above = (each for path in paths for each in (path.parent, path.parent.parent))
    roots = dict.fromkeys((*above, raw))
    places = (root / inner / it for root in roots for inner in ("", "Img") for it in layout.images)
    below = (it.relative_to(raw) for it in places if it.is_relative_to(raw) and it.is_dir())
    return [*dict.fromkeys(it.as_posix() for it in below)]


class Published(ListFile):
    """The files of a layout, as a list.

    Attributes:
        classes: names of the columns that are classes, where they are.

    Raises:
        SourceError: a file cannot be read.
        UsageError: what reads ``.mat`` is not installed.
    """

    def __init__(self, layout: Layout, paths: Sequence[Path]) -> None:
        self.paths, self.path = tuple(paths), paths[0]
        self.name, self.form, self.bare = printable(layout.name), "published", False
        self.classes: tuple[str, ...] = ()
        self._values: dict[str, object] = {}  # what is in a `.mat`, by the names of parameters
        tables = [(table, *self._rows(table)) for table in layout.tables]
        joined, columns = _joined([(rows, has) for _, rows, has in tables if rows])
        said = {it: identifier(it) for it in columns if it not in HELPERS} | {**layout.says}
        if layout.splits and "split" in said:
            cases = (f"when '{cell}' then '{name}'" for cell, name in layout.splits.items())
            said["split"] = f"case split {' '.join(cases)} end"
        cells = [*said.values(), *(f"cells[{at}]" for at in range(2, len(self.classes) + 2))]
        if self.classes:
            cells[0] = f"case when len(cells) = {len(self.classes) + 1} then path end"
        self.columns = [*said, *self.classes]
        kept = ", ".join(f"{cell} as c{place}" for place, cell in enumerate(cells))
        number = "class" if "class" in columns else "null"
        self._query = f"(select row, {number} as class, {kept} from {joined})"
        self._classes = [it for it in tables if layout.classes in it[0].splits]
        self._files = ", ".join(printable(path.name) for path in paths)
        marks = [counted(len(self.classes), "class", "classes")] * bool(self.classes)
        self.described = f"{self.name}: {', '.join([*said, *marks])} from {self._files}"

    def cells(
        self, wanted: Mapping[str, str], *, as_json: Collection[str] = ()
    ) -> tuple[str, dict[str, object]]:
        """See `ListFile.cells`; nothing here is JSON."""
        del as_json
        named = ", ".join(f"{self._cell(it)} as {identifier(name)}" for name, it in wanted.items())
        query = f"select false as blank, {named} from (from {self._query} order by row)"
        return query, self._used(query)

    def wrong(self, row: int, reason: str) -> SourceError:
        """What is wrong with a row of the first table."""
        return SourceError(
            f"{self.name}, row {row + 1} of {printable(self.path.name)}: {printable(reason)}; "
            f"correct {self._files}"
        )

    def class_list(self) -> ClassList | None:
        """All classes in order, where the layout says them.

        Raises:
            SourceError: they cannot be read.
        """
        if not self._classes:
            return None
        ((_, rows, has),) = self._classes
        label = "label" if "label" in has else self._cell("label")
        number = "try_cast(class as bigint)" if "class" in has else "row"
        query = (
            f"select {label}, any_value({'name' if 'name' in has else label}) "
            f"from {rows if 'label' in has else self._query} where {label} <> '' "
            f"group by {label} order by min({number}), {label}"
        )
        with open_database(None, self.paths, ordered=True) as database, self.explaining():
            found = database.execute(query, self._used(query)).fetchall()
        forms = {normalize("NFC", form): it for it, _ in found for form in (it.strip("/"), it)}
        return ClassList(self.name, tuple(found), forms)

    def _cell(self, column: str) -> str:
        there = column in self.columns
        return f"c{self.columns.index(column)}" if there else "null::varchar"

    def _used(self, query: str) -> dict[str, object]:
        return {name: it for name, it in self._values.items() if f"${name}:" in query}

    def _rows(self, table: Table) -> tuple[str, list[str]]:
        """A query for what a table's files say, and its columns; nothing if none is there."""
        queries: list[str] = []
        columns = [*table.places, *["split"] * any(table.splits.values())]
        for path in self.paths:
            if path.name not in table.splits:
                continue
            if table.variables:
                name = f"mat{len(self._values)}"
                self._values[name] = [*_elements(path, table)]
                source = _ELEMENTS.format(name=name)
            else:
                form = "" if len(table.separator) == 1 else "_regex"
                cut = f"string_split{form}(line, '{table.separator}')"
                source = _LINES.format(cut=cut, lines=READ_LINES.format(file=quoted(path)))
            self.classes = _names(table, path) if table.named else self.classes
            cells = [f"trim(cells[{at}])" for at in range(1, len(table.places) + 1)]
            cells += [f"'{table.splits[path.name]}'"] * (len(columns) > len(cells))
            named = ", ".join(f"{cell} as {it}" for cell, it in zip(cells, columns, strict=True))
            first = len(queries) * _FILE - table.skip
            queries.append(
                f"select row + {first} as row, cells, {named} from {source} "
                f"where row > {table.skip}"
            )
        return (f"({' union all '.join(queries)})", columns) if queries else ("", [])


def _joined(tables: Sequence[tuple[str, list[str]]]) -> tuple[str, list[str]]:
    """The rows of the first table with what the others say, and all columns."""
    joined, columns = tables[0]
    for rows, has in tables[1:]:
        shared = [name for name in has if name in columns]
        joined += f" left join (select {column_list(has)} from {rows}) "
        joined += f"using ({column_list(shared)})"
        columns = [*columns, *(name for name in has if name not in columns)]
    return joined, columns


def _elements(path: Path, table: Table) -> Iterator[list[str]]:
    """What a table's columns say in each element of variables of a ``.mat``."""
    place = printable(path.name)
    try:
        import numpy as np
        from scipy.io import loadmat
        from scipy.io.matlab import MatReadError
    except ModuleNotFoundError as error:
        raise UsageError(f"{place} needs SciPy: pip install scipy") from error
    try:
        data = loadmat(BytesIO(read_regular(path)), simplify_cells=True)
        for name in table.variables:
            alone = [data[name]] if isinstance(data[name], (dict, str)) else data[name]
            for number, element in enumerate(np.ravel(np.asarray(alone, object)).tolist(), 1):
                signs: dict[str, Any] = {NUMBER: number, ITSELF: element, VARIABLE: name}
                places = table.places.values()
                found = [signs[it] if it in signs else element[it] for it in places]
                yield [str(it).removesuffix(".0") for it in found]  # MATLAB's numbers are doubles
    except OSError as error:
        raise unreadable(str(path), error) from error
    except (ValueError, TypeError, LookupError, NotImplementedError) as error:
        raise _odd(place, table, error) from error
    except (zlib.error, MatReadError) as error:
        raise _odd(place, table, error) from error


def _odd(place: str, table: Table, error: Exception) -> SourceError:
    return SourceError(
        f"{place} is not as it is published: {printable(' '.join(str(error).split()))}; expected "
        f"{', '.join(table.variables)} with {table.columns}; correct the file"
    )


def _head(path: Path, lines: int) -> list[str]:
    """The first lines of a file, stripped; empty text where there are none."""
    try:
        with open_regular(path) as file:
            found = [file.readline(_LONGEST) for _ in range(lines)]
    except OSError as error:
        raise unreadable(str(path), error) from error
    return [line.decode("utf-8-sig", "replace").strip() for line in found]


def _names(table: Table, path: Path) -> tuple[str, ...]:
    """The names of classes above the rows, where the columns before them may have names, too."""
    *_, names, cells = (re.split(table.separator, line) for line in _head(path, table.skip + 1))
    before = len(table.places) - (len(cells) - len(names))
    if before not in (0, len(table.places)):
        raise SourceError(
            f"{printable(path.name)}: {len(names)} names in line {table.skip}, {len(cells)} cells "
            "in the next one; expected a name for each; correct the list"
        )
    return tuple(names[before:])
