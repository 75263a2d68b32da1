"""The images of a finished data set as a table to be put in order anew: its table of records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dataprep.tables.database import column_list, open_database, tables
from dataprep.tables.records import KEPT_COLUMNS

if TYPE_CHECKING:
    from dataprep.tables.database import Database

COLUMNS: Final = ("file_row_number", "key", "container", "xxh3", *KEPT_COLUMNS)
"""What an order of recorded images has of each besides ``labels`` and the data set's own.

``file_row_number`` is the row of the table of records, from 0.
"""

# As the images of an index are: names of classes, and no shard yet.
_FRESH: Final = """
create view fresh as
select * exclude (shard, position) replace (classes as labels) from {table}
where position is not null or status = 'rejected'
"""


@contextmanager
def open_recorded(table: Path, scratch: Path, *, rows: int) -> Iterator[Database]:
    """A database with the view ``fresh``: the images that a shard was for.

    Args:
        scratch: a directory for what does not fit into memory.
        rows: how many there are.
    """
    with open_database(scratch, [table], rows=rows) as database:
        database.execute(_FRESH.format(table=tables([table], numbered=True)))
        yield database


def recorded_columns(own: Sequence[str]) -> str:
    """The columns of an order of recorded images, as SQL over ``fresh`` and ``label_sets``.

    Args:
        own: the data set's own columns.
    """
    return f"numbers as labels, {column_list((*COLUMNS, *own))}"
