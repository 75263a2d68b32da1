"""SQL that people write about tables of records: a condition that chooses rows, or a question.

Nothing is believed of what they write: a condition is parsed as one expression and never pasted
into a query, a question is one that selects, and `open_database` reaches nothing but the tables.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from dataprep.errors import UsageError
from dataprep.system.messages import counted, printable
from dataprep.tables.database import Database, column_list, identifier, open_database, tables
from dataprep.tables.records import RecordsTable
from dataprep_schemas.tables import RECORDS

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from dataprep_schemas.manifest import RecordsFile

Sets = Mapping[str, tuple[Path, "RecordsFile"]]
"""By the name of its table: the directory of a data set, and what its manifest says of the file."""

_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]{0,62}")
_ASKED: Final = '"the question"'  # no table can be called so
_ROW: Final = "file_row_number"
# Halves of MD5, which no version of the database or of dataprep makes differently.
_HASH: Final = "md5_number_lower(concat(split, chr(0), key)) as hash"
_STRATUM: Final = "md5_number_lower(coalesce(labels::varchar, '')) as stratum"
_NO_COLUMN: Final = re.compile('(?:Referenced|does not have a) column (?:named )?"([^"]*)"')


def ask(sets: Sets, query: str) -> pa.Table:
    """What a query finds in tables of records.

    Raises:
        UsageError: it is not one query that only selects, or it is wrong; or a name cannot be one.
        DatasetError: a table is damaged.
    """
    with _opened(sets) as database, explained(lambda: _columns(sets)):
        import duckdb

        statements = database.extract_statements(query)
        if [one.type for one in statements] != [duckdb.StatementType.SELECT]:
            raise UsageError(
                f"{printable(query[:100])!r} is {counted(len(statements), 'statement')}, expected "
                "one that selects: select split, count(*) from records group by split"
            )
        # A query at the top may hold a COPY; that of a view may not, so it cannot write a table.
        database.execute(f"create temp view {_ASKED} as {statements[0].query}")
        return _plain(database.sql(f"from {_ASKED}").to_arrow_table())


def chosen_rows(
    out: Path,
    file: RecordsFile,
    rows: range,
    *,
    where: str | None,
    sample: float | None,
    stratify: bool,
) -> NDArray[np.int64]:
    """Numbers of the rows of a table that are chosen, ascending.

    Args:
        rows: those of the split.
        where: a condition in SQL; None: all of them.
        sample: only this share of what the condition leaves, those with the lowest hashes of split
            and key: of two shares, the smaller is part of the larger.
        stratify: take this share of every label, or set of labels, as nearly as whole images allow.

    Raises:
        UsageError: the condition is none, or is wrong.
        DatasetError: the table is damaged.
    """
    import numpy as np

    sets = {"records": (out, file)}
    wanted = [_ROW] + [_HASH] * (sample is not None) + [_STRATUM] * stratify
    with _opened(sets) as database, explained(lambda: _columns(sets)):
        import duckdb

        database.execute(
            f"create view numbered as from {tables([out / file.path], numbered=True)} "
            f"where {_ROW} >= {rows.start:d} and {_ROW} < {rows.stop:d}"
        )
        found = database.view("numbered")
        if where is not None:
            found = found.filter(duckdb.SQLExpression(where))
        columns: dict[str, Any] = found.project(", ".join(wanted)).fetchnumpy()
    numbers: NDArray[np.int64] = columns[_ROW]
    if sample is not None:
        size = max(round(sample * len(numbers)), 1)
        numbers = numbers[_sampled(size, columns["hash"], columns.get("stratum"))]
    return np.sort(numbers)


def labels_by_split(
    out: Path, file: RecordsFile, group: str | None
) -> list[tuple[str, int | None, int, int]]:
    """Of each split and each of its labels: images, and groups such as patients, if they are known.

    Args:
        group: the column that tells groups apart.

    Returns:
        (split, label, images, groups); of all images of a split where the label is None, and of
        those without any where it is -1.

    Raises:
        DatasetError: the table is damaged.
    """
    groups = "0" if group is None else f"count(distinct {column_list([group], 'stored.')})"
    with _opened({"records": (out, file)}) as database:
        return database.execute(
            "with stored as (from records where position is not null) "
            f"select split, null, count(*), {groups} from stored group by split "
            f"union all select split, label, count(*), {groups} from (select *, unnest("
            "if(len(labels) > 0, labels, [-1])) as label from stored) as stored group by all"
        ).fetchall()


def _sampled(
    size: int, hashes: NDArray[np.uint64], strata: NDArray[np.uint64] | None
) -> NDArray[np.int64]:
    """Places of so many images, in any order: those of the lowest hashes, or of each stratum alike.

    The image of rank r (from 0) of the n in a stratum has its turn at (r + s) / n, where s, from 0
    to 1, is a hash of the stratum: so each has given its share, within 1, at any moment.
    """
    import numpy as np

    if len(hashes) <= size:
        return np.arange(len(hashes))
    if strata is None:
        return np.argpartition(hashes, size)[:size]
    order = np.lexsort((hashes, strata))
    ordered = strata[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    sizes = np.diff([*starts, len(order)])
    turns = ordered / 2.0**64
    turns += np.arange(len(order))
    turns -= np.repeat(starts, sizes)
    turns /= np.repeat(sizes, sizes)
    return order[np.argpartition(turns, size)[:size]]


@contextmanager
def _opened(sets: Sets) -> Iterator[Database]:
    """A database with these tables, each checked to be the one that was sealed."""
    folded = {name.lower() for name in sets}  # the database makes no difference between A and a
    if not sets or len(folded) < len(sets) or not all(map(_NAME.fullmatch, sets)):
        raise UsageError(
            f"{printable(', '.join(sets))!r} cannot be names of tables: expected different ones, "
            "of letters, digits and _"
        )
    for out, file in sets.values():
        RecordsTable(out, file).close()
    paths = [out / file.path for out, file in sets.values()]
    rows = max(file.rows for _, file in sets.values())
    with (
        TemporaryDirectory(prefix="dataprep-sql-") as scratch,
        open_database(Path(scratch), paths, rows=rows, ordered=True) as database,
    ):
        for name, path in zip(sets, paths, strict=True):
            database.execute(f"create view {identifier(name)} as from {tables([path])}")
        yield database


@contextmanager
def explained(columns: Callable[[], Sequence[str]]) -> Iterator[None]:
    """What is wrong with people's SQL, in one line.

    Args:
        columns: those that there are, for the message.

    Raises:
        UsageError: something is.
    """
    import duckdb

    try:
        yield
    except (duckdb.OutOfMemoryException, duckdb.IOException):
        raise
    except duckdb.Error as error:
        text = str(error)
        if (missing := _NO_COLUMN.search(text)) is not None:
            known = columns()
            close = difflib.get_close_matches(missing[1].lower(), known, n=1)
            meant = f"did you mean {close[0]}? " if close else ""
            raise UsageError(
                f"there is no column {printable(missing[1])!r}; {meant}expected one of "
                f"{', '.join(known)}"
            ) from error
        first, _, rest = text.partition("\n")
        more = rest.split("\n")[0] if rest.startswith("Did you mean") else ""
        raise UsageError(f"SQL: {printable(' '.join(filter(None, (first, more))))}") from error


def _columns(sets: Sets) -> Sequence[str]:
    found = dict.fromkeys(RECORDS)
    for out, file in sets.values():
        with RecordsTable(out, file) as table:
            found |= dict.fromkeys(name for name, _ in table.attributes)
    return [*found]


def _plain(table: pa.Table) -> pa.Table:
    """The database's sums, which have 128 bits, as integers of 64 where they fit."""
    import pyarrow as pa

    for number, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type) and field.type.scale == 0:
            try:
                column = table.column(number).cast(pa.int64())
            except pa.ArrowInvalid:
                continue
            table = table.set_column(number, field.name, column)
    return table
