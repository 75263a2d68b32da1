"""The table of records: the rows of all shards, and what is in none, in one file; and its sums."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from dataprep.build.commit import CommitRecord
from dataprep.build.job import Job
from dataprep.index import records as records_table
from dataprep.index.records import STATUSES, parquet_writer, row_groups
from dataprep.system.durable_files import partial_path
from dataprep.system.state_files import file_sha256, remove_unless_file

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet

    from dataprep.index.database import Database

_GROUP: Final = 1 << 16  # rows; of a shard of ImageNet's usual 1024, few groups have any
_SUMMED: Final = STATUSES[1:]


@dataclass(frozen=True, slots=True)
class Counted:
    """What the table of records says of a split.

    Attributes:
        totals: how many rows have each status, but for the records.
        classes: records by 0-based class index; a record with several labels counts for each.
        class_spread: the largest difference of any class's count between two shards.
        label_set_spread: the same of any set of labels that records have together; 0 where they
            have one each.
    """

    totals: Mapping[str, int]
    classes: Mapping[int, int]
    class_spread: int
    label_set_spread: int


@dataclass(frozen=True, slots=True)
class Joined:
    """What the table holds.

    Attributes:
        described: the file, as the manifest has it.
        totals: how many records there are, and rows of each other status.
        splits: what is said of each split; rows of no split are only in the totals.
    """

    described: Mapping[str, Any]
    totals: Mapping[str, int]
    splits: Mapping[str, Counted]


def join_rows(job: Job, records: Sequence[CommitRecord], others: Iterable[pa.Table]) -> Joined:
    """Write ``records.parquet``, whole or not at all, and add up what it holds.

    Memory is bounded: rows are read, sorted and written some at a time.

    Args:
        job: what was built.
        records: the commit record of every shard.
        others: rows of images that are in no shard; read once. Missing columns are null.

    Raises:
        DatasetError: the rows of a shard are damaged; running again makes the shard again.
    """
    from dataprep.index.database import open_database
    from dataprep_schemas.tables import schema_of

    workspace = job.workspace
    schema = schema_of("records", job.output.attributes)
    records = sorted(records, key=lambda record: (record.split, record.number))
    rows = sum(record.images for record in records)
    final = workspace.records
    temporary = partial_path(final)
    try:
        with open_database(workspace.private, rows=rows) as database:
            with temporary.open("xb") as file:
                with parquet_writer(file, schema) as writer:
                    groups = _Groups(writer, schema)
                    for table in _stored(job, records):
                        groups.add(table)
                    rest = chain(_rejected(job, records), others)
                    for table in _sorted(database, rest, schema):
                        groups.add(table)
                    groups.flush()
                file.flush()
                os.fsync(file.fileno())
                described = {
                    "path": records_table.NAME,
                    "bytes": file.tell(),
                    "sha256": file_sha256(temporary),
                    "rows": groups.rows,
                }
            database.read_parquet(str(temporary)).create_view("records")
            totals = _totals(database)
            splits = {
                split.name: _counted(
                    database,
                    split.name,
                    split.shards,
                    totals,
                    multilabel=job.output.info.multilabel,
                )
                for split in job.splits
            }
        remove_unless_file(final)
        temporary.replace(final)
    finally:
        temporary.unlink(missing_ok=True)
    everything = {status: sum(of[status] for of in totals.values()) for status in _SUMMED}
    stored = sum(record.records for record in records)
    return Joined(described, {"records": stored, **everything}, splits)


def _stored(job: Job, records: Sequence[CommitRecord]) -> Iterator[pa.Table]:
    import pyarrow.compute as pc

    for record in records:
        for table in row_groups(job.workspace.rows(record.shard)):
            yield table.filter(pc.is_valid(table["position"])) if record.rejected else table


def _rejected(job: Job, records: Sequence[CommitRecord]) -> Iterator[pa.Table]:
    import pyarrow.compute as pc

    for record in records:
        if record.rejected:
            for table in row_groups(job.workspace.rows(record.shard)):
                yield table.filter(pc.is_null(table["position"]))


def _sorted(
    database: Database, tables: Iterable[pa.Table], schema: pa.Schema
) -> Iterator[pa.Table]:
    """Rows that are not records, in an order that depends on nothing but themselves."""
    import pyarrow as pa

    from dataprep.index.database import quoted

    batches = (batch for table in tables for batch in _fitted(table, schema).to_batches())
    database.register("others", pa.RecordBatchReader.from_batches(schema, batches))
    database.execute("create temp table rest as select * from others")
    database.unregister("others")
    statuses = ", ".join(map(quoted, STATUSES))
    names = ", ".join(f'"{name}"' for name in schema.names)
    ordered = database.table("rest").order(
        f"list_position([{statuses}], status), split nulls last, {names}"
    )
    for batch in ordered.to_arrow_reader(_GROUP):
        yield pa.Table.from_batches([batch]).cast(schema)


def _fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

    there = set(table.column_names)
    return pa.table(
        [
            table.column(field.name).cast(field.type)
            if field.name in there
            else pa.nulls(len(table), field.type)
            for field in schema
        ],
        schema=schema,
    )


class _Groups:
    """Rows in groups of equal size, whatever the sizes of the tables that they come in."""

    def __init__(self, writer: parquet.ParquetWriter, schema: pa.Schema) -> None:
        self.rows = 0
        self._writer = writer
        self._schema = schema
        self._waiting: list[pa.Table] = []
        self._count = 0

    def add(self, table: pa.Table) -> None:
        self._waiting.append(table)
        self._count += len(table)
        while self._count >= _GROUP:
            self._write(_GROUP)

    def flush(self) -> None:
        if self._count:
            self._write(self._count)

    def _write(self, size: int) -> None:
        import pyarrow as pa

        # One piece, since a writer's pages end where the pieces do.
        together = pa.concat_tables(self._waiting)
        self._writer.write_table(together.slice(0, size).combine_chunks(), row_group_size=size)
        self._waiting = [together.slice(size)]
        self._count -= size
        self.rows += size


def _totals(database: Database) -> defaultdict[str | None, dict[str, int]]:
    """How many rows have each status, by split; records are only said to be such."""
    totals = defaultdict[str | None, dict[str, int]](lambda: dict.fromkeys(_SUMMED, 0))
    found = database.sql("select split, status, count(*) from records group by all").fetchall()
    for split, status, number in found:
        if status in _SUMMED:
            totals[split][status] = number
    return totals


_CLASSES = """
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

_LABEL_SETS = """
with counts as (
    select shard, labels, count(*) as records from records
    where split = $split and position is not null group by all
)
select coalesce(max(spread), 0) from (
    select max(records) - if(count(*) < $shards, 0, min(records)) as spread
    from counts group by labels
)
"""


def _counted(
    database: Database,
    split: str,
    shards: int,
    totals: Mapping[str | None, Mapping[str, int]],
    *,
    multilabel: bool,
) -> Counted:
    about = {"split": split, "shards": shards}
    classes = database.execute(_CLASSES, about).fetchall()
    found = database.execute(_LABEL_SETS, about).fetchone() if multilabel else None
    return Counted(
        totals=totals[split],
        classes={label: number for label, number, _ in classes},
        class_spread=max((spread for *_, spread in classes), default=0),
        label_set_spread=found[0] if found else 0,
    )
