"""SQL that people write about tables of records: a condition that chooses rows, or a question.

Nothing is believed of what they write: a condition is parsed as one expression and never pasted
into a query, a question is one that selects, and `open_database` reaches nothing but the tables.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from dataprep.errors import UsageError
from dataprep.system.messages import counted, printable, sized
from dataprep.tables.database import Database, column_list, identifier, open_database, tables
from dataprep.tables.images import HASH, SHARE
from dataprep.tables.records import RecordsTable
from dataprep_schemas.fields import UNCERTAIN
from dataprep_schemas.tables import RECORDS

if TYPE_CHECKING:
    import duckdb
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from dataprep_schemas.manifest import RecordsFile

Sets = Mapping[str, tuple[Path, "RecordsFile"]]
"""By the name of its table: the directory of a data set, and what its manifest says of the file."""

MEMORY: Final = 1_000_000_000
"""Bytes that a question may take besides `memory_limit`, and its answer."""

_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]{0,62}")
_ASKED: Final = '"the question"'  # no table can be called so
_ROW: Final = "file_row_number"

# The image of rank r, from 0, of the n of a label set has its turn at (r + s) / n, where s, from 0
# to 1, is a hash of the set: so each gives its share, within 1, however many are taken.
_TURN: Final = f"""
(row_number() over (partition by split, labels order by {HASH}) - 1
    + md5_number_lower(coalesce(labels::varchar, '')) / 18446744073709551616.0
) / count(*) over (partition by split, labels)
"""
_SAMPLED: Final = f"""
select * exclude ("sampling turn") from (select *, {{turn}} as "sampling turn" from {{table}})
qualify row_number() over (partition by split order by "sampling turn", {HASH}) <= {SHARE}
"""
_AT_ONCE: Final = 10_000  # rows
_TOO_MUCH: Final = (
    f"SQL: it takes more than {sized(MEMORY)} of memory, as a question may, or as an answer; ask "
    "for less: fewer rows (limit), shorter values, or counts"
)
_NO_TABLE: Final = re.compile(r"Table with name (\S+) does not exist")
_NO_COLUMN: Final = re.compile('(?:Referenced|does not have a) column (?:named )?"([^"]*)"')


def ask(sets: Sets, query: str) -> Iterator[pa.Schema | pa.RecordBatch]:
    """What a query finds in tables of records: for `answer`.

    Raises:
        UsageError: it is not one query that only selects, or it is wrong, or finds too much; or a
            name cannot be one.
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
        found, size = database.sql(f"from {_ASKED}").to_arrow_reader(_AT_ONCE), 0
        yield found.schema
        for batch in found:
            if (size := size + batch.nbytes) > MEMORY:
                raise UsageError(_TOO_MUCH)
            yield batch


def answer(parts: Iterator[pa.Schema | pa.RecordBatch]) -> pa.Table:
    """A table of what `ask` yields."""
    import pyarrow as pa

    schema = next(parts)
    return _plain(pa.Table.from_batches(parts, schema))


def chosen_rows(
    out: Path,
    file: RecordsFile,
    rows: range,
    *,
    where: str | None,
    sample: Fraction | None,
    stratify: bool,
    seed: int,
    label: int | None = None,
    equal: tuple[str, str] | None = None,
    order: str | None = None,
    descending: bool = False,
) -> NDArray[np.int64]:
    """Numbers of the rows of a table that are chosen, ascending, or in the order of a column.

    Args:
        rows: those of the split.
        where: a condition in SQL; None: all of them.
        sample: only this share of what the condition leaves; see `sampled`.
        stratify: of every label, or set of labels.
        seed: of the hashes, the set's own.
        label: only images of this class.
        equal: only where this column has this value, as text.
        order: the column to sort by; what has no value in it comes last.

    Raises:
        UsageError: the condition is none, or is wrong; or there is no such column.
        DatasetError: the table is damaged.
    """
    import numpy as np

    sets = {"records": (out, file)}
    with _opened(sets) as database, explained(lambda: _columns(sets)):
        import duckdb

        database.execute(
            f"create view numbered as from {tables([out / file.path], numbered=True)} "
            f"where {_ROW} >= {rows.start:d} and {_ROW} < {rows.stop:d}"
        )
        found = database.view("numbered")
        if where is not None:
            found = found.filter(duckdb.SQLExpression(where))
        if label is not None:
            labels = duckdb.ColumnExpression("labels")
            has = duckdb.FunctionExpression("list_contains", labels, _constant(label))
            found = found.filter(has)
        if equal is not None:
            column = duckdb.ColumnExpression(equal[0]).cast("varchar")
            found = found.filter(column == _constant(equal[1]))
        if sample is not None:
            kept = dict.fromkeys([_ROW, "split", "key", "labels", order or _ROW])
            found.project(column_list(kept)).create_view("left over")
            query, values = sampled(sample, '"left over"', seed, stratify=stratify)
            found = database.sql(query, params=values)
        if order is not None:
            way = "desc" if descending else "asc"
            found = found.order(f"{identifier(order)} {way} nulls last, {_ROW}")
        numbers: NDArray[np.int64] = found.project(_ROW).fetchnumpy()[_ROW]
    return np.sort(numbers) if order is None else numbers


