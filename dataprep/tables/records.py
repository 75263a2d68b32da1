"""``records.parquet``: a row for every image that was found, whatever became of it.

First the records, by name of their split, shard and position, so that the number of a record's row
is known; then what is not in the data set, by status, split and key. The columns are those of
`dataprep_schemas.tables`. pyarrow is loaded only when the table is read or written.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from dataprep.errors import DatasetError
from dataprep.system.messages import REMEDY, cannot_be_read, printable
from dataprep.system.regular_files import open_parquet
from dataprep.system.state_files import file_sha256

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray
    from pyarrow import parquet

    from dataprep_schemas.fields import Fields
    from dataprep_schemas.manifest import RecordsFile

NAME: Final = "records.parquet"

STORED = ("stored", "repaired", "warned")
"""Statuses of images that are in the data set."""

STATUSES = (*STORED, "rejected", "missing", "unlisted", "ignored", "excluded")

KEPT_COLUMNS: Final = (
    *("channels", "status", "reason"),
    *("phash", "brightness", "contrast", "flat"),
)
"""What is known of a stored image that its shard does not say; the last four: its fingerprint."""

_METADATA: Final = "metadata: "
TURNED: Final = f"(^|; ){_METADATA}EXIF orientation"
"""What is found in the reason of an image that is stored with an EXIF orientation."""
SHALLOWER: Final = "^16-bit .*: (re-encoded|stored) as 8-bit "
"""What is found in that of an image that had 16 bits a sample and is stored with 8."""

_ROW_BYTES: Final = 1 << 14  # of a row, on average of a group; ours have some 200

# A dictionary of these is a waste.
_ALL_DIFFERENT = ("key", "position", "bytes", "xxh3", "phash")


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


class RecordsTable(AbstractContextManager["RecordsTable"]):
    """The table of a sealed data set, open; used by one thread.

    Args:
        file: what the manifest says of it; None if its hash has just been compared.

    Raises:
        DatasetError: it cannot be read, is not the one that was sealed, or has other columns.
    """

    def __init__(self, out: Path, file: RecordsFile | None) -> None:
        self.path = out / NAME
        if file is not None:
            check_sealed(self.path, file)
        with _readable(self.path):
            self._file = open_records(self.path)
            groups = range(self._file.num_row_groups)
            sizes = [self._file.metadata.row_group(group).num_rows for group in groups]
            self._ends = list(accumulate(sizes))

    def __exit__(self, *exception: object) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def fields(self) -> Fields:
        """What is said of its images besides."""
        from dataprep_schemas.tables import fields_in

        return fields_in(self._file.schema_arrow, "records")

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
        last = (self._ends[-1] if self._ends else 0) if stop is None else stop
        yield from self.take(range(start, last), columns)

    def take(
        self,
        numbers: Sequence[int] | NDArray[np.integer[Any]],
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.Table]:
        """The rows with these numbers, which ascend, some at a time.

        Raises:
            DatasetError: they are damaged, or not there.
        """
        import numpy as np

        done = 0
        for group, end in enumerate(self._ends):
            stop = bisect_left(numbers, end)
            if done < stop:
                begin = self._ends[group - 1] if group else 0
                with _readable(self.path):
                    table = _row_group(self._file, group, columns)
                first, size = numbers[done] - begin, stop - done
                if numbers[stop - 1] - begin == first + size - 1:
                    yield table.slice(first, size)
                else:
                    yield table.take(np.asarray(numbers[done:stop]) - begin)
                done = stop
        if done < len(numbers):
            raise DatasetError(
                f"{self.path} has no row {numbers[done]:,}; `dataprep verify` names bad files"
            )

    def rows(self, start: int, stop: int, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """The same, each row as a tuple of these columns."""
        for table in self.between(start, stop, columns):
            yield from zip(*(table.column(name).to_pylist() for name in columns), strict=True)


def with_metadata(reason: str | None, metadata: Sequence[str]) -> str | None:
    """What is said of an image, with what its file has beside pixels in place of what was said.

    The columns of the table are those of all versions: it is the end of `reason`.
    """
    notes = [note for note in (reason or "").split("; ") if not note.startswith(_METADATA)]
    notes += [_METADATA + ", ".join(metadata)] * bool(metadata)
    return "; ".join(filter(None, notes)) or None


def count_reasons(path: Path, pattern: str) -> int:
    """How many rows of the table have a reason in which this regular expression is found.

    Raises:
        DatasetError: it cannot be read.
    """
    import pyarrow.compute as pc

    return sum(
        pc.sum(pc.match_substring_regex(table["reason"], pattern)).as_py() or 0
        for table in row_groups(path, ["reason"])
    )


def conspicuous(path: Path, columns: Sequence[str]) -> Iterator[Any]:
    """Rows of a file of records that are not just stored, each as a tuple of these columns.

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
    with _readable(path), open_records(path) as file:
        for group in range(file.num_row_groups):
            yield _row_group(file, group, columns)


def _row_group(file: parquet.ParquetFile, number: int, columns: Sequence[str] | None) -> pa.Table:
    import pyarrow as pa

    table = file.read_row_group(number, columns=columns)
    table.validate(full=True)  # text that is no UTF-8 would fail where it is used
    if len(table) != (promised := file.metadata.row_group(number).num_rows):
        raise pa.ArrowInvalid(f"row group {number} has {len(table):,} rows, not {promised:,}")
    return table


def check_sealed(path: Path, file: RecordsFile) -> None:
    """Compare the table with what the manifest says of it; once, as long as it stays as it is.

    Raises:
        DatasetError: it is another, or damaged.
    """
    with _readable(path):
        found = path.stat()
        state = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        if found.st_size == file.bytes and _sha256(path, state) == file.sha256:
            return
    raise DatasetError(
        f"{path} is not the table that was sealed: it was damaged or changed; {REMEDY}"
    )


@lru_cache(maxsize=4)
def _sha256(path: Path, state: tuple[int, ...]) -> str:  # noqa: ARG001 - `state` tells changes
    return file_sha256(path)


def open_records(path: Path) -> parquet.ParquetFile:
    """A file of records, to be closed: exactly our columns, and those of a data set's own.

    Raises:
        OSError: it cannot be read.
        pa.ArrowException: nor can what is in it.
        DatasetError: it has other columns, or rows that are too long.
    """
    from dataprep.tables.arrow import wrong_column

    file = open_parquet(path, row_bytes=_ROW_BYTES)
    try:
        wrong = wrong_column(file.schema_arrow, "records")
    except BaseException:
        file.close()
        raise
    if wrong is not None:
        file.close()
        raise DatasetError(
            f"{path} has {printable(wrong)}: another version of dataprep made it, or somebody "
            "changed it; make the data set again"
        )
    return file


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except PermissionError as error:
        raise DatasetError(f"{path} {cannot_be_read(error)}") from error
    except (OSError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        raise DatasetError(
            f"{path} cannot be read ({reason}); run the command that made the data set "
            "again, with --overwrite if it grew by --append"
        ) from error


def _leaves(schema: pa.Schema, names: Sequence[str]) -> list[str]:
    """What Parquet calls columns: of a list, its elements."""
    return [name + ".list.element" * str(schema.field(name).type).count("list<") for name in names]
