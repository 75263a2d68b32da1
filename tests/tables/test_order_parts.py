"""The order in parts: the same as in one piece, whatever the parts."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from dataprep.rows import Row, Scanned
from dataprep.tables.order import (
    order_columns,
    order_is_current,
    shard_tables,
    shuffled,
    write_order,
)
from dataprep.tables.order_parts import Sort, make_part, slices_of, write_order_in_parts
from dataprep_schemas.manifest import Shuffle
from tests.tables.conftest import Find, row

TOKEN = "0" * 64
SHUFFLES: list[Shuffle] = ["stratified", "global", "none"]
CLASSES = ["ant", "bee", "cat", "dog"]


def scanned(generator: random.Random, images: int, *, multilabel: bool) -> list[Scanned]:
    """Units of images of several splits, classes and alphabets; the last has none."""
    units: list[dict[str, list[Row]]] = [{} for _ in range(4)]
    for number in range(images):
        many = generator.randint(0, 2) if multilabel else 1
        labels = tuple(sorted(generator.sample(range(len(CLASSES)), many)))
        key = f"{generator.choice(['a', 'b', 'z', 'é', '☃', '😀', 'ﻮ'])}/{number}"
        split = generator.choice(["train", "train", "test"])
        units[generator.randint(0, 2)].setdefault(split, []).append(row(key, labels=labels))
    return [Scanned(rows) for rows in units]


def blocks_of(directory: Path, split: str, shards: int) -> list[pa.Table]:
    """The rows of every shard."""
    return [
        pa.concat_tables(shard_tables(directory, split, shard)).combine_chunks()
        for shard in range(shards)
    ]


@pytest.mark.parametrize(
    "seeds", [range(3), pytest.param(range(3, 60), marks=pytest.mark.thorough)]
)
def test_it_is_the_same_in_any_number_of_parts(find: Find, tmp_path: Path, seeds: range) -> None:
    for seed in seeds:
        generator = random.Random(seed)
        multilabel = generator.random() < 0.5
        units = scanned(generator, generator.choice([30, 200]), multilabel=multilabel)
        found = find(*units, classes=CLASSES)
        found.choose(["train", "test"], CLASSES, multilabel=multilabel, seed=seed, limit=None)
        columns = order_columns(found)
        images = found.summaries()["train"].images
        for ranges in (1, 2, 3, 7):
            shuffle = generator.choice(SHUFFLES)
            shards = generator.randint(ranges, images)
            whole = tmp_path / f"{seed}-{ranges}-whole"
            parts = tmp_path / f"{seed}-{ranges}-parts"
            for directory in (whole, parts):
                directory.mkdir()
            ordered = shuffled(found.database, "train", images, shards, shuffle, seed, columns)
            write_order(whole, ordered, "train", images, shards, TOKEN)
            about = ("train", images, shards, shuffle, seed, TOKEN, columns)
            slices = slices_of(found.paths, generator.choice([1, 40, 1000]))
            sort = Sort(tmp_path, *about, slices, ranges)
            write_order_in_parts(found.database, parts, sort, partial(steps, generator))
            assert order_is_current(parts, "train", TOKEN)
            assert blocks_of(parts, "train", shards) == blocks_of(whole, "train", shards)
            assert not [*tmp_path.glob(".order*")]


def steps(generator: random.Random, sort: Sort) -> None:
    """Do all parts in any order, some twice."""
    numbers = [*range(sort.parts), 0]
    generator.shuffle(numbers)
    for number in numbers:
        make_part(sort, number)
