"""The images of a finished data set, to be dealt over shards anew: what its table says of them."""

from __future__ import annotations

from functools import cached_property

from typing_extensions import override

from dataprep.tables.database import Database, open_database, tables
from dataprep.tables.images import Images


class RecordedImages(Images):
    """Those that a shard has, or had rejected; of `Images`' tables there is only ``fresh``.

    Its columns are those of the table of records, without its shards, and ``file_row_number``.
    ``labels`` are names, as they are in the index.
    """

    @cached_property
    @override
    def database(self) -> Database:
        """Opened when it is first needed."""
        rows = sum(self.statuses.values())
        database = self._stack.enter_context(open_database(self.scratch, self.paths, rows=rows))
        database.execute(
            "create view fresh as select * exclude (shard, position) replace (classes as labels) "
            f"from {tables(self.paths, numbered=True)} "
            "where position is not null or status = 'rejected'"
        )
        return database
