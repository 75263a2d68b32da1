"""Asking finished data sets in SQL, as a call: ``dataprep.sql``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dataprep.api.calls import StrPath

if TYPE_CHECKING:
    import pyarrow as pa


def sql(out: StrPath | Mapping[str, StrPath], query: str) -> pa.Table:
    """Ask a finished data set, or several, in SQL: ``select split, count(*) from records …``.

    The SQL is DuckDB's; it reads the tables of records, and reaches no other file.

    Args:
        out: the directory of a data set, whose ``records.parquet`` is the table ``records``; of
            several by name, ``{"a": "OUT", "b": "OUT2"}``, the tables have these names.
        query: one that selects.

    Returns:
        A table of Arrow: it has ``to_pylist`` and ``to_pandas``.

    Raises:
        UsageError: it does not select, or it is wrong; or the name of a table cannot be one.
        DatasetError: there is no intact manifest, or table of records.
    """
    from dataprep.sealed.set import SealedSet
    from dataprep.tables.questions import ask

    places = out if isinstance(out, Mapping) else {"records": out}
    return ask(
        {
            name: (Path(place), SealedSet.read(Path(place)).manifest.records_table)
            for name, place in places.items()
        },
        query,
    )
