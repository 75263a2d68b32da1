"""The order: properties over random inputs, and one golden vector that must never change."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.errors import SinkError
from dataprep.rows import Row, Scanned
from dataprep.tables import order as module
from dataprep.tables.order import (
    order_columns,
    order_is_current,
    read_shard,
    shuffled,
    write_order,
)
from dataprep_schemas.manifest import Shuffle
from tests.tables.conftest import Find

SHUFFLES: list[Shuffle] = ["stratified", "global", "none"]
DATABASE = duckdb.connect()
TOKEN = "0" * 64


@st.composite
def images(draw: st.DrawFn) -> tuple[list[str], list[int], int]:
    """Unique keys, a category for each, and a shard count that leaves no shard empty."""
    words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
    keys = draw(st.lists(words, min_size=1, max_size=60, unique=True))
    categories = draw(st.lists(st.integers(0, 6), min_size=len(keys), max_size=len(keys)))
    return keys, categories, draw(st.integers(1, len(keys)))


def assigned(
    keys: list[str], categories: list[int], shards: int, shuffle: Shuffle, seed: int = 0
) -> list[list[str]]:
    """The keys of each shard, as the program orders them."""
    DATABASE.execute(
        "create or replace table chosen as select 'train' as split, unnest($1) as key, "
        "unnest($2) as labels",
        [keys, categories],
    )
    DATABASE.execute(
        "create or replace table label_sets as select distinct split, labels, labels as category, "
        "[labels] as numbers from chosen"
    )
    how: dict[str, Any] = {"shuffle": shuffle, "seed": seed, "columns": "key"}
    table = pa.concat_tables(shuffled(DATABASE, "train", len(keys), shards, **how))
    found = [*zip(*(table.column(name).to_pylist() for name in ("shard", "key")), strict=True)]
    assert [shard for shard, _ in found] == sorted(shard for shard, _ in found)
    return [[key for shard, key in found if shard == number] for number in range(shards)]


def even_sizes(images: int, shards: int) -> list[int]:
    """Within 1, the longer ones first."""
    return [images // shards + (number < images % shards) for number in range(shards)]


def reference(
    keys: list[str], categories: list[int], shards: int, shuffle: Shuffle, seed: int = 0
) -> list[list[str]]:
    """The same as the documentation has it."""
    if shuffle == "none":
        ends = [0, *accumulate(even_sizes(len(keys), shards))]
        return [sorted(keys)[start:stop] for start, stop in pairwise(ends)]

    def image_hash(key: str) -> int:
        return int.from_bytes(hashlib.md5(f"{seed}\0train\0{key}".encode()).digest(), "little")

    def lower_half_first(key: str) -> tuple[int, int]:
        return image_hash(key) % (1 << 64), image_hash(key)

    category = dict(zip(keys, categories, strict=True))
    in_turn = sorted(
        keys, key=lambda key: (category[key] * (shuffle == "stratified"), image_hash(key))
    )
    return [sorted(in_turn[number::shards], key=lower_half_first) for number in range(shards)]


@given(images(), st.sampled_from(SHUFFLES), st.randoms(use_true_random=False))
def test_it_is_what_is_documented_and_even_however_images_were_found(
    found_images: tuple[list[str], list[int], int], shuffle: Shuffle, generator: random.Random
) -> None:
    keys, categories, shards = found_images
    found = assigned(keys, categories, shards, shuffle)
    assert found == reference(keys, categories, shards, shuffle)
    sizes = [len(shard) for shard in found]
    assert sizes == even_sizes(len(keys), shards)
    if shuffle == "stratified":
        category_of = dict(zip(keys, categories, strict=True))
        for category in set(categories):
            counts = [Counter(map(category_of.get, shard))[category] for shard in found]
            assert max(counts) - min(counts) <= 1
    pairs = list(zip(keys, categories, strict=True))
    generator.shuffle(pairs)
    mixed = [key for key, _ in pairs], [category for _, category in pairs]
    assert assigned(*mixed, shards, shuffle) == found


def test_another_seed_is_another_order() -> None:
    keys = [f"{number:03d}" for number in range(200)]
    categories = [number % 5 for number in range(200)]
    first = assigned(keys, categories, 4, "stratified", seed=0)
    assert first != assigned(keys, categories, 4, "stratified", seed=1)


def test_golden_vector() -> None:
    # Made by this code in 2026-11 and frozen: another order means that every data set in the world
    # would be made anew.
    keys = [f"n{category:08d}/{number}.JPEG" for category in range(3) for number in range(4)]
    categories = [category for category in range(3) for _ in range(4)]
    found = assigned(keys, categories, 3, "stratified", seed=7)
    assert [[keys.index(key) for key in shard] for shard in found] == GOLDEN


GOLDEN = [[0, 5, 1, 11], [7, 10, 3, 6], [8, 4, 9, 2]]


ROWS = [
    Row(
        f"{number:03d}.png",
        "a.tar",
        512 * number + 512,
        number,
        5,
        (number % 3,),
        packing=("gzip", "r"),
    )
    for number in range(50)
]


@pytest.fixture
def kept(find: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The order of 50 images in 4 shards, in blocks of 7."""
    monkeypatch.setattr(module, "_BLOCK", 7)
    found = find(Scanned({"train": ROWS}))
    found.choose(["train"], ["a", "b", "c"], multilabel=False, seed=0, limit=None)
    directory = tmp_path / "order"
    directory.mkdir()
    how: dict[str, Any] = {"shuffle": "stratified", "seed": 0, "columns": order_columns(found)}
    batches = shuffled(found.database, "train", 50, 4, **how)
    write_order(directory, batches, split="train", images=50, shards=4, token=TOKEN)
    return directory


def test_what_is_kept_is_read_back_block_by_block(kept: Path) -> None:
    found = [[*read_shard(kept, "train", number)] for number in range(4)]
    assert sorted((row for shard in found for row in shard), key=lambda row: row.key) == ROWS
    labels = [row.labels[0] for row in ROWS]
    expected = reference([row.key for row in ROWS], labels, 4, "stratified")
    assert [[row.key for row in shard] for shard in found] == expected
    assert len([*kept.glob("*.parquet")]) == 8


def test_only_the_order_that_is_whole_and_of_this_input_is_current(kept: Path) -> None:
    assert order_is_current(kept, "train", TOKEN)
    assert not order_is_current(kept, "train", "u")
    assert not order_is_current(kept, "test", "t")


@pytest.mark.parametrize("name", ["train.json", "train-00003.parquet"])
@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_damage_is_found(kept: Path, name: str, damage: str) -> None:
    data = bytearray((kept / name).read_bytes())
    data[len(data) // 2] ^= 1
    if damage == "remove":
        (kept / name).unlink()
    else:
        (kept / name).write_bytes(data if damage == "flip" else data[:-9])
    assert not order_is_current(kept, "train", TOKEN)
    module._read_block.cache_clear()
    with pytest.raises(SinkError, match="is not what this run wrote; run the same command again"):
        [[*read_shard(kept, "train", number)] for number in range(4)]
