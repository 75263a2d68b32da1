"""Rows of a list that are of one image, joined: a row a label, or a row a caption."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_JOINED: Final = "rows joined with another one of the same image"


def joined(
    tables: Iterable[pa.Table], several: Iterable[str], counts: Counter[str]
) -> Iterator[pa.Table]:
    """A row an image, of consecutive rows that are the same but for some columns.

    Args:
        several: the columns of lists, which are joined.
        counts: gets how many rows are joined.
    """
    held = None  # the rows of the last image, of which the next table may have others
    for table in chain(tables, (None,)):
        rows = pa.concat_tables([it for it in (held, table) if it is not None]).combine_chunks()
        starts = _starts(rows, {*several, "row"})
        if len(rows) and table is not None:
            held, rows, starts = rows.slice(starts[-1]), rows.slice(0, starts[-1]), starts[:-1]
        images = rows.take(starts)
        if len(images) < len(rows):
            counts[_JOINED] += len(rows) - len(images)
            for name in several:
                column = rows[name].combine_chunks()
                ends = column.offsets.take(pa.array([*starts, len(rows)]))
                lists = pa.ListArray.from_arrays(ends, column.values)
                if name == "labels":
                    lists = pa.array([sorted({*it}) for it in lists.to_pylist()], column.type)
                else:
                    lists = pc.if_else(pc.equal(pc.list_value_length(lists), 0), None, lists)
                images = images.drop(name).append_column(name, lists)
        yield images


def _starts(rows: pa.Table, but: set[str]) -> NDArray[np.int64]:
    """Where a row differs from the one before."""
    differs = np.zeros(len(rows), bool)
    differs[:1] = True
    for name in rows.column_names if len(rows) > 1 else ():
        column = rows[name]
        if name in but:
            continue
        if pa.types.is_list(column.type):
            column = pc.binary_join(column.cast(pa.list_(pa.string())), "\n")
        one, other = column.slice(1), column.slice(0, len(rows) - 1)
        null = pc.not_equal(one.is_null(), other.is_null())
        differs[1:] |= pc.coalesce(pc.not_equal(one, other), null).to_numpy()
    return differs.nonzero()[0]
