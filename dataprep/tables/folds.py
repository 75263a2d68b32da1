"""Folds for cross-validation: a number from 0 for each image, so that nothing has to be copied.

Images of a group, such as a patient, have the same. Each fold gets of every label as many images as
the others, as nearly as whole groups allow:

* without groups, the images are numbered as they are for the shards (`dataprep.tables.order`): by
  their label sets, those alike next to each other, and by hash; every K-th is in the same fold. So
  the images of any label set, and those of all, differ by at most 1 between two folds;
* groups are taken from the largest to the smallest, of one size in the order of their hashes, and
  each goes to the fold that lacks its labels most.

Nothing depends on where images were found, nor on the machine. Images of a data set that grows keep
the folds that they have, and what is new fills them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dataprep.tables.database import Database, make_table, rows

NAME: Final = "fold"
"""Of the attribute."""

_SEED: Final = 0  # who is in which fold must not change with the order of the training images

_HASH: Final = f"md5_number(concat({_SEED}, chr(0), split, chr(0), {{unit}}))"
_UNIT: Final = 'coalesce("group", key)'

_IN_TURN: Final = f"""
create view folded as
select split, key, (row_number() over (
    partition by split order by category, {_HASH.format(unit="key")}) - 1) % {{folds}} as fold
from {{table}} join label_sets using (split, labels)
"""

_GROUPED: Final = 'select coalesce(bool_or("group" <> key), false) from {table}'

_GROUPS: Final = f"""
select split, unit, min(fold) as fold, count(*) as images, flatten(list(labels)) as labels from (
    select images.split, {_UNIT} as unit, {{fold}} as fold, labels
    from {{table}} as images {{known}}
) group by split, unit
order by split, min(fold) is null, count(*) desc, {_HASH.format(unit="unit")}
"""


def number_folds(database: Database, folds: int, table: str, *, grows: bool) -> None:
    """Make the view ``folded``: split, key and fold of the images of a table.

    Args:
        table: which; it has the columns split, key, labels and group.
        grows: whether there is a table ``known``, with folds that are kept.
    """
    ((grouped,),) = rows(database, _GROUPED.format(table=table))
    if not (grouped or grows):
        database.execute(_IN_TURN.format(table=table, folds=int(folds)))
        return
    known = "left join known using (split, key)" if grows else ""
    query = _GROUPS.format(table=table, fold=NAME if grows else "null::bigint", known=known)
    found = database.sql(query).to_arrow_table()
    there = pc.unique(pc.list_flatten(found["labels"])).to_pylist()
    names = {name: number for number, name in enumerate(sorted(there))}
    columns = ("split", "unit", "labels", "images", NAME)
    splits, units, *rest = (found[name].to_pylist() for name in columns)
    numbers: list[int] = []
    for stop in _ends(splits):
        labels, images, before = (column[len(numbers) : stop] for column in rest)
        some = [[names[label] for label in one or ()] for one in labels]
        numbers += balanced(some, images, before, folds)
    content = pa.table({"split": splits, "unit": units, NAME: pa.array(numbers, pa.int64())})
    make_table(database, "numbered", content)
    database.execute(
        f"create view folded as select images.split, key, numbered.fold from {table} as images "
        f"join numbered on numbered.split = images.split and numbered.unit = {_UNIT}"
    )


def _ends(splits: Sequence[str]) -> Iterator[int]:
    for number, split in enumerate(splits, start=1):
        if number == len(splits) or splits[number] != split:
            yield number


def balanced(
    labels: Sequence[Sequence[int]], images: Sequence[int], known: Sequence[int | None], folds: int
) -> list[int]:
    """A fold for each group, in the order in which they are given.

    Args:
        labels: of each group, the labels of all its images, each as often as it occurs.
        images: of each group, how many there are.
        known: the fold that it has already, if any; those come first.
    """
    count = 1 + max((label for some in labels for label in some), default=-1)
    totals = np.bincount([label for some in labels for label in some], minlength=count)
    # One more column for the images themselves.
    weights = 1.0 / np.maximum(np.append(totals, sum(images)), 1)
    there: NDArray[np.float64] = np.zeros((folds, count + 1))
    found: list[int] = []
    for some, size, fold in zip(labels, images, known, strict=True):
        columns, counts = np.unique([*some, count], return_counts=True)
        counts[-1] = size
        if fold is None or not 0 <= fold < folds:
            # The squares of what each fold would have, as shares of all, grow least there.
            shares = there[:, columns] * (counts * weights[columns] ** 2)
            fold = int(shares.sum(axis=1).argmin())
        there[fold, columns] += counts
        found.append(fold)
    return found
