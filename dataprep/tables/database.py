"""The embedded database that sorts, joins and counts tables, with bounded memory: DuckDB.

It is loaded when a database is opened, which workers never do.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dataprep.errors import PipelineError, SinkError
from dataprep.system.durable_files import partial_path
from dataprep.system.job_limits import available_memory, usable_cores

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_LEAST: Final = 192 << 20  # bytes of memory
_ROW: Final = 72  # bytes of memory a row: of fourteen million, 1 GiB. With less it is slower
_THREAD: Final = 96 << 20  # bytes of memory that a thread needs at least
_SHARE: Final = 4  # of the memory that is left, one part of so many may be taken
_FULL: Final = ("No space left", "max_temp_directory_size", "failed to offload", "Disk quota")

Database: TypeAlias = "duckdb.DuckDBPyConnection"


@contextmanager
def open_database(
    directory: Path | None,
    files: Sequence[Path] = (),
    *,
    rows: int = 0,
    ordered: bool = False,
    threads: int | None = None,
) -> Iterator[Database]:
    """An empty database in memory, which writes what does not fit there into files.

    It is locked: whatever the SQL, it opens no other file, no extension but those that are part of
    it, and no variable of Python, and none of that can be changed any more.

    Args:
        directory: takes the files, which are removed at the end; what a killed process left is
            swept by `dataprep.jobs.running.clearing`. None: for queries that keep nothing.
        rows: about how many the largest table has, where that is known.
        ordered: whether a scan gives the rows in the order of the file.
        threads: how many may work for it; None: as many as there are cores for.

    Raises:
        SinkError: the directory has no room for the files, or cannot be written.
        PipelineError: the memory does not suffice.
    """
    import duckdb

    spill = None if directory is None else partial_path(directory / "sort")
    limit = memory_limit(rows)
    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "memory_limit": f"{limit >> 10}KiB",
        "threads": max(min(threads or usable_cores(), limit // _THREAD), 1),
        "temp_directory": "" if spill is None else str(spill),
        "preserve_insertion_order": ordered,
        "enable_external_file_cache": False,  # a list may change between two runs in one process
        "python_enable_replacements": False,
    }
    connection = duckdb.connect(config=config)
    try:
        _lock(connection, files)
        yield connection
    except duckdb.Error as error:
        raise _explained(error, directory) from error
    finally:
        connection.close()
        if spill is not None:
            with suppress(FileNotFoundError):
                shutil.rmtree(spill)


def _lock(connection: Database, files: Sequence[Path]) -> None:
    import duckdb

    # A name is looked up as a pattern first, so its pattern is a name, too.
    names = [name for path in files for name in (str(path), escape(str(path)))]
    connection.execute("set allowed_paths = $names", {"names": names})
    with suppress(duckdb.InvalidInputException):  # of a notebook that lacks what would draw it
        connection.execute("set enable_progress_bar = false")  # of long queries, on stdout
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")


def rows(database: Database, query: str, values: Mapping[str, object] | None = None) -> list[Any]:
    """What a query finds, with these values of its parameters."""
    return database.execute(query, values).fetchall()


def make_table(database: Database, name: str, content: pa.Table) -> None:
    """Make a table of one of Arrow's."""
    database.register("content", content)
    database.execute(f"create temp table {name} as from content")
    database.unregister("content")


def quoted(path: Path) -> str:
    """A file as SQL names it where a view or its reader takes no parameter; all else is one."""
    # To the database a name is a pattern.
    return "'" + escape(str(path)).replace("'", "''") + "'"


def identifier(name: str) -> str:
    """A column as SQL names it: ours (``offset`` and ``group`` mean something there), or checked.

    What a file calls its columns gets here after `dataprep.tables.arrow.wrong_column` only.
    """
    return '"' + name.replace('"', '""') + '"'


def column_list(names: Iterable[str], table: str = "") -> str:
    """Columns in SQL."""
    return ", ".join(table + identifier(name) for name in names)


def tables(paths: Sequence[Path], *, numbered: bool = False) -> str:
    """Parquet files as one table of SQL.

    Args:
        numbered: whether it has the column ``file_row_number``, from 0.
    """
    # A name may seem to have columns in it (a=1).
    names = ", ".join(map(quoted, paths))
    return f"read_parquet([{names}], hive_partitioning=false, file_row_number={numbered})"


def memory_limit(rows: int) -> int:
    """Bytes of memory that the database takes for tables of so many rows, as far as it counts."""
    return max(_LEAST, min(rows * _ROW, available_memory() // _SHARE))


def _explained(error: duckdb.Error, directory: Path | None) -> SinkError | PipelineError:
    import duckdb

    first = str(error).partition("\n")[0]
    if any(words in str(error) for words in _FULL):
        return SinkError(
            f"{directory}: no space left while sorting; free some and run the same command again: "
            "finished shards are kept"
        )
    if isinstance(error, duckdb.OutOfMemoryException):
        return PipelineError(
            f"not enough memory to sort the images ({first}); ask the scheduler for more, and run "
            "the same command again"
        )
    if isinstance(error, duckdb.IOException):
        return SinkError(f"{directory} cannot be used to sort ({first}); mend that and run again")
    return PipelineError(f"the database failed: {first}; run the same command again")
