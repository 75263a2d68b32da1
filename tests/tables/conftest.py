"""Images as scanning finds them, without a scan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyarrow import parquet

from dataprep.tables import Scanned
from dataprep.tables.arrow import Attributes, index_tables
from dataprep.tables.images import Images
from dataprep_schemas.tables import schema_of

Find = Callable[..., Images]


@pytest.fixture
def find(tmp_path: Path) -> Iterator[Find]:
    """Makes the images of some units, each of which is a part of the index."""
    with ExitStack() as stack:

        def made(
            *units: Scanned,
            classes: Sequence[str] = ("a", "b", "c"),
            attributes: Attributes = (),
            wanted: Sequence[str] | None = None,
        ) -> Images:
            paths, statuses = [], Counter[str]()
            for number, unit in enumerate(units):
                paths.append(tmp_path / f"{number}.parquet")
                with parquet.ParquetWriter(paths[-1], schema_of("index", attributes)) as file:
                    for table in index_tables(unit, classes, attributes):
                        file.write_table(table)
                        statuses.update(table.column("status").to_pylist())
            names = [name for name, _ in attributes]
            return stack.enter_context(Images(paths, tmp_path, statuses, names, wanted))

        yield made
