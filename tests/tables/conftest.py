"""Images as scanning finds them, without a scan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from dataprep.rows import Row, Scanned
from dataprep.tables.arrow import index_tables
from dataprep.tables.images import Images
from dataprep_schemas.fields import Fields
from dataprep_schemas.tables import schema_of

Find = Callable[..., Images]


@pytest.fixture
def find(tmp_path: Path) -> Iterator[Find]:
    """Makes the images of some units, each of which is a part of the index."""
    with ExitStack() as stack:

        def made(
            *units: Scanned,
            classes: Sequence[str] = ("a", "b", "c"),
            fields: Fields = (),
            wanted: Sequence[str] | None = None,
        ) -> Images:
            paths, statuses = [], Counter[str]()
            for number, unit in enumerate(units):
                paths.append(tmp_path / f"{number}.parquet")
                with parquet.ParquetWriter(paths[-1], schema_of("index", fields)) as file:
                    for table in index_tables(unit, classes, fields):
                        file.write_table(table)
                        statuses.update(table.column("status").to_pylist())
            return stack.enter_context(Images(paths, tmp_path, statuses, fields, wanted))

        yield made


def row(key: str, container: str = "a.tar", labels: tuple[int, ...] = (0,), **more: Any) -> Row:
    return Row(key, container, 512, 9, 1, labels, **more)


def listed(*rows: dict[str, Any]) -> Scanned:
    """What a list says."""
    full = [{"status": "listed", "container": "list.csv", "labels": ["a"], **row} for row in rows]
    return Scanned(tables=[pa.Table.from_pylist(full)])


def member(key: str, alias: str = "") -> Row:
    return Row(key, "a.tar", 512, 9, 1, (), alias=alias)
