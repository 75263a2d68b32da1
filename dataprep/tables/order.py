"""The order of a data set: a pure function of keys, categories, seed, split and shard count.

This is the shuffle: sort the images of each category by a hash, lay the categories end to end,
assign the images to the shards in turn, then sort every shard by another hash. As one category is a
run of consecutive images, and consecutive images go to consecutive shards, two things hold for
every input:

* shard sizes differ by at most 1;
* the count of every category differs by at most 1 between any two shards.

That is ``stratified``; ``global`` assigns the images sorted by hash alone (sizes within 1,
categories only on average); ``none`` cuts them, in the order of their keys, into consecutive runs
with sizes within 1.

A category is a class or, where images have several, a set of them (`dataprep.tables.label_sets`).
Nothing depends on the order in which images were found, on the number of workers or on the machine:
there is no random generator, only a hash of the image's key: MD5, which the database gives as a
number; that it is no proof against forgery does not matter here.

On disk it is a table in blocks of at most 65,536 rows, ``order/train-00000.parquet`` and so on, and
a state file with the end and the hash of each block. So a worker reads, and checks, one or two
megabytes to know what is in its shard, whatever the size of the data set. Of very many images it is
made in parts, by workers: `dataprep.tables.order_parts`.
"""

from __future__ import annotations

import hashlib
import io
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from dataprep.errors import PipelineError, SinkError
from dataprep.rows import Row
from dataprep.system.durable_files import write_durably
from dataprep.system.job_limits import usable_cores
from dataprep.system.regular_files import read_regular
from dataprep.system.state_files import is_intact, read_state, write_state
from dataprep.tables.arrow import blocks, order_rows
from dataprep.tables.database import Database, column_list
from dataprep.tables.images import HASH, Images
from dataprep_schemas.fields import MASK, named
from dataprep_schemas.manifest import Shuffle
from dataprep_schemas.state import StoredOrder
from dataprep_schemas.tables import ORDER

_BLOCK: Final = 1 << 16  # rows
_BLOCK_BYTES: Final = 64 << 20  # of rows that have long texts, such as runs of pixels
_AT_ONCE: Final = 1 << 12  # of these
_KEPT: Final = 4  # blocks that a process keeps: its threads are usually in the same one

# Two sorts, and only the second has whole rows in it: the first gives each hash its rank.
_RANKED: Final = f"""
create or replace temp table ranked as
select hash, row_number() over (order by {{rank}}) - 1 as rank from (
    select key, category, {HASH} as hash
    from chosen join label_sets using (split, labels) where split = $split
)
"""
_ORDER: Final = f"""
select ({{shard}})::integer as shard, {{columns}} from (
    select chosen.*, numbers, {HASH} as hash
    from chosen join label_sets using (split, labels) where split = $split
) join ranked using (hash) order by {{place}}
"""
_SAMPLE: Final = f"""
select 0::integer as shard, {{columns}} from (
    select chosen.*, numbers, {HASH} as hash
    from chosen join label_sets using (split, labels) order by hash limit $most
) order by container, "offset"
"""
_RANKS: Final[dict[Shuffle, str]] = {
    "stratified": "category, hash",
    "global": "hash",
    "none": "key",
}
_SECOND: Final = "hash & 18446744073709551615"  # its lower half; the upper one chose the shard
_IN_TURN: Final = "rank % $shards"
_IN_RUNS: Final = "greatest(rank // ($size + 1), (rank - $longer) // greatest($size, 1))"

# A lambda takes no table.
_NUMBERS: Final = "set variable numbers = (select map(list(name), list(number)) from classes)"
_NUMBERED: Final = """list_transform(
    {name}, lambda name: getvariable('numbers')[name]
)::bigint[] as {name}"""


def shuffled(
    database: Database,
    split: str,
    images: int,
    shards: int,
    shuffle: Shuffle,
    seed: int,
    columns: str,
) -> Iterator[pa.Table]:
    """These columns of the images of a split, with their ``shard``, in the order of writing.

    It reads the tables ``chosen`` and ``label_sets`` of `dataprep.tables.images.Images`, and makes
    a table ``ranked``.
    """
    values: dict[str, object] = {"split": split, "seed": seed}
    database.execute(_RANKED.format(rank=_RANKS[shuffle]), values)
    if shuffle == "none":
        shard, place = _IN_RUNS, "rank"
        values["size"], values["longer"] = divmod(images, shards)  # the longer shards come first
    else:
        shard, place = _IN_TURN, f"shard, {_SECOND}, hash"
        values["shards"] = shards
    query = _ORDER.format(shard=shard, columns=columns, place=place)
    rows = _AT_ONCE if column_list([MASK.name]) in columns else _BLOCK
    for batch in database.sql(query, params=values).to_arrow_reader(rows):
        yield pa.Table.from_batches([batch])


