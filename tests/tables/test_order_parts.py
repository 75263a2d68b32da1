"""The order in parts: the same as in one piece, whatever the parts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from dataprep.errors import PipelineError, SinkError
from dataprep.rows import Row, Scanned
from dataprep.tables.order import (
    order_columns,
    order_is_current,
    shard_tables,
    shuffled,
    write_order,
)
from dataprep.tables.order_parts import Slice, Sort, make_part, slices_of, write_order_in_parts
from dataprep_schemas.manifest import Shuffle
from tests.conftest import nightly
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


@pytest.mark.parametrize("seeds", [range(3), *nightly(range(3, 30))])
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


def test_large_units_are_cut_and_small_ones_put_together(tmp_path: Path) -> None:
    paths = []
    for number, groups in enumerate([(3, 3, 1), (2,), (1,), (9,), ()]):
        paths.append(tmp_path / str(number))
        with parquet.ParquetWriter(paths[-1], pa.schema({"n": pa.int8()})) as file:
            for size in groups:
                file.write_table(pa.table({"n": pa.array(range(size), pa.int8())}))
    one, two, three, four, five = paths
    assert slices_of(paths, 6) == (
        (Slice((one,), 0, 5),),
        (Slice((two, three)), Slice((one,), 6), Slice((four,), 0, 8)),
        (Slice((five,)),),
    )


@pytest.fixture
def sort(find: Find, tmp_path: Path) -> Sort:
    """The first of two ranges of ten images, and the tables that it needs."""
    found = find(Scanned({"train": [row(f"{number}") for number in range(10)]}))
    found.choose(["train"], ["a", "b", "c"], multilabel=False, seed=0, limit=None)
    sets = found.database.sql("from label_sets").to_arrow_table()
    parquet.write_table(sets, tmp_path / "label_sets.parquet")
    columns, slices = order_columns(found), slices_of(found.paths)
    return Sort(tmp_path, "train", 10, 2, "stratified", 0, TOKEN, columns, slices, 2)


def test_a_file_that_was_damaged_meanwhile_is_told(sort: Sort) -> None:
    make_part(sort, 0)
    path = sort.path("scatter", 0)
    data = bytearray(path.read_bytes())
    data[data.index(b".tar")] ^= 1
    path.write_bytes(data)
    rank = replace(sort, step="rank", bases=(0, 5))
    with pytest.raises(SinkError, match="cannot be written while putting images in order"):
        steps_of(["rank"], rank)


def test_who_was_taken_for_dead_fails_silently(sort: Sort) -> None:
    make_part(sort, 0)
    rank = replace(sort, step="rank", bases=(0, 5))
    for number in range(2):
        make_part(rank, number)
    made = sort.path("rank", 0).read_bytes()
    sort.path("scatter", 0).unlink()
    make_part(rank, 0)
    assert sort.path("rank", 0).read_bytes() == made
    make_part(replace(rank, directory=sort.directory / "gone"), 0)
    sort.path("rank", 1).unlink()
    with pytest.raises(SinkError, match="putting images in order"):
        make_part(rank, 1)


def test_an_engine_that_did_nothing_is_told(sort: Sort, find: Find, tmp_path: Path) -> None:
    found = find(Scanned({"train": [row(f"{number}") for number in range(10)]}))
    found.choose(["train"], ["a", "b", "c"], multilabel=False, seed=0, limit=None)
    for does in ((), ("scatter", "rank")):
        with pytest.raises(PipelineError, match="train was not put in order"):
            write_order_in_parts(found.database, tmp_path, sort, partial(steps_of, does))
        assert not [*tmp_path.glob(".*")]


def steps_of(steps: Sequence[str], sort: Sort) -> None:
    for number in range(sort.parts) if sort.step in steps else ():
        make_part(sort, number)
