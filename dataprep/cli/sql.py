"""``dataprep sql``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from dataprep.api.review import comma_separated, sql
from dataprep.cli.options import own
from dataprep.cli.output import as_json, say
from dataprep.errors import UsageError
from dataprep.system.messages import printable

if TYPE_CHECKING:
    import pyarrow as pa

_NAMED: Final = re.compile("([A-Za-z0-9_]+)=(.+)", re.DOTALL)


@click.command(
    "sql",
    params=[
        click.Argument(["sets"], metavar="OUT|NAME=OUT...", nargs=-1, required=True),
        click.Argument(["query"], metavar="QUERY"),
        own("format", "How to print what is found.", "table", Literal["table", "csv", "json"]),
    ],
)
def sql_command(sets: tuple[str, ...], query: str, format: str) -> None:  # noqa: A002  # the option's
    """Ask a data set in SQL: its table of records, as the table records.

    dataprep sql OUT "select split, count(*) from records group by split". Several sets have names:
    dataprep sql a=OUT b=OUT2 "select count(*) from a join b using (split, key)"; ./a=b is a path.
    The SQL is DuckDB's. Only queries are taken, and nothing but these tables is read.
    """
    found = sql(_places(sets), query)
    for line in _PRINTED[format](found):  # one at a time: as text they may be many gigabytes
        say(line)


def _places(words: Sequence[str]) -> dict[str, str]:
    named = [_NAMED.fullmatch(word) for word in words]
    places = {found[1]: found[2] for found in named if found is not None}
    if not places and len(words) == 1:
        return {"records": words[0]}
    if len(places) < len(words):
        raise UsageError(
            "several data sets need a name each, before a query in quotes: "
            'dataprep sql a=OUT b=OUT2 "select …"'
        )
    return places


def _rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """As values of JSON."""
    for batch in table.to_batches():
        try:
            columns = [column.to_pylist() for column in batch.columns]
        except (OverflowError, ValueError) as error:  # Python's dates end there
            raise UsageError(
                "the answer has a date that is not of the years 1 to 9999; ask for it as a text: "
                "date::varchar"
            ) from error
        yield from (tuple(map(_plain, row)) for row in zip(*columns, strict=True))


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return value if isinstance(value, str | int | float | None) else str(value)


def _objects(table: pa.Table) -> Iterator[str]:
    """A list of them in JSON."""
    line, names = "[", table.column_names
    for number, row in enumerate(_rows(table)):
        yield line + "," * (number > 0)
        *lines, line = as_json(dict(zip(names, row, strict=True))).split("\n")
        yield from (f"  {each}" for each in lines)
        line = f"  {line}"
    yield from ("[]",) if line == "[" else (line, "]")


def _text(value: Any) -> str:
    """In a cell: what is not there is nothing, and a list is as in JSON."""
    if isinstance(value, list | dict | bool):
        return json.dumps(value, ensure_ascii=False, default=str)
    return "" if value is None else str(value)


def _cells(table: pa.Table) -> Iterator[list[str]]:
    return ([printable(_text(value)) for value in row] for row in _rows(table))


def _separated(table: pa.Table) -> Iterator[str]:
    rows = ([*map(_text, row)] for row in _rows(table))
    return comma_separated(chain([table.column_names], rows))


def _aligned(table: pa.Table) -> Iterator[str]:
    names = [printable(name) for name in table.column_names]
    widths = [*map(len, names)]
    for row in _cells(table):
        widths = [max(width, len(text)) for width, text in zip(widths, row, strict=True)]
    numbers = [
        str(type_).startswith(("int", "uint", "float", "double", "decimal"))
        for type_ in table.schema.types
    ]
    for row in chain((names, ["-" * width for width in widths]), _cells(table)):
        cells = zip(row, widths, numbers, strict=True)
        yield "  ".join(
            text.rjust(width) if right else text.ljust(width) for text, width, right in cells
        ).rstrip()


_PRINTED: Final = {"table": _aligned, "csv": _separated, "json": _objects}
