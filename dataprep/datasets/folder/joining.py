"""Rows of a list that are of one image, joined: a row a label, a caption or a box.

A row a box is what RetinaNet, TensorFlow and Open Images have.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from PIL import Image

from dataprep.datasets.folder.layout import ListingUnit
from dataprep.tables.database import identifier

BOX: Final = "box "  # before what a column says of a box, where columns have their meanings
_SIDES: Final = ("xmin", "ymin", "xmax", "ymax")
_SIZE: Final = ("width", "height")
_CALLED: Final = {"x1": "xmin", "y1": "ymin", "x2": "xmax", "y2": "ymax"}
_ORIENTATION: Final = 0x0112  # of EXIF
_LOOKS: Final = 16  # files looked at at once
_EMPTY: Final = "boxes without an area, left out"
_CUT_OFF: Final = "boxes cut off at the edge of their image"
_UNSIZED: Final = "boxes left out, since their image is turned by EXIF, or its size is unknown"


def joined(tables: Iterable[pa.Table], several: Iterable[str]) -> Iterator[tuple[pa.Table, int]]:
    """A row an image, of consecutive rows that are the same but for some columns.

    Args:
        several: the columns of lists, which are joined.

    Yields:
        Images, and how many rows are joined with another one.
    """
    held = None  # the rows of the last image, of which the next table may have others
    for table in chain(tables, (None,)):
        rows = pa.concat_tables([it for it in (held, table) if it is not None]).combine_chunks()
        starts = _starts(rows, {*several, "row"})
        if len(rows) and table is not None:
            held, rows, starts = rows.slice(starts[-1]), rows.slice(0, starts[-1]), starts[:-1]
        images = rows.take(starts)
        if len(images) < len(rows):
            for name in several:
                column = rows[name].combine_chunks()
                ends = column.offsets.take(pa.array([*starts, len(rows)]))
                lists = pa.ListArray.from_arrays(ends, column.values)
                if name == "labels":
                    lists = pa.array([sorted({*it}) for it in lists.to_pylist()], column.type)
                else:
                    lists = pc.if_else(pc.equal(pc.list_value_length(lists), 0), None, lists)
                images = images.drop(name).append_column(name, lists)
        yield images, len(rows) - len(images)


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


def box_columns(names: Iterable[str]) -> dict[str, str]:
    """The columns of boxes, and of their pictures' sizes if there are such, by what they say.

    They are called ``xmin``, ``x1``, ``XMin``, ``x_min``, ``bbox_x1``; ``width``, ``image_width``.
    """
    found: dict[str, str] = {}
    for name in names:
        plain = re.sub("^(roi|b?box|image|img)(?=.)", "", re.sub(r"[\W_]", "", name.lower()))
        found.setdefault(_CALLED.get(plain, plain), name)
    if not found.keys() >= {*_SIDES}:
        return {}
    return {side: found[side] for side in (*_SIDES, *_SIZE * (found.keys() >= {*_SIZE}))}


def box_sql(columns: Mapping[str, str]) -> str:
    """Columns of SQL: ``box``, its sides, null where a row has none; ``broken``; ``drawn_on``."""
    cells = {side: f"lower(trim({identifier(f'{BOX}{side}')}))" for side in columns}
    numbers = {side: f"try_cast({cell} as double)" for side, cell in cells.items()}
    there = " and ".join(f"coalesce(isfinite({numbers[side]}), false)" for side in _SIDES)
    said = " or ".join(f"coalesce({cells[side]} not in ('', 'nan'), false)" for side in _SIDES)
    box = ", ".join(numbers[side] for side in _SIDES)
    size = ", ".join(f"try_cast({numbers[side]} as integer)" for side in _SIZE if side in columns)
    return (
        f"case when {there} then [{box}] end as box, ({said}) and not ({there}) as broken, "
        f"{f'[{size}]' if size else 'null'}::integer[] as drawn_on"
    )


# SQL for how the boxes are given, of rows with what `box_sql` has.
FORM: Final = """
case when count(box) = 0 then ''
when max(greatest(box[3], box[4])) < 2 then 'fractions'
when bool_and(coalesce(drawn_on[1] > 0 and drawn_on[2] > 0, false)) filter (box is not null)
then 'pixels' else 'pixels of files' end
"""
# A query for whether an image has another number of labels than one.
SEVERAL: Final = """
select bool_or(low <> high or low in ('', 'null', '""')) from (
    select min(said) as low, max(said) as high
    from (select path, coalesce(trim(label::varchar), '') as said from ({}) where not blank)
    group by trim(path))
"""


def with_sizes(raw: Path, images: pa.Table) -> pa.Table:
    """With the files' own sizes as those of the pictures; null of one that EXIF turns.

    Nothing tells whether boxes were drawn before it was turned, or after.
    """
    places = zip(
        images["container"].to_pylist(), images["boxes"].is_valid().to_pylist(), strict=True
    )
    with ThreadPoolExecutor(_LOOKS) as pool:
        sizes = [*pool.map(lambda it: _size(raw / it[0]) if it[1] else None, places)]
    drawn_on = pa.array(sizes, pa.list_(pa.int32()))
    return images.drop("drawn_on").append_column("drawn_on", drawn_on)


def _size(path: Path) -> tuple[int, int] | None:
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(path) as image:
            return image.size if image.getexif().get(_ORIENTATION, 1) == 1 else None
    except (OSError, ValueError, Image.DecompressionBombError):
        return None  # what is wrong with it is told when it is stored


def in_fractions(images: pa.Table, unit: ListingUnit) -> tuple[pa.Table, Counter[str]]:
    """With boxes as fractions of their pictures, cut off at the edges; none without an area.

    And how many are cut off, or left out.
    """
    boxes, names = (images[it].combine_chunks() for it in ("boxes", "box_labels"))
    often = pc.fill_null(pc.list_value_length(boxes), 0).to_numpy()
    sides = boxes.flatten().flatten().to_numpy().reshape(-1, 4)
    if unit.boxes != "fractions":
        drawn = images["drawn_on"]
        size = [pc.list_element(drawn, at).to_numpy().astype(float) for at in (0, 1)]
        sides = sides / np.stack([it.repeat(often) for it in size * 2], axis=1)
    cut = sides.clip(0, 1)
    known = ~np.isnan(sides).any(axis=1)
    good = (cut[:, 0] < cut[:, 2]) & (cut[:, 1] < cut[:, 3])
    cut_off = good & (abs(sides - cut) > 1e-9).any(axis=1)
    whats = {_UNSIZED: ~known, _EMPTY: known & ~good, _CUT_OFF: cut_off}
    counts = Counter({what: int(those.sum()) for what, those in whats.items()})
    rows = np.arange(len(images)).repeat(often)[good]
    ends = pa.array(np.searchsorted(rows, np.arange(len(images) + 1)), pa.int32())
    kept = pa.array(cut[good].ravel())
    kept = pa.ListArray.from_arrays(pa.array(np.arange(0, len(kept) + 1, 4), pa.int32()), kept)
    images = images.drop(["boxes", "box_labels"])
    for name, values in (("boxes", kept), ("box_labels", names.flatten().filter(pa.array(good)))):
        lists = pa.ListArray.from_arrays(ends, values)
        empty = pc.equal(pc.list_value_length(lists), 0)
        if name == "boxes" or unit.several:  # else they show the only label
            images = images.append_column(name, pc.if_else(empty, None, lists))
    return images, +counts
