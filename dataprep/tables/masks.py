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
_JOINED: Final = f"""
create temp table masks as
select alias, split, key, {_PLACE} as place, parse_filename(alias) as name,
    if(split is null, alias, regexp_extract(alias, '/(.*)$', 1)) as rest
from parts where status = '{MASK.name}';
create temp table masked as
with image as (select *, {_STEM} as stem, parse_filename({_STEM}) as name from {{images}})
select image.* replace (coalesce(one.place, two.place, three.place) as mask),
    coalesce(one.key, two.key, three.key) as mask_key
from image left join masks as one on {{one}}
left join masks as two on one.key is null and {{two}}
left join masks as three on one.key is null and two.key is null and {{three}};
create view {{name}} as select * exclude (mask_key, stem, name) from masked
"""
# What is a split's folder here may be an image's class, or nothing, there.
_SPLIT: Final = (
    "({0}.split is null or image.split is null or {0}.split = image.split "
    "or ends_with(image.stem, '/' || {0}.alias))"
)
# A list says the path of a mask, perhaps below the folder of all.
_BY_LIST: Final = {
    "one": "one.key = image.mask",
    "two": "two.alias = image.mask",
    "three": "false",
}
# A mask has the path of its image, perhaps with the split's folder; or, where no mask has that, the
# last component of it.
_BY_PATH: Final = {
    "one": "one.alias = image.stem",
    "two": f"two.rest = image.stem and {_SPLIT.format('two')}",
    "three": f"three.name = image.name and {_SPLIT.format('three')}",
}
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
        SourceError: an image has two masks, or two images have one.
    """
    (listed,) = database.execute(f"select count(mask) from {images}").fetchone() or (0,)
    ways = _BY_LIST if listed else _BY_PATH
    database.execute(_JOINED.format(images=images, name=name, **ways))
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