def _constant(value: object) -> duckdb.Expression:
    import duckdb

    return duckdb.ConstantExpression(value)


def sampled(
    share: Fraction, table: str, seed: int, *, stratify: bool
) -> tuple[str, dict[str, Any]]:
    """A query for a share of each split of a table, and its parameters.

    As many images as are at least that, those with the lowest hashes: of two shares, the smaller is
    part of the larger.

    Args:
        table: as SQL names it; with the columns split, key and labels.
        stratify: take this share of every label, or set of labels, as nearly as whole images allow.
    """
    query = _SAMPLED.format(turn=_TURN if stratify else "0", table=table)
    return query, {"seed": seed, "share": share.numerator, "of": share.denominator}


def labels_by_split(
    out: Path, file: RecordsFile, group: str | None
) -> list[tuple[str, int | None, int, int]]:
    """Of each split and each of its labels: images, and groups such as patients, if they are known.

    Args:
        group: the column that tells groups apart.

    Returns:
        (split, label, images, groups); of all images of a split where the label is None, of
        those without any where it is -1, and where it is -2, of those with uncertain ones alone.

    Raises:
        DatasetError: the table is damaged.
    """
    groups = "0" if group is None else f"count(distinct {column_list([group], 'stored.')})"
    with _opened({"records": (out, file)}) as database:
        return database.execute(
            "with stored as (from records where position is not null "
            f"union all by name select null::varchar as {UNCERTAIN.name} where false) "
            f"select split, null, count(*), {groups} from stored group by split "
            f"union all select split, label, count(*), {groups} from (select *, unnest("
            f"if(len(labels) > 0, labels, [if({UNCERTAIN.name} is null, -1, -2)])) as label "
            "from stored) as stored group by all"
        ).fetchall()


def mask_numbers(
    out: Path, file: RecordsFile, column: str
) -> list[tuple[str, int | None, int, int]]:
    """Of each split and each number in its masks: images that have it, and pixels.

    Args:
        column: of the masks.

    Returns:
        (split, number, images, pixels), by split and number; of images without a mask where the
        number is None.

    Raises:
        DatasetError: the table is damaged.
    """
    mask = identifier(column)
    with _opened({"records": (out, file)}) as database:
        return database.execute(
            f"with stored as (select split, {mask} as mask from records where position is not null)"
            " select split, null as number, count(*), 0 from stored where mask is null group by "
            "split union all select split, pair[1], count(*), sum(pair[2])::bigint from ("
            "select split, unnest(mask) as pair from stored) group by all order by 1, 2"
        ).fetchall()


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
    except duckdb.IOException:
        raise
    except (duckdb.Error, MemoryError, OSError) as error:  # what a reader of Arrow's meets, too
        text = str(error)
        if isinstance(error, MemoryError) or text.startswith("Out of Memory"):
            raise UsageError(_TOO_MUCH) from error
        if (missing := _NO_COLUMN.search(text)) is not None:
            known = columns()
            close = difflib.get_close_matches(missing[1].lower(), known, n=1)
            meant = f"did you mean {close[0]}? " if close else ""
            raise UsageError(
                f"there is no column {printable(missing[1])!r}; {meant}expected one of "
                f"{', '.join(known)}"
            ) from error
        if (missing := _NO_TABLE.search(text)) is not None:
            raise UsageError(
                f"there is no table {printable(missing[1])!r}; that of a data set is called "
                "records, those of several as they were named"
            ) from error
        first, _, rest = text.partition("\n")
        more = rest.split("\n")[0] if rest.startswith("Did you mean") else ""
        raise UsageError(f"SQL: {printable(' '.join(filter(None, (first, more))))}") from error


def _columns(sets: Sets) -> Sequence[str]:
    found = dict.fromkeys(RECORDS)
    for out, file in sets.values():
        with RecordsTable(out, file) as table:
            found |= dict.fromkeys(field.name for field in table.fields)
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
