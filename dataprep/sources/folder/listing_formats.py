"""One line of a listing as values: CSV, TSV, JSON lines, or ``path label``."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

Values = tuple[object, ...]
"""The cells of the wanted columns; None where a JSON object lacks one."""

LineParser = Callable[[str], Values]
"""Raises ValueError, worded for the user, if a line is not what its format demands."""

WITH_HEADER: Final = frozenset({"csv", "tsv"})
"""The formats whose first line names the columns."""

_DELIMITERS: Final = {"csv": ",", "tsv": "\t"}


def column_names(form: str, first_line: str) -> list[str]:
    """The columns of a listing, from its first line.

    Of JSON lines they are those of the first object; lines ``path label`` have just these two.

    Raises:
        ValueError: the line is not of that format.
    """
    if form in _DELIMITERS:
        return _cells(first_line, _DELIMITERS[form])
    return list(_object(first_line)) if form == "jsonl" else ["path", "label"]


def line_parser(form: str, columns: Sequence[str], wanted: Sequence[str]) -> LineParser:
    """How to get the cells of the wanted columns out of a line.

    Args:
        form: ``csv``, ``tsv``, ``jsonl`` or ``txt``.
        columns: all columns, in order.
        wanted: those wanted, each one of `columns`.
    """
    if form == "jsonl":
        return partial(_parse_object, wanted=tuple(wanted))
    places = tuple(columns.index(name) for name in wanted)
    if form == "txt":
        return partial(_parse_pair, places=places)
    return partial(_parse_cells, delimiter=_DELIMITERS[form], count=len(columns), places=places)


def _parse_cells(line: str, delimiter: str, count: int, places: Sequence[int]) -> Values:
    cells = _cells(line, delimiter)
    if len(cells) != count:
        raise ValueError(
            f"found {len(cells)} columns, expected {count} as in the header; a cell that contains "
            "the delimiter needs quotes"
        )
    return tuple(cells[place] for place in places)


def _cells(line: str, delimiter: str) -> list[str]:
    if '"' not in line and "\r" not in line:  # in a third of the time
        return line.split(delimiter)
    try:
        # Line by line, so that a quote that is never closed cannot swallow the lines after it.
        return next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error as error:
        if "unexpected end of data" in str(error):
            raise ValueError(
                "a quoted cell is not closed on its line; expected one line a row: a cell cannot "
                "contain a line break"
            ) from error
        raise ValueError(f"{error}; expected cells as RFC 4180 has them") from error


def _parse_object(line: str, wanted: Sequence[str]) -> Values:
    fields = _object(line)
    return tuple(fields.get(name) for name in wanted)


def _object(line: str) -> dict[str, object]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({error}); expected one object a line") from error
    if not isinstance(value, dict):
        raise ValueError(f"found a JSON {type(value).__name__}, expected one object a line")  # noqa: TRY004
    return value


def _parse_pair(line: str, places: Sequence[int]) -> Values:
    # The last space or tab: paths may have spaces, and so has Caffe's convert_imageset.
    at = max(line.rfind(" "), line.rfind("\t"))
    if at < 0:
        raise ValueError("found no space; expected a path, a space and a label")
    pair = line[:at].rstrip(" \t"), line[at + 1 :]
    return tuple(pair[place] for place in places)
