"""Label sets in numbers, and the order in which a multi-label data set's are assigned to shards.

`dataprep.tables.order` assigns images in a sequence in which those of a label set are consecutive.
A label is spread best if the sets that have it are neighbours too: a run of consecutive images
gives any two shards the same number of them, within 1. So the labels are ranked from the rarest to
the most frequent, and the sets follow one another as in the reflected Gray code of (has the
rarest, has the second rarest, …). F. Gray, "Pulse code communication", US patent 2,632,058.

For every input this gives:

* the shards' sizes differ by at most 1;
* the count of every label set differs by at most 1 between any two shards;
* the count of a label differs by at most its runs: how many stretches of consecutive label sets
  have it. The label of rank r, the rarest being 1, has at most 2 ** (r - 2) runs, and the two
  rarest have one; and never more runs than there are combinations of rarer labels it occurs with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Final

import pyarrow as pa

from dataprep.errors import SourceError
from dataprep.system.messages import printable
from dataprep.tables.database import Database, make_table, rows

LabelSet = tuple[int, ...]
"""The labels of an image, ascending; empty if it has none."""

_FOUND: Final = """
select split, labels, count(*), min(key) from fresh
where split in $splits group by split, labels order by split, labels
"""


_RENAMED: Final = """
create view {name} as
select {table}.* replace (known.identifiers as labels{more})
from {table} left join {name}_labels as known
on {table}.labels = known.labels
"""
# Of another column of lists; a lambda takes no table.
_EACH: Final = """, list_transform(
    {column}, lambda label: coalesce(getvariable('{name}_names')[label], label)
) as {column}"""


def rename_labels(
    database: Database,
    table: str,
    name: str,
    renamed: Mapping[str, str],
    *,
    ordered: bool = True,
    more: Sequence[str] = (),
) -> None:
    """Make the view of this name: a table whose ``labels`` have other names.

    Args:
        renamed: by what they are called; those that get no name are taken away.
        ordered: whether those of an image are to be sorted, each once; else they stay as they are.
        more: other columns of such names, as they stand.
    """
    found = rows(database, f"select distinct labels from {table} where labels is not null")
    named = [[renamed.get(label, label) for label in labels] for (labels,) in found]
    if ordered:
        named = [sorted({*labels} - {""}) for labels in named]
    kind = pa.list_(pa.string())
    columns = {
        "labels": pa.array([labels for (labels,) in found], kind),
        "identifiers": pa.array(named, kind),
    }
    make_table(database, f"{name}_labels", pa.table(columns))
    names = pa.table({"label": [*renamed], "name": [*renamed.values()]})
    make_table(database, f"{name}_names", names)
    query = f"(select map(list(label), list(name)) from {name}_names)"
    database.execute(f"set variable {name}_names = {query}")
    each = "".join(_EACH.format(column=column, name=name) for column in more)
    database.execute(_RENAMED.format(name=name, table=table, more=each))


def number_label_sets(
    database: Database, splits: Sequence[str], classes: Sequence[str], *, multilabel: bool
) -> None:
    """Make the tables ``classes`` and ``label_sets`` of the images in ``fresh``.

    ``classes`` are ``name`` and ``number``; ``label_sets``, what each set of labels is in numbers:
    ``split``, ``labels`` as in ``fresh``, ``numbers`` (0-based, ascending), ``category``: of those
    next to each other when images are assigned to shards, and ``images``: how many have it.

    Raises:
        SourceError: an image has a class that is not known, or not as many as it must have.
    """
    number = {name: position for position, name in enumerate(classes)}
    found = rows(database, _FOUND, {"splits": [*splits]})
    for split, labels, _, example in found:
        _check(split, labels or (), example, number, multilabel=multilabel)
    numbers = [tuple(sorted(number[name] for name in row[1] or ())) for row in found]
    categories: list[int] = []
    for _, group in groupby(zip(found, numbers, strict=True), key=lambda pair: pair[0][0]):
        some_rows = [*group]
        counts: Counter[LabelSet] = Counter()
        for row, some in some_rows:
            counts[some] += row[2]
        ranks = rank_label_sets(counts) if multilabel else {some: some[0] for some in counts}
        categories += [ranks[some] for _, some in some_rows]
    columns = {
        "split": pa.array([row[0] for row in found], pa.string()),
        "labels": pa.array([row[1] for row in found], pa.list_(pa.string())),
        "numbers": pa.array(numbers, pa.list_(pa.int32())),
        "category": pa.array(categories, pa.int32()),
        "images": pa.array([row[2] for row in found], pa.int64()),
    }
    names = {"name": pa.array(classes, pa.string()), "number": range(len(classes))}
    for name, content in (("label_sets", columns), ("classes", names)):
        make_table(database, name, pa.table(content))


def _check(
    split: str, labels: Sequence[str], example: str, number: Mapping[str, int], *, multilabel: bool
) -> None:
    unknown = [name for name in labels if name not in number]
    if unknown:
        raise SourceError(
            f"{split}: {printable(example)} has the unknown class {printable(unknown[0])}; "
            "expected one of the list of classes; add what is missing there"
        )
    if not multilabel and len(labels) != 1:
        raise SourceError(
            f"{split}: {printable(example)} has {len(labels)} labels, expected exactly one; "
            "a data set whose images have any number must say so (multilabel)"
        )


def rank_label_sets(counts: Mapping[LabelSet, int]) -> dict[LabelSet, int]:
    """Each label set's place in the sequence, from 0, given how many images have it."""
    places = {label: place for place, label in enumerate(_rarest_first(counts))}
    return {labels: rank for rank, labels in enumerate(sorted(counts, key=_gray_order(places)))}


def _rarest_first(counts: Mapping[LabelSet, int]) -> list[int]:
    images: Counter[int] = Counter()
    for labels, count in counts.items():
        for label in labels:
            images[label] += count
    return sorted(images, key=lambda label: (images[label], label))


def _gray_order(places: Mapping[int, int]) -> Callable[[LabelSet], tuple[int, ...]]:
    """The sort key of a label set: as tuples of these compare, so do the ranks in the Gray code.

    The rank's binary digits are the set's, each xor all before it: they rise at the first label's
    place, fall at the second's, rise at the third's and so on. Of two sets with the same first
    labels the one that rises sooner, or falls later, comes later. No label at all is as one
    behind all others. Thus thousands of classes cost no more than the labels an image has.
    """
    end = len(places)

    def order(labels: LabelSet) -> tuple[int, ...]:
        turns = sorted(places[label] for label in labels)
        return tuple(place if number % 2 else -place for number, place in enumerate((*turns, end)))

    return order
