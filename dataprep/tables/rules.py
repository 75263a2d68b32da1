"""The rules that images must follow: each is one query, which finds nothing where it holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dataprep.errors import SourceError
from dataprep.system.messages import counted, printable, some_of
from dataprep.tables.database import Database, rows

_SHOWN: Final = 5  # of what cannot be listed in full

_BACK: Final = "bring back what was there"
_LEAVE_OUT: Final = f"{_BACK}, leave images out of the finished data set with `dataprep select`"

# What a data set that grows was made from, if it is not as it was; what is said of it, and what
# helps: a rejected image is in no data set that could leave it out.
_NOT_KEPT: Final = {
    "from (from known where status = 'rejected') anti join images using (split, key)": (
        "was rejected, and is not in that split of the raw data any more, or is left out now",
        _BACK,
    ),
    "from known anti join images using (split, key)": (
        "is not in that split of the raw data any more, or is left out now",
        _LEAVE_OUT,
    ),
    "from let_in": ("was left out by --exclude before and is not now", _LEAVE_OUT),
    "from known join images using (split, key) "
    "where ($labels and list_sort(coalesce(classes, [])) <> list_sort(coalesce(labels, []))) "
    "or ($sizes and status = 'stored' and bytes <> size)": (
        "has another size or other labels than when the data set was made",
        _LEAVE_OUT,
    ),
}


def check_splits_known(database: Database) -> None:
    """Every image has a split.

    Raises:
        SourceError: names some that have none.
    """
    ((number, keys),) = rows(
        database,
        "select count(*), list(key)[:$shown] from images where split is null",
        {"shown": _SHOWN},
    )
    if number:
        raise SourceError(
            f"{counted(number, 'image')} in no split: {some_of(keys)}; "
            "expected each in one of the lists of splits; correct the lists"
        )


def check_keys(database: Database) -> None:
    """No split has two images of one name.

    Raises:
        SourceError: names the first, and where both are.
    """
    # Numbers first: of hundreds of millions of names, they take far less room and time.
    twice = (
        "from (select hash(split, key) as number from images) group by number having count(*) > 1"
    )
    if not rows(database, f"select number {twice} limit 1"):
        return
    for split, key in rows(
        database,
        "select split, key from images group by split, key having count(*) > 1 "
        "order by split, key limit 1",
    ):
        one = {"split": split, "key": key}
        ((places,),) = rows(
            database,
            "select list(distinct container) from images where split = $split and key = $key",
            one,
        )
        ((place, lines, labels),) = rows(
            database,
            "select min(reason), list_sort(list(line)), list(distinct labels::varchar) from parts "
            "where status = 'image' and reason is not null "
            "and coalesce(split, $split) = $split and key = $key",
            one,
        )
        if place:
            raise _listed_twice(place, key, lines, labels)
        raise SourceError(
            f"{split}: two images have the same name, {printable(key)}, in "
            f"{' and '.join(map(printable, sorted(places)))}; rename one"
        )


def check_groups(database: Database, word: str) -> None:
    """No group, such as a patient, is in two splits.

    Raises:
        SourceError: names the first, with an image of each split.
    """
    for group, places in rows(
        database,
        "select \"group\", list(split || ' (' || key || ')' order by split = 'test', "
        "split != 'train') from (select \"group\", split, min(key) as key from images "
        'where "group" is not null group by "group", split) group by "group" '
        'having count(*) > 1 order by min(key), "group" limit 1',
    ):
        raise SourceError(
            f"{word} {printable(group)} is in {' and '.join(map(printable, places))}; expected "
            f"each {word} in one split only: give all its images the same split, or let "
            "dataprep make the splits, and run again"
        )


def check_listed_once(database: Database) -> None:
    """No image is in the lists twice.

    Raises:
        SourceError: names the first, and where.
    """
    for key, *found in rows(
        database,
        "select key, min(container), list_sort(list(line)), list(distinct labels::varchar) "
        "from listed group by key having count(*) > 1 order by key limit 1",
    ):
        place, lines, labels = found
        raise _listed_twice(place, key, lines, labels)


def check_kept(database: Database, *, sizes: bool, labels: bool) -> None:
    """The images that a data set was made from, which is to grow, are there as they were.

    Args:
        sizes: whether images are stored in the size in which they are found.
        labels: whether they have the labels with which they are found.

    Raises:
        SourceError: names the first that is not.
    """
    for query, (said, helps) in _NOT_KEPT.items():
        values = {"sizes": sizes, "labels": labels} if "$sizes" in query else {}
        for split, key, number in rows(
            database,
            f"select split, key, count(*) over () {query} order by split, key limit 1",
            values,
        ):
            others = f", and {counted(number - 1, 'other image')}" if number > 1 else ""
            raise SourceError(
                f"{split}: {printable(key)} {said}{others}; --append only adds: {helps}, or "
                "use --overwrite to make the data set of what there is now"
            )


def _listed_twice(
    place: str, key: str, lines: Sequence[int] | None, labels: Sequence[str]
) -> SourceError:
    where = f", lines {' and '.join(map(str, lines))}" if lines and lines[0] else ""
    helps = "remove one, if they say the same, or keep no --attribute_columns that differ"
    if len(labels) > 1:
        where += f", with the labels {some_of([label.strip('[]') for label in labels])}"
        helps = "if it has all of these, --label_separator joins rows that differ in nothing else"
    return SourceError(
        f"{printable(place)} lists {printable(key)} twice{where}; expected each image once; {helps}"
    )
