"""Boxes of a list with a row a box, as RetinaNet, TensorFlow and Open Images have them."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from dataprep.datasets.folder.layout import ListingUnit
from dataprep.tables.database import identifier

BOX: Final = "box "
"""Before what a column says of a box, where columns have their meanings."""

_SIDES: Final = ("xmin", "ymin", "xmax", "ymax")
_SIZE: Final = ("width", "height")
_CALLED: Final = {"x1": "xmin", "y1": "ymin", "x2": "xmax", "y2": "ymax"}
_ORIENTATION: Final = 0x0112  # of EXIF
_LOOKS: Final = 16  # files looked at at once
_EMPTY: Final = "boxes without an area, left out"
_CUT_OFF: Final = "boxes cut off at the edge of their image"
_UNSIZED: Final = "boxes left out, since their image is turned by EXIF, or its size is unknown"


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
    """Columns of SQL: ``box``, a struct, null where a row has none; ``broken``; ``drawn_on``."""
    cells = {side: f"lower(trim({identifier(f'{BOX}{side}')}))" for side in columns}
    numbers = {side: f"try_cast({cell} as double)" for side, cell in cells.items()}
    there = " and ".join(f"coalesce(isfinite({numbers[side]}), false)" for side in _SIDES)
    said = " or ".join(f"coalesce({cells[side]} not in ('', 'nan'), false)" for side in _SIDES)
    box = ", ".join(f"'{side}': {numbers[side]}" for side in _SIDES)
    size = ", ".join(f"try_cast({numbers[side]} as integer)" for side in _SIZE if side in columns)
    return (
        f"case when {there} then {{{box}}} end as box, ({said}) and not ({there}) as broken, "
        f"{f'[{size}]' if size else 'null'}::integer[] as drawn_on"
    )


FORM: Final = """
case when count(box) = 0 then ''
when max(greatest(box.xmax, box.ymax)) < 2 then 'fractions'
when bool_and(coalesce(drawn_on[1] > 0 and drawn_on[2] > 0, false)) filter (box is not null)
then 'pixels' else 'pixels of files' end
"""
"""SQL for how the boxes are given, of rows with what `box_sql` has."""


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


def in_fractions(images: pa.Table, unit: ListingUnit, counts: Counter[str]) -> pa.Table:
    """With boxes as fractions of their pictures, cut off at the edges; none without an area."""
    boxes, names = (images[it].combine_chunks() for it in ("boxes", "box_labels"))
    often = pc.fill_null(pc.list_value_length(boxes), 0).to_numpy()
    sides = np.stack([boxes.flatten().field(side).to_numpy() for side in _SIDES], axis=1)
    if unit.boxes != "fractions":
        drawn = images["drawn_on"]
        size = [pc.list_element(drawn, at).to_numpy().astype(float) for at in (0, 1)]
        sides = sides / np.stack([it.repeat(often) for it in size * 2], axis=1)
    cut = sides.clip(0, 1)
    known = ~np.isnan(sides).any(axis=1)
    good = (cut[:, 0] < cut[:, 2]) & (cut[:, 1] < cut[:, 3])
    for what, those in (
        (_UNSIZED, ~known),
        (_EMPTY, known & ~good),
        (_CUT_OFF, good & (abs(sides - cut) > 1e-9).any(axis=1)),
    ):
        if those.any():
            counts[what] += int(those.sum())
    rows = np.arange(len(images)).repeat(often)[good]
    ends = pa.array(np.searchsorted(rows, np.arange(len(images) + 1)), pa.int32())
    structs = pa.StructArray.from_arrays([pa.array(cut[good, at]) for at in range(4)], [*_SIDES])
    images = images.drop(["boxes", "box_labels"])
    for name, values in (("boxes", structs), ("box_labels", names.flatten().filter(good))):
        lists = pa.ListArray.from_arrays(ends, values)
        empty = pc.equal(pc.list_value_length(lists), 0)
        if name == "boxes" or unit.several:  # else they show the only label
            images = images.append_column(name, pc.if_else(empty, None, lists))
    return images
