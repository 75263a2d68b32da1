"""The images that there are now, compared with those of a data set that there is already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dataprep.tables.database import tables

if TYPE_CHECKING:
    from dataprep.tables.images import Images

# An image that is elsewhere is known by its key or, if its folder was renamed, by name and size.
_COMPARED: Final = """
with old as (
    select true as known, split, key, labels, classes,
        if($sizes and status = 'stored', bytes, null) as size
    from {table} where position is not null or status = 'rejected'),
now as (
    select true as there, split, key, numbers, labels, size
    from chosen join label_sets using (split, labels)),
other as materialized (
    select split, key, known, there, old.labels as before, numbers, old.size as size_before,
        now.size as size, parse_filename(key) as name,
        list_sort(classes) <> list_sort(now.labels) or old.size <> now.size as changed
    from old full join now using (split, key)
    where known is null or there is null or old.labels <> numbers or changed),
gone as (from other where there is null),
come as (from other where known is null),
same as (
    select before <> numbers as renumbered, false as moved, changed
    from other where known and there union all
    select gone.before <> come.numbers, gone.split <> come.split, false
    from gone join come using (key) union all
    (select gone.before <> come.numbers, gone.split <> come.split, false
    from (from gone anti join come using (key)) as gone
    join (from come anti join gone using (key)) as come
    on gone.name = come.name and gone.size_before = come.size
    qualify greatest(count(*) over (partition by gone.split, gone.key),
        count(*) over (partition by come.split, come.key)) = 1))
select count_if(renumbered), count_if(moved),
    (select count(*) from come),
    (select count(distinct regexp_replace(key, '[^/]*$', '')) from come),
    (select count(*) from gone),
    count_if(changed)
from same
"""


def compared(images: Images, *, sizes: bool) -> tuple[int, ...]:
    """What is chosen, with the table that was sealed, which must have been looked at.

    Args:
        sizes: whether images are stored in the size in which they are found.

    Returns:
        How many images get other numbers of classes; another split; how many are new, and in
        how many folders; how many are gone; how many have other labels or another size.
    """
    table = tables([images.sealed] if images.sealed else [])
    found: tuple[int, ...] = images.rows(_COMPARED.format(table=table), {"sizes": sizes})[0]
    return found


def vanished(images: Images) -> tuple[int, str, str, str | None]:
    """How many known images there are no more; split, key and present split of the first."""
    found = images.rows(
        "select split, key, count(*) over () from known anti join images using (split, key) "
        "order by split, key limit 1"
    )
    if not found:
        return 0, "", "", None
    split, key, number = found[0]
    ((now,),) = images.rows("select min(split) from images where key = $key", {"key": key})
    return number, split, key, now


def changed(images: Images, *, sizes: bool) -> tuple[int, str, str]:
    """How many known images have other labels now; split and key of the first.

    Args:
        sizes: also those that have other sizes than what is stored of them.
    """
    found = images.rows(
        "select count(*) over (), split, key from known join images using (split, key) "
        "where list_sort(coalesce(classes, [])) <> list_sort(coalesce(labels, [])) "
        "or ($sizes and status = 'stored' and bytes <> size) order by split, key limit 1",
        {"sizes": sizes},
    )
    return found[0] if found else (0, "", "")


def included(images: Images) -> tuple[int, str]:
    """How many fresh images --exclude left out before; the key of the first."""
    if images.known is None:
        return 0, ""
    ((number, first),) = images.rows(
        "select count(*), min(key) from fresh semi join (select split, key from "
        f"{tables([images.known])} where status = 'excluded') using (split, key)"
    )
    return number, first or ""