def write_order(
    directory: Path, ordered: Iterable[pa.Table], split: str, images: int, shards: int, token: str
) -> None:
    """Keep the order of a split's images.

    Args:
        ordered: of `shuffled`, or `dataprep.tables.selection.as_recorded`.
        token: identifies what the order is made from; see `order_is_current`.
    """
    state_path(directory, split).unlink(missing_ok=True)
    stored = write_blocks(directory, ordered, split, range(shards), token)
    if stored.ends[-1] != images:
        raise PipelineError(
            f"{split}: {stored.ends[-1]:,} images are in order, expected {images:,}"
        )
    write_state(state_path(directory, split), stored)


def write_blocks(
    directory: Path, ordered: Iterable[pa.Table], split: str, shards: range, token: str
) -> StoredOrder:
    """Write the order of these shards in blocks; returns what there is to be said of them."""
    hashes: list[str] = []
    sizes = np.zeros(len(shards), np.int64)
    ends: list[int] = []
    with ThreadPoolExecutor(1) as pool:  # writes a block while the database gives the next
        written: Future[str] | None = None
        for number, block in enumerate(blocks(ordered, _BLOCK, _BLOCK_BYTES)):
            shard = block["shard"].to_numpy() - shards.start
            sizes += np.bincount(shard, minlength=len(shards))
            ends.append(len(block) + (ends[-1] if ends else 0))
            if written is not None:
                hashes.append(written.result())
            written = pool.submit(_write_block, block_path(directory, split, number), block)
        hashes += [] if written is None else [written.result()]
    return StoredOrder(token, tuple(map(int, sizes.cumsum())), tuple(hashes), tuple(ends))


def _write_block(path: Path, block: pa.Table) -> str:
    """Write rows, and return their hash, which tells whether all of it is there."""
    buffer = io.BytesIO()
    parquet.write_table(block, buffer, compression="lz4", use_dictionary=False)
    data = buffer.getvalue()
    write_durably(path, data, flush=False)
    return hashlib.sha256(data).hexdigest()


def order_is_current(directory: Path, split: str, token: str) -> bool:
    """Whether the order on disk is whole and was made with this token."""
    state = read_state(state_path(directory, split), StoredOrder)
    if state is None or state.token != token:
        return False
    paths = [block_path(directory, split, number) for number in range(len(state.blocks))]
    with ThreadPoolExecutor(usable_cores()) as pool:
        return all(pool.map(is_intact, paths, state.blocks))


def read_shard(directory: Path, split: str, number: int) -> Iterator[Row]:
    """The rows of one shard, in writing order, as `shard_tables`."""
    for table in shard_tables(directory, split, number):
        yield from order_rows(table)


def shard_tables(directory: Path, split: str, number: int) -> Iterator[pa.Table]:
    """The same as tables; a block of rows is in memory at a time.

    Raises:
        SinkError: the order is damaged; a file system gave something else than was written.
    """
    path = state_path(directory, split)
    state = read_state(path, StoredOrder)
    if state is None or state.block_ends[-1:] != state.ends[-1:]:
        raise _damaged(path)
    start, stop = (state.ends[number - 1] if number else 0), state.ends[number]
    while start < stop:
        block = bisect_right(state.block_ends, start)
        begin = state.block_ends[block - 1] if block else 0
        last = min(stop, state.block_ends[block])
        table = _read_block(block_path(directory, split, block), state.blocks[block])
        yield table.slice(start - begin, last - start)
        start = last


def sampled(found: Images, most: int, seed: int) -> list[Row]:
    """Some of the images that are chosen, whose hashes are smallest, by where they lie."""
    query = _SAMPLE.format(columns=order_columns(found))
    return [
        *order_rows(found.database.sql(query, params={"seed": seed, "most": most}).to_arrow_table())
    ]


def order_columns(found: Images) -> str:
    """The columns of the table ``order``, as SQL over those of ``chosen``."""
    special = {"labels": "numbers as labels"}
    for name in named(found.fields, "box_labels"):
        found.database.execute(_NUMBERS)
        special[name] = _NUMBERED.format(name=column_list([name]))
    own = [field.name for field in found.fields] + ["fold"] * bool(found.folds)
    names = [*(name for name in ORDER if name != "shard"), *own]
    return ", ".join(special.get(name) or column_list([name]) for name in names)


def state_path(directory: Path, split: str) -> Path:
    """What says of the order of a split whether, and of what, it is."""
    return directory / f"{split}.json"


def block_path(directory: Path, split: str, number: int) -> Path:
    """A block of rows."""
    return directory / f"{split}-{number:05d}.parquet"


@lru_cache(maxsize=_KEPT)
def _read_block(path: Path, sha256: str) -> pa.Table:
    try:
        data = read_regular(path)
    except OSError as error:
        raise _damaged(path) from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise _damaged(path)
    return parquet.read_table(pa.BufferReader(data), use_threads=False)


def _damaged(path: Path) -> SinkError:
    return SinkError(f"{path} is not what this run wrote; run the same command again")
