"""``dataprep sql``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import click

from dataprep.api.parameters import choice
from dataprep.api.review import comma_separated, sql
from dataprep.cli.output import say, show
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
        choice("format", ("table", "csv", "json"), "table", "How to print what is found."),
    ],
)
def sql_command(sets: tuple[str, ...], query: str, format: str) -> None:  # noqa: A002  # the option's
    """Ask a data set in SQL: its table of records, as the table records.

    dataprep sql OUT "select split, count(*) from records group by split". Several sets have names:
    dataprep sql a=OUT b=OUT2 "select count(*) from a join b using (split, key)"; ./a=b is a path.
    The SQL is DuckDB's. Only queries are taken, and nothing but these tables is read.
    """
    found = sql(_places(sets), query)
    if format == "json":
        names = found.column_names
        show([dict(zip(names, row, strict=True)) for row in _rows(found)], json=True)
    else:
        lines = ([*map(_text, row)] for row in (found.column_names, *_rows(found)))
        say(*(_aligned(found) if format == "table" else comma_separated(lines)))


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
        columns = (column.to_pylist() for column in batch.columns)
        yield from (tuple(map(_plain, row)) for row in zip(*columns, strict=True))


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, str | int | float | dict | None) else str(value)


def _text(value: Any) -> str:
    """In a cell: what is not there is nothing, and a list is as in JSON."""
    if isinstance(value, list | dict | bool):
        return json.dumps(value, ensure_ascii=False, default=str)
    return "" if value is None else str(value)


def _aligned(table: pa.Table) -> Iterator[str]:
    rows = [[printable(_text(value)) for value in row] for row in _rows(table)]
    names = [printable(name) for name in table.column_names]
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    numbers = [
        str(type_).startswith(("int", "uint", "float", "double", "decimal"))
        for type_ in table.schema.types
    ]
    for row in (names, ["-" * width for width in widths], *rows):
        cells = zip(row, widths, numbers, strict=True)
        yield "  ".join(
            text.rjust(width) if right else text.ljust(width) for text, width, right in cells
        ).rstrip()
