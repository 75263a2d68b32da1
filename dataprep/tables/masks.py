"""Joins images with their masks: both are rows of the index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dataprep.errors import SourceError
from dataprep.system.messages import printable
from dataprep.tables.arrow import PLACE
from dataprep_schemas.fields import MASK

if TYPE_CHECKING:
    from dataprep.tables.database import Database

_COLUMNS: Final = ", ".join(f'"{it}" := "{it}"' for it in PLACE)
_PLACE: Final = f"to_json(struct_pack({_COLUMNS}))::varchar"
_STEM: Final = r"regexp_replace(key, '\.[^./]*$', '')"
_MASKS: Final = f"""
create temp table masks as
select alias, split, key, {_PLACE} as place, parse_filename(alias) as name,
    if(split is null, alias, regexp_extract(alias, '/(.*)$', 1)) as rest
from parts where status = '{MASK.name}'
"""
_JOINED: Final = f"""
create or replace temp table masked as
with image as (
    select *, {_STEM} as stem, parse_filename({_STEM}) as name,
        regexp_extract({_STEM}, '/(.*)$', 1) as tail
    from {{images}})
select image.* exclude (stem, name, tail) replace (coalesce(one.place, two.place) as mask),
    coalesce(one.key, two.key) as mask_key
from image left join masks as one on {{one}}
left join masks as two on one.key is null and {{two}}
"""
_FOUND: Final = """
select count(*), count(mask), count(*) filter (starts_with(mask, '{{"')),
    coalesce(min(mask), (select min(key) from masks)) from {}
"""
# What is a split's folder here may be an image's class, or nothing, there.
_SPLIT: Final = (
    "({0}.split is null or image.split is null or {0}.split = image.split "
    "or ends_with(image.stem, '/' || {0}.alias))"
)
# A list says the path of a mask, perhaps below the folder of all.
_BY_LIST: Final = ("one.key = image.mask", "two.alias = image.mask")
# A mask has the path of its image, perhaps with the split's folder, or without the archive; or, if
# no mask of all has that, the last component of it. By one of them all masks are found: else an
# image without a mask would get one of another folder.
_BY_PATH: Final = (
    ("one.alias = image.stem", f"two.rest = image.stem and {_SPLIT.format('two')}"),
    (f"one.rest = image.tail and {_SPLIT.format('one')}", "false"),
    (f"one.name = image.name and {_SPLIT.format('one')}", "false"),
)
_TWICE: Final = """
select key, list(mask_key order by mask_key)[:2] from masked where mask_key is not null
group by split, key having count(*) > 1 order by key limit 1
"""
_SHARED: Final = """
select mask_key, list(key order by key)[:2] from masked where mask_key is not null
group by mask_key having count(*) > 1 order by mask_key limit 1
"""
_COUNTS: Final = """
select count(*) filter (mask is null), (
    select count(*) from masks where key not in (
        select mask_key from masked where mask_key is not null)) from masked
"""
WITHOUT, ALONE = "images without a mask", "masks without an image"


def said_of_masks(column: str) -> str:
    """SQL of what raw data says by a mask, wherever it lies: its file's size, or what draws it."""
    return f"coalesce(json_extract_string({column}, '$.size'), {column})"


def join_masks(database: Database, images: str, name: str) -> None:
    """Make the view of this name: the images, each with where its mask is.

    Args:
        images: the table of the images, in which masks are paths, if a list says these.

    Raises:
        SourceError: an image has two masks, two images have one, or there are masks of none.
    """
    database.execute(_MASKS)
    there, listed, drawn, first = database.execute(_FOUND.format(images)).fetchone() or ()
    if drawn or not there:
        database.execute(f"create view masked as select *, null as mask_key from {images}")
    for one, two in () if drawn or not there else (_BY_LIST,) if listed else _BY_PATH:
        database.execute(_JOINED.format(images=images, one=one, two=two))
        if database.execute("select count(mask_key) from masked").fetchone() != (0,):
            break
    else:
        if there and not drawn:
            what = f"{printable(first)} is called like none" if first else "there are no masks"
            what = f"{printable(first)} is not there" if listed else what
            raise SourceError(
                f"no image has a mask: {what}; check --mask_dir, --mask_suffix and --mask_column"
            )
    database.execute(f"create view {name} as select * exclude (mask_key) from masked")
    for query, what in ((_TWICE, "has the masks"), (_SHARED, "is the mask of")):
        for key, (one, other) in database.execute(query).fetchall():
            raise SourceError(
                f"{printable(key)} {what} {printable(one)} and {printable(other)}; expected one "
                "mask an image; give --mask_dir or --mask_suffix so that one is left, or the "
                "paths of masks in a listing (--mask_column)"
            )


def count_masks(database: Database) -> dict[str, int]:
    """How many images have no mask, and masks no image, if any; after `join_masks`."""
    counts = database.execute(_COUNTS).fetchone() or ()
    return {what: n for what, n in zip((WITHOUT, ALONE), counts, strict=True) if n}
