"""SQL that people write, done in a process of its own, whose memory the system bounds.

The database counts what it sorts, but not the values that it makes: a text of gigabytes is a few
letters of SQL. The process of whoever asks, perhaps in training, must not have a bound for that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dataprep.errors import SinkError, UsageError
from dataprep.formats.subprocess_reader import in_child
from dataprep.tables.database import memory_limit
from dataprep.tables.questions import MEMORY, Sets, answer, ask, chosen_rows

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from dataprep_schemas.manifest import RecordsFile

_Item = TypeVar("_Item")


def asked(sets: Sets, query: str) -> pa.Table:
    """See `dataprep.tables.questions.ask`."""
    return answer(_apart(ask, sets, query))


def rows_where(out: Path, file: RecordsFile, rows: range, **how: Any) -> NDArray[np.int64]:
    """See `dataprep.tables.questions.chosen_rows`."""
    (found,) = _apart(_chosen, {"records": (out, file)}, rows, how)
    return found


def _chosen(sets: Sets, rows: range, how: dict[str, Any]) -> Iterator[NDArray[np.int64]]:
    yield chosen_rows(*sets["records"], rows, **how)


def _apart(function: Callable[..., Iterator[_Item]], sets: Sets, *words: object) -> Iterator[_Item]:
    memory = MEMORY + memory_limit(max((file.rows for _, file in sets.values()), default=0))
    out = next((out for out, _ in sets.values()), Path())  # for messages
    try:
        forever = threading.TIMEOUT_MAX
        yield from in_child(out, function, sets, *words, seconds=forever, memory=memory)
    except SinkError as error:
        if error.__cause__ is None:  # of the database
            raise
        raise UsageError(
            "SQL: the process that was asked has crashed, perhaps for want of memory; ask for less"
        ) from error
