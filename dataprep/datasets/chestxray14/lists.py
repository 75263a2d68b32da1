"""What the lists of ChestX-ray14 say together: tables of SQL, and from them the index."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dataprep.datasets.chestxray14.boxes import BOXES, read_boxes
from dataprep.datasets.chestxray14.files import Lists
from dataprep.datasets.chestxray14.labels import read_labels
from dataprep.datasets.chestxray14.splits import cut_patients, read_sides
from dataprep.datasets.splitting import Cut
from dataprep.index.database import Database, open_database
from dataprep.system.messages import counted, printable

if TYPE_CHECKING:
    import pyarrow as pa

_IMAGES: Final = """
create view images as
select labels.*, case when test then 'test' else split end as split
from labels left join sides using (key) left join cut using (patient_id)
"""
_LISTED: Final = """
with marked as (
  select
    key,
    list({'xmin': xmin, 'ymin': ymin, 'xmax': xmax, 'ymax': ymax} order by line) as boxes,
    list(finding order by line) as box_labels,
  from boxes group by key
)
select 'listed' as status, images.*, patient_id::text as "group", $place as container, boxes,
  box_labels,
from images left join marked using (key)
order by line
"""
_COUNTS: Final = {
    "age out of range": "select count(*) from images where split is not null and too_old",
    "box clipped to its image": (
        "select count(*) from boxes join images using (key) where split is not null and clipped"
    ),
    "box of a finding its image is not labelled with": (
        "select count(*) from boxes join images using (key) "
        "where split is not null and not list_contains(labels, finding)"
    ),
}


@contextmanager
def open_lists(lists: Lists, cut: Cut) -> Iterator[Database]:
    """The lists as tables: ``labels``, ``sides``, ``cut``, ``boxes``, and together ``images``.

    They are small, so nothing is kept from one use to the next.

    Raises:
        SourceError: a list cannot be used, or the official lists share a patient.
    """
    with open_database(Path(tempfile.gettempdir())) as database:
        read_labels(database, lists.labels)
        read_sides(database, lists.sides)
        cut_patients(database, cut)
        database.execute(BOXES)
        if lists.boxes:
            read_boxes(database, lists.boxes)
        database.execute(_IMAGES)
        yield database


def read_listed(lists: Lists, cut: Cut) -> tuple[pa.Table, Mapping[str, int]]:
    """What the lists say of each image, as rows of the index, and what the user should know of.

    Raises:
        SourceError: see `open_lists`.
    """
    with open_lists(lists, cut) as database:
        table = database.sql(_LISTED, params={"place": lists.labels.place}).to_arrow_table()
        counts = {what: _number(database, query) for what, query in _COUNTS.items()}
    return table, {what: count for what, count in counts.items() if count}


def describe(lists: Lists, cut: Cut) -> tuple[str, str, str]:
    """What the lists are and how much is in them: labels, splits, boxes; a line each.

    Raises:
        SourceError: see `open_lists`.
    """
    with open_lists(lists, cut) as database:
        return (
            _labels_line(database, lists),
            _splits_line(database, lists, cut),
            _boxes_line(database, lists),
        )


def _labels_line(database: Database, lists: Lists) -> str:
    images = _number(database, "select count(*) from labels")
    patients = _number(database, "select count(distinct patient_id) from labels")
    older = f"; {lists.passed_over} is there too and not read" if lists.passed_over else ""
    return (
        f"labels: {printable(lists.labels.place)}, {counted(images, 'image')} of "
        f"{counted(patients, 'patient')}{older}"
    )


def _splits_line(database: Database, lists: Lists, cut: Cut) -> str:
    # Rounded: 0.10000000000000001 is as good as a fraction of 17 digits would be unreadable.
    shares = " and ".join(f"{float(share):g} {split}" for split, share in cut.shares)
    if not lists.sides:
        return f"splits: patients at random, {shares}, seed {cut.seed}"
    extra = _number(database, "select count(distinct key) from sides anti join labels using (key)")
    train_validation, test = (printable(side.place) for side in lists.sides)
    note = f"; {counted(extra, 'name')} in them without labels, left out" if extra else ""
    return (
        f"splits: official, {train_validation} (of its patients {shares}, seed {cut.seed}) and "
        f"{test}{note}"
    )


def _boxes_line(database: Database, lists: Lists) -> str:
    if not lists.boxes:
        return "boxes: no list"
    boxes = _number(database, "select count(*) from boxes")
    images = _number(database, "select count(distinct key) from boxes")
    return f"boxes: {printable(lists.boxes.place)}, {boxes:,} on {counted(images, 'image')}"


def _number(database: Database, query: str) -> int:
    (number,) = database.execute(query).fetchone() or (0,)
    return int(number)
