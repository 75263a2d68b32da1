"""What a report says in numbers: queries on the table of records."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import exp
from typing import Final

import pyarrow as pa

from dataprep.tables.database import Database, make_table, rows

# Heading, SQL of the value, and whether its bins grow with it.
_MEASURED: Final = (
    ("width in pixels", "width", True),
    ("height in pixels", "height", True),
    ("width to height", "width / height", True),
    ("bytes as stored", "bytes", True),
    ("mean grey level", "brightness", False),
    ("contrast (standard deviation of grey levels)", "contrast", False),
)
_BINS: Final = 40


@dataclass(frozen=True, slots=True)
class Histogram:
    """How a measure of the images is distributed."""

    title: str
    edges: tuple[float, ...]  # of the bins, one more than there are counts
    counts: tuple[int, ...]
    growing: bool  # each bin is wider than the one before by the same factor


@dataclass(frozen=True, slots=True)
class ClassCount:
    """A class, and how many images of each split have it."""

    number: int
    identifier: str
    name: str
    images: dict[str, int]

    @property
    def total(self) -> int:
        """Over all splits."""
        return sum(self.images.values())


def histograms(database: Database) -> list[Histogram]:
    """Of every measure that differs between images; ``images`` as `dataprep.review` makes it."""
    found = []
    for title, value, growing in _MEASURED:
        # A forged table may have any numbers.
        scaled = f"if(isfinite({value}), {value}::double, null)"
        if growing:
            scaled = f"if({value} > 0 and isfinite({value}), ln({value}), null)"
        ((low, high),) = rows(database, f"select min({scaled}), max({scaled}) from images")
        if low is None or high - low < 1e-9:
            continue
        step = (high - low) / _BINS
        counts = dict(
            rows(
                database,
                "select least(floor((scaled - $low) / $step), $last)::integer, count(*) "
                f"from (select {scaled} as scaled from images) where scaled is not null group by 1",
                {"low": low, "step": step, "last": _BINS - 1},
            )
        )
        edges = [low + step * number for number in range(_BINS + 1)]
        if growing:
            edges = [exp(edge) for edge in edges]
        bars = tuple(counts.get(number, 0) for number in range(_BINS))
        found.append(Histogram(title, tuple(edges), bars, growing))
    return found


def class_counts(database: Database, splits: Iterable[str]) -> list[ClassCount]:
    """Every class of the list, in its order, whether or not it has images."""
    found: dict[int, ClassCount] = {}
    query = "select number, class, name, split, images from counted order by number, split"
    for number, identifier, name, split, images in rows(database, query):
        entry = ClassCount(number, identifier, name, dict.fromkeys(splits, 0))
        found.setdefault(number, entry).images[split] = images
    return list(found.values())


def sample(
    database: Database, splits: Sequence[str], *, images: int, seed: int
) -> list[tuple[int, str, str]]:
    """Images to show: the same number of each class, chosen by a hash of their keys.

    Of more classes than images, some classes are shown with one image each.

    Returns:
        (class number, split, key) in the order of the classes; training images where there are
        any.
    """
    split = "train" if "train" in splits else splits[0]
    query = "select count(*) from counted where images > 0 and split = $split"
    ((classes,),) = rows(database, query, {"split": split})
    each = max(min(images // max(classes, 1), 12), 1)
    found = rows(
        database,
        """
        with shown as (
            select number from counted where images > 0 and split = $split
            order by md5(concat($seed, chr(0), number)), number limit $classes
        ), ranked as (
            select label, min_by(key, md5(concat($seed, chr(0), key)), $each) as keys
            from (select unnest(labels) as label, key from images where split = $split)
            where label in (from shown) group by label
        )
        select label, key from (select label, unnest(keys) as key from ranked)
        order by label, md5(concat($seed, chr(0), key)), key
        """,
        {"split": split, "seed": seed, "classes": images // each, "each": each},
    )
    return [(label, split, key) for label, key in found]


def rows_of(database: Database, images: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """The row in the table of records of each of these images that is stored, by (split, key)."""
    asked = pa.table(
        {
            "split": pa.array([split for split, _ in images], pa.string()),
            "key": pa.array([key for _, key in images], pa.string()),
        }
    )
    make_table(database, "asked", asked)
    found = rows(
        database, "select split, key, number from images semi join asked using (split, key)"
    )
    return {(split, key): number for split, key, number in found}
