"""The table of records as it is sealed: written whole or not at all, and what it holds, added up.

Memory is bounded: rows of records are read and written some at a time. Arrow and the database are
loaded only when it is written.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dataprep.system.durable_files import whole
from dataprep.system.state_files import file_sha256
from dataprep.tables.records import NAME, STATUSES, STORED, parquet_writer
from dataprep_schemas.manifest import RecordsFile, Statuses, Totals

if TYPE_CHECKING:
    import pyarrow as pa

    from dataprep.tables.database import Database

_GROUP: Final = 1 << 16  # rows; of a shard of ImageNet's usual 1024, few groups have any
_SUMMED: Final = STATUSES[1:]

# Rows that are not records, in an order that depends on nothing but themselves.
_SORTED: Final = """
from rest order by list_position($statuses, status), split nulls last, {columns}
"""

_CLASSES: Final = """
with counts as (
    select shard, label, count(*) as records
    from (select shard, unnest(labels) as label from records
          where split = $split and position is not null)
    group by all
)
select label, sum(records)::bigint,
       max(records) - if(count(*) < $shards, 0, min(records))
from counts group by label order by label
"""

_LABEL_SETS: Final = """
with counts as (
    select shard, labels, count(*) as records from records
    where split = $split and position is not null group by all
)
select coalesce(max(spread), 0) from (
    select max(records) - if(count(*) < $shards, 0, min(records)) as spread
    from counts group by labels
)
"""


class SplitCounts(Statuses, frozen=True, kw_only=True):
    """What the manifest says of a split's rows; see `dataprep_schemas.manifest.Split`."""

    class_records: dict[str, int]
    class_spread: int
    label_set_spread: int


@dataclass(frozen=True, slots=True)
class WrittenRecords:
    """What the manifest says of a table of records.

    Attributes:
        totals: of all rows, also of those of no split.
    """

    file: RecordsFile
    totals: Totals
    splits: dict[str, SplitCounts]


def write_rows(
    path: Path,
    scratch: Path,
    schema: pa.Schema,
    *,
    stored: Iterable[pa.Table],
    rest: Iterable[pa.Table],
    rows: int,
    shards: Mapping[str, int],
    multilabel: bool,
    check: Callable[[], object] = lambda: None,
) -> WrittenRecords:
    """Write a table of records, whole or not at all, and add up what it holds.

    Args:
        scratch: a directory for what does not fit into memory.
        stored: rows of records, by split, shard and position.
        rest: rows of other images, in any order. Missing columns are null.
        rows: about how many there are.
        multilabel: whether sets of labels are to be counted.
        check: as for `dataprep.system.durable_files.rename`.
    """
    from dataprep.tables.database import open_database, tables

    with (
        whole(path, check) as temporary,
        open_database(scratch, [temporary], rows=rows) as database,
    ):
        file = _write(temporary, chain(stored, _sorted(database, rest, schema)), schema)
        database.execute(f"create view records as from {tables([temporary])}")
        statuses = _statuses(database)
        splits = {
            split: _counts(database, split, statuses[split], count, multilabel=multilabel)
            for split, count in shards.items()
        }
    everything = {status: sum(of[status] for of in statuses.values()) for status in _SUMMED}
    unstored = sum(everything[status] for status in _SUMMED if status not in STORED)
    return WrittenRecords(file, Totals(records=file.rows - unstored, **everything), splits)


def _sorted(
    database: Database, tables: Iterable[pa.Table], schema: pa.Schema
) -> Iterator[pa.Table]:
    import pyarrow as pa

    from dataprep.tables.arrow import fitted
    from dataprep.tables.database import column_list

    rest = pa.concat_tables([schema.empty_table(), *(fitted(table, schema) for table in tables)])
    database.register("rest", rest)
    query = _SORTED.format(columns=column_list(schema.names))
    for batch in database.sql(query, params={"statuses": [*STATUSES]}).to_arrow_reader(_GROUP):
        yield pa.Table.from_batches([batch]).cast(schema)
    database.unregister("rest")


def _write(path: Path, tables: Iterable[pa.Table], schema: pa.Schema) -> RecordsFile:
    """In groups of equal size, whatever the tables' are."""
    from dataprep.tables.arrow import blocks

    rows = 0
    with path.open("xb") as file:
        with parquet_writer(file, schema) as writer:
            for table in blocks(tables, _GROUP):
                writer.write_table(table, row_group_size=_GROUP)
                rows += len(table)
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
    return RecordsFile(NAME, size, file_sha256(path), rows)


def _statuses(database: Database) -> defaultdict[str | None, dict[str, int]]:
    """How many rows have each status, by split; records are only said to be such."""
    found = defaultdict[str | None, dict[str, int]](lambda: dict.fromkeys(_SUMMED, 0))
    rows = database.sql("select split, status, count(*) from records group by all").fetchall()
    for split, status, number in rows:
        if status in _SUMMED:
            found[split][status] = number
    return found


def _counts(
    database: Database, split: str, statuses: Mapping[str, int], shards: int, *, multilabel: bool
) -> SplitCounts:
    about = {"split": split, "shards": shards}
    classes = database.execute(_CLASSES, about).fetchall()
    found = database.execute(_LABEL_SETS, about).fetchone() if multilabel else None
    return SplitCounts(
        **statuses,
        class_records={str(label): number for label, number, _ in classes},
        class_spread=max((spread for *_, spread in classes), default=0),
        label_set_spread=found[0] if found else 0,
    )
