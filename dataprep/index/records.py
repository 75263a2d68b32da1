"""``records.parquet``: a row for every image that was found, whatever became of it.

First the records, by name of their split, shard and position, so that the number of a record's row
is known; then what is not in the data set, by status, split and key. The columns are those of
`dataprep_schemas.tables`. pyarrow is loaded only when the table is read or written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from dataprep.errors import DatasetError
from dataprep.system.parquet_files import open_parquet
from dataprep_schemas.tables import RECORDS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet

    from dataprep_schemas.tables import Kind

NAME = "records.parquet"

STORED = ("stored", "repaired", "warned")
"""Statuses of images that are in the data set."""

STATUSES = (*STORED, "rejected", "missing", "unlisted", "ignored", "excluded")

_ALL_DIFFERENT = ("key", "position", "bytes", "xxh3", "phash")  # a dictionary of these is a waste


def parquet_writer(file: IO[bytes], schema: pa.Schema) -> parquet.ParquetWriter:
    """A writer of rows of ``records``: equal rows in equal groups are equal bytes."""
    from pyarrow import parquet

    repetitive = [name for name in schema.names if name not in _ALL_DIFFERENT]
    return parquet.ParquetWriter(
        file,
        schema,
        compression="zstd",
        use_dictionary=_leaves(schema, repetitive),
        write_page_checksum=True,
    )


def first_rows(manifest: Mapping[str, Any]) -> dict[str, list[int]]:
    """By split, the row of each shard's first record; of the whole data set, also of a part."""
    splits = sorted(manifest["splits"].items())
    sizes = [shard["records"] for _, split in splits for shard in split["shards"]]
    starts = iter(accumulate(sizes, initial=0))
    return {name: [next(starts) for _ in split["shards"]] for name, split in splits}


class RecordsTable:
    """The table of a sealed data set, open; used by one thread.

    Args:
        out: the directory that holds the manifest.

    Raises:
        DatasetError: it cannot be read.
    """

    def __init__(self, out: Path) -> None:
        self.path = out / NAME
        with _readable(self.path):
            self._file = open_parquet(self.path)
            groups = range(self._file.num_row_groups)
            sizes = [self._file.metadata.row_group(group).num_rows for group in groups]
            self._ends = list(accumulate(sizes))
        for name in RECORDS:
            if name not in self._file.schema_arrow.names:
                self._file.close()
                raise DatasetError(
                    f"{self.path} has no column {name}: an earlier version of dataprep made it; "
                    "make the data set again"
                )

    def __enter__(self) -> Self:
        """The table itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def attributes(self) -> tuple[tuple[str, Kind], ...]:
        """Name and kind of the data set's own columns."""
        own = [field for field in self._file.schema_arrow if field.name not in RECORDS]
        return tuple((field.name, "int" if str(field.type) == "int64" else "text") for field in own)

    def between(
        self, start: int, stop: int | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[pa.Table]:
        """Rows ``start`` to ``stop - 1``, some at a time.

        Args:
            start: 0-based.
            stop: to the end if None.
            columns: only these; all if None.

        Raises:
            DatasetError: they are damaged, or not there.
        """
        wanted = (self._ends[-1] if self._ends else 0) if stop is None else stop
        at = start
        for group, end in enumerate(self._ends):
            begin = self._ends[group - 1] if group else 0
            if begin <= at < min(end, wanted):
                with _readable(self.path):
                    table = self._file.read_row_group(group, columns=columns)
                yield table.slice(at - begin, min(end, wanted) - at)
                at = min(end, wanted)
        if at < wanted:
            raise DatasetError(f"{self.path} has no row {at:,}; `dataprep verify` names bad files")

    def rows(self, start: int, stop: int, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """The same, each row as a tuple of these columns."""
        for table in self.between(start, stop, columns):
            yield from zip(*(table.column(name).to_pylist() for name in columns), strict=True)


def conspicuous(path: Path, columns: Sequence[str]) -> Iterator[Any]:
    """Rows of a file of records that are not just stored, each as a tuple of these columns.

    Args:
        path: ``records.parquet``, or the rows of a shard.
        columns: which.

    Raises:
        DatasetError: they cannot be read.
    """
    import pyarrow.compute as pc

    for table in row_groups(path, list({*columns, "status"})):
        chosen = table.filter(pc.not_equal(table.column("status"), "stored"))
        yield from zip(*(chosen.column(name).to_pylist() for name in columns), strict=True)


def row_groups(path: Path, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """A file of records, or these columns of it, some rows at a time.

    Raises:
        DatasetError: it cannot be read.
    """
    with _readable(path), open_parquet(path) as file:
        for group in range(file.num_row_groups):
            yield file.read_row_group(group, columns=columns)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        raise DatasetError(
            f"{path} cannot be read ({reason}); run the command that made the data set again"
        ) from error


def _leaves(schema: pa.Schema, names: Sequence[str]) -> list[str]:
    """What Parquet calls columns: of a list, its elements."""
    return [name + ".list.element" * str(schema.field(name).type).count("list<") for name in names]
