"""What is in a data set: ``dataprep inspect``, and ``dataprep sql`` for any question."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import fields
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from dataprep.api.review import comma_separated, sql
from dataprep.cli.options import flag, number, own
from dataprep.cli.output import PLACE, as_json, say, show
from dataprep.errors import DatasetError, UsageError
from dataprep.formats import DatasetInfo, Sink
from dataprep.formats.example import Example
from dataprep.plugins import load_sink
from dataprep.system.messages import printable
from dataprep.system.regular_files import require_regular
from dataprep.training.records import describe

if TYPE_CHECKING:
    import pyarrow as pa

_CAFFE = "data.mdb"  # what is in an LMDB directory
_JSON = (
    "Print the result as JSON: dataprep.Contents; of a shard, a list of dataprep.Example without "
    "images; of raw data, dataprep.Plan."
)
_SINK = "Format of a SHARD that has no manifest above it."
_LABELS = (
    "Print a table of the labels of OUT instead: of each, its images in every split, their share "
    "of the split in percent and, where there is an attribute patient or patient_id, its patients."
)


@click.command(
    "inspect",
    params=[
        click.Argument(["target"], metavar="OUT|SHARD|RAW", type=PLACE),
        number("records", "N", "Records of a shard to show.", 5, least=0),
        own("sink", _SINK, metavar="NAME"),
        flag("json", _JSON),
        own("labels", _LABELS, None, Literal["markdown", "csv"]),
    ],
)
def inspect_command(
    target: Path | str, records: int, sink: str | None, json: bool, labels: str | None
) -> None:
    """Show what is in a data set (OUT), in one of its shards, or in raw data (RAW).

    Of raw data: what it is taken for, and what would be made of it; nothing is written.
    """
    from dataprep.api.contents import inspect

    if isinstance(target, Path) and not target.exists():
        raise DatasetError(f"{target}: no such file or directory; name a data set or a shard")
    if labels is not None:
        from dataprep.api.review import label_table

        say(*label_table(target, labels))
        return
    if isinstance(target, str) or (target.is_dir() and not (target / _CAFFE).is_file()):
        show(inspect(target), json=json)
        return
    shard = target / _CAFFE if target.is_dir() else target
    examples = _first_examples(shard, sink, records)
    lines = (f"{at}: {describe(example)}" for at, example in enumerate(examples))
    show([_without_image(example) for example in examples], json=json, lines=lines)


def _first_examples(shard: Path, sink: str | None, count: int) -> list[Example]:
    from dataprep.formats.subprocess_reader import read_unverified

    listed = _listed(shard) if sink is None else (load_sink(sink), [shard], DatasetInfo())
    if listed is None:
        raise UsageError(f"{shard}: no manifest.json above says its format; give it with --sink")
    format_, paths, info = listed
    try:
        require_regular(shard)
    except OSError as error:
        raise DatasetError(f"{shard} cannot be read: {error.strerror}; name a shard") from error
    if shard.stat().st_size == 0:
        return []
    with closing(read_unverified(format_, paths, info)) as examples:
        return list(islice(examples, count))


def _listed(shard: Path) -> tuple[Sink, list[Path], DatasetInfo] | None:
    """The format, files and labels of a shard that the manifest above it names."""
    from dataprep.sealed.set import NAME, SealedSet

    out = next((parent for parent in shard.absolute().parents if (parent / NAME).exists()), None)
    if out is None:
        return None
    sealed = SealedSet.read(out)
    for entry in sealed.manifest.shards():
        paths = [out / file.path for file in entry.files]
        if any(path.samefile(shard) for path in paths if path.exists()):
            return sealed.sink, paths, sealed.info
    return None


def _without_image(example: Example) -> dict[str, Any]:
    shown = {field.name: getattr(example, field.name) for field in fields(example)}
    return {**shown, "encoded": None, "bytes": len(example.encoded)}


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
    for place, row in enumerate(_rows(table)):
        yield line + "," * (place > 0)
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
