"""The order of very many images, made in parts by workers: the same, to the byte.

One process that sorts hundreds of millions of rows takes an hour, while all others wait. So the
images are sorted in three steps, each of parts that know nothing of one another:

* ``scatter``: a part is some of the index. Its images go into ranges of ranks of nearly equal size;
  as hashes are spread evenly, the categories' sizes say where a range begins.
* ``rank``: a part is such a range. Counting what was scattered has told at which rank it begins, so
  its images' ranks, and with them their shards, are known exactly. They go into ranges of shards.
* ``gather``: a part is a range of shards: its images are sorted, and written in blocks.

What a step writes is a Parquet file a part, with a row group for each part of the next step: as
many files as parts, whatever their number. They are in a directory that is the run's alone, and is
swept like any temporary file when the run was killed; so what workers of a killed run still write
is nothing that another reads. A part that is made twice is the same, and each file appears whole.
"""

from __future__ import annotations

import shutil
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from dataprep.errors import PipelineError
from dataprep.system.durable_files import partial_path, storage_error, whole
from dataprep.system.state_files import read_state, write_state
from dataprep.tables.database import Database, make_table, open_database, tables
from dataprep.tables.images import HASH
from dataprep.tables.order import block_path, state_path, write_blocks
from dataprep_schemas.manifest import Shuffle
from dataprep_schemas.state import StoredOrder

LARGE: Final = 2_000_000
"""Images of a split, from which on workers put them in order."""

_PART: Final = 1 << 20  # images
_PART_BYTES: Final = 256 << 20  # of the index, as far as it says how large it is in memory
_MOST: Final = 256  # parts of a step: each reads a row group of every file of the step before
_LARGEST: Final = 8  # times as many images as a part should have: then shards are too few
_WHOLE: Final = 1 << 60  # rows
_DOING: Final = "putting images in order"
_SAMPLE: Final = 64  # keys a part, of which the ranges of keys are made

Step: TypeAlias = Literal["scatter", "rank", "gather"]
_Array: TypeAlias = npt.NDArray[Any]

_SETS: Final = (
    "select split, labels, numbers, category, images from label_sets where split = $split"
)
# No attribute can be called so.
_SCATTERED: Final = f"""
select {{columns}}, "#category", ("#hash" >> 64)::ubigint as "#upper",
    ("#hash" & 18446744073709551615)::ubigint as "#lower"
from (
    select found.*, label_sets.numbers, label_sets.category as "#category", {HASH} as "#hash"
    from ({{found}}) as found join label_sets using (split, labels)
    where status = 'image' and split = $split
)
"""
_FOUND: Final = "from {table} where file_row_number between {first} and {last}"
_KEYS: Final = """
select key from chosen where split = $split using sample reservoir({size} rows) repeatable (0)
"""


@dataclass(frozen=True, slots=True)
class Slice:
    """Parts of the index, or one of which it has only some rows: those of whole row groups."""

    paths: tuple[Path, ...]
    first: int = 0
    last: int = _WHOLE


@dataclass(frozen=True, slots=True)
class Sort:
    """A step of putting a split's images in order; pickled for workers.

    Attributes:
        directory: of what the steps write.
        token: identifies what the order is made from.
        columns: what is kept of the images, as SQL.
        slices: of each part of the first step, where its images are.
        ranges: how many parts the other steps have.
        cuts: for ``none``, the keys at which ranges of ranks begin, but for the first.
        bases: the rank at which each range begins; known from the second step on.
    """

    directory: Path
    split: str
    images: int
    shards: int
    shuffle: Shuffle
    seed: int
    token: str
    columns: str
    slices: tuple[tuple[Slice, ...], ...]
    ranges: int
    cuts: tuple[str, ...] = ()
    bases: tuple[int, ...] = ()
    step: Step = "scatter"

    @property
    def parts(self) -> int:
        """How many parts the step has."""
        return len(self.slices) if self.step == "scatter" else self.ranges

    @property
    def starts(self) -> list[int]:
        """Where each range of shards begins, and where the last ends."""
        return [number * self.shards // self.ranges for number in range(self.ranges + 1)]

    def path(self, step: Step, number: int) -> Path:
        """What a part of a step makes; of the last one a directory."""
        return self.directory / f"{step}-{number:05d}"


def slices_of(paths: Sequence[Path], rows: int = 0) -> tuple[tuple[Slice, ...], ...]:
    """The parts of the index, in slices of about so many rows; 0: as many as are quickly done."""
    rows = rows or _PART
    found: list[tuple[Slice, ...]] = []
    whole: list[Path] = []  # of the slice that is being filled, as is `some`
    some: list[Slice] = []
    images = size = 0
    for path in paths:
        metadata = parquet.read_metadata(path)
        first = last = 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            last += group.num_rows
            images += group.num_rows
            size += group.total_byte_size
            if images >= rows or size >= _PART_BYTES:
                some.append(Slice((path,), first, last - 1))
                found.append((Slice(tuple(whole)), *some) if whole else tuple(some))
                whole, some, first, images, size = [], [], last, 0, 0
        if first:
            some += [Slice((path,), first)] * (last > first)
        else:
            whole.append(path)
    rest = [Slice(tuple(whole))] * bool(whole) + some
    return (*found, tuple(rest)) if rest else tuple(found)


def ranges_for(images: int, shards: int, slices: int) -> int:
    """How many ranges to make; 0 if the images are in so few shards that it is no use."""
    wanted = min(max(-(-images // _PART), slices), _MOST)
    ranges = min(wanted, shards)
    return 0 if wanted > ranges * _LARGEST else ranges


def write_order_in_parts(
    database: Database, final: Path, sort: Sort, make: Callable[[Sort], None]
) -> None:
    """Keep the order of a split's images, as `dataprep.tables.order.write_order` does.

    Args:
        database: as for `dataprep.tables.order.shuffled`.
        final: the directory of the order.
        sort: the first step; ``directory`` is where the run has its own.
        make: has workers do all parts of a step.
    """
    sort = replace(sort, directory=partial_path(sort.directory / f"order-{sort.split}"))
    sort.directory.mkdir()
    try:
        sets = database.sql(_SETS, params={"split": sort.split}).to_arrow_table()
        parquet.write_table(sets, sort.directory / "label_sets.parquet")
        if sort.shuffle == "none":
            sort = replace(sort, cuts=_cuts(database, sort))
        make(sort)
        counts = np.array([_counted(sort, number) for number in range(sort.parts)]).sum(axis=0)
        if counts.sum() != sort.images:
            raise PipelineError(
                f"{sort.split}: {counts.sum():,} images are in order, expected {sort.images:,}"
            )
        bases = tuple(map(int, counts.cumsum() - counts))
        make(replace(sort, step="rank", bases=bases))
        for number in range(sort.parts):
            sort.path("scatter", number).unlink()
        make(replace(sort, step="gather"))
        _deliver(sort, final)
    finally:
        # A worker elsewhere that was taken for dead may still write there; what it leaves is swept.
        shutil.rmtree(sort.directory, ignore_errors=True)


def _cuts(database: Database, sort: Sort) -> tuple[str, ...]:
    """Keys that cut all of them into ranges of about equal size."""
    query = _KEYS.format(size=_SAMPLE * sort.ranges)
    found = database.sql(query, params={"split": sort.split}).fetchall()
    keys = sorted(key for (key,) in found)
    return tuple(keys[number * len(keys) // sort.ranges] for number in range(1, sort.ranges))


def _counted(sort: Sort, number: int) -> list[int]:
    """How many images a part has scattered into each range."""
    path = sort.path("scatter", number)
    if not path.exists():
        raise _not_made(sort)
    try:
        metadata = parquet.read_metadata(path)
    except pa.ArrowException as error:
        raise storage_error(error, sort.directory.parent, _DOING) from error
    return [metadata.row_group(group).num_rows for group in range(sort.ranges)]


def _deliver(sort: Sort, final: Path) -> None:
    """Give the blocks of all ranges of shards their names."""
    state_path(final, sort.split).unlink(missing_ok=True)
    ends: list[int] = []
    block_ends: list[int] = []
    blocks: list[str] = []
    for number in range(sort.ranges):
        directory = sort.path("gather", number)
        made = read_state(state_path(directory, sort.split), StoredOrder)
        if made is None:
            raise _not_made(sort)
        for block, _ in enumerate(made.blocks):
            path = block_path(final, sort.split, len(blocks) + block)
            block_path(directory, sort.split, block).replace(path)
        before = ends[-1] if ends else 0
        ends += [before + end for end in made.ends]
        block_ends += [before + end for end in made.block_ends]
        blocks += made.blocks
    stored = StoredOrder(sort.token, tuple(ends), tuple(blocks), tuple(block_ends))
    write_state(state_path(final, sort.split), stored)


def _not_made(sort: Sort) -> PipelineError:
    return PipelineError(
        f"the engine ended but {sort.split} was not put in order; run the same command again"
    )


# --- what a worker does ---


def make_part(sort: Sort, number: int) -> None:
    """Do a part of a step, unless that was done; at the same time as somebody else, if need be.

    Raises:
        SinkError: a file cannot be read or written.
    """
    if _is_made(sort, number):
        return
    do = {"scatter": _scatter, "rank": _rank, "gather": _gather}[sort.step]
    try:
        do(sort, number)
    except (OSError, pa.ArrowException) as error:
        # Who is slow and was taken for dead may find that others have finished, and tidied up.
        if sort.directory.exists() and not _is_made(sort, number):
            raise storage_error(error, sort.directory.parent, _DOING) from error


def _is_made(sort: Sort, number: int) -> bool:
    path = sort.path(sort.step, number)
    return (state_path(path, sort.split) if sort.step == "gather" else path).exists()


def _scatter(sort: Sort, number: int) -> None:
    sets = parquet.read_table(sort.directory / "label_sets.parquet")
    table = _scattered(sort, sets, number)
    if sort.shuffle == "none":
        keys = table["key"].combine_chunks()
        order = pc.sort_indices(keys).to_numpy()

        def key(place: int) -> str:
            return str(keys[int(order[place])].as_py())

        # The bytes of names compare as their characters do.
        cuts = [bisect_left(range(len(order)), cut, key=key) for cut in sort.cuts]
        return _write(sort.path("scatter", number), table, order, [0, *cuts, len(order)])
    # Within a category, where a hash is among all numbers is about where it is among its hashes.
    # It grows with (category, hash) whatever is rounded, so the ranges are ranges of ranks.
    share = table["#upper"].to_numpy() / 2.0**64
    if sort.shuffle == "global":
        place = share * sort.images
    else:
        sizes = np.bincount(sets["category"].to_numpy(), sets["images"].to_numpy())
        category = table["#category"].to_numpy()
        place = (sizes.cumsum() - sizes)[category] + sizes[category] * share
    ranges = np.minimum(place * (sort.ranges / sort.images), sort.ranges - 1).astype(np.int64)
    return _write_ranges(sort.path("scatter", number), table, ranges, sort.ranges)


def _scattered(sort: Sort, sets: pa.Table, number: int) -> pa.Table:
    """The images of some slices of the index."""
    slices = sort.slices[number]
    found = " union all ".join(
        _FOUND.format(table=tables(it.paths, numbered=True), first=it.first, last=it.last)
        for it in slices
    )
    query = _SCATTERED.format(columns=sort.columns, found=found)
    values = {"split": sort.split, "seed": sort.seed}
    files = [path for it in slices for path in it.paths]
    with open_database(None, files, threads=1) as database:
        make_table(database, "label_sets", sets)
        return database.sql(query, params=values).to_arrow_table()


def _rank(sort: Sort, number: int) -> None:
    table = _read(sort, "scatter", len(sort.slices), number)
    upper, lower = table["#upper"].to_numpy(), table["#lower"].to_numpy()
    if sort.shuffle == "none":
        order = pc.sort_indices(table["key"]).to_numpy()
    elif sort.shuffle == "global":
        order = np.lexsort((lower, upper))
    else:
        order = np.lexsort((lower, upper, table["#category"].to_numpy()))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) + sort.bases[number]
    if sort.shuffle == "none":
        size, longer = divmod(sort.images, sort.shards)  # the longer shards come first
        shard, place = np.maximum(rank // (size + 1), (rank - longer) // max(size, 1)), rank
    else:
        shard, place = rank % sort.shards, lower
    table = table.drop_columns(["#category", "#lower"])
    table = table.add_column(0, "shard", pa.array(shard, pa.int32()))
    table = table.append_column("#place", pa.array(place))
    ranges = np.searchsorted(sort.starts[1:], shard, side="right")
    _write_ranges(sort.path("rank", number), table, ranges, sort.ranges)


def _gather(sort: Sort, number: int) -> None:
    table = _read(sort, "rank", sort.ranges, number)
    shard, place = table["shard"].to_numpy(), table["#place"].to_numpy()
    order = np.lexsort((table["#upper"].to_numpy(), place, shard))
    table = table.drop_columns(["#upper", "#place"])
    first, last = sort.starts[number : number + 2]
    directory = sort.path("gather", number)
    directory.mkdir(exist_ok=True)
    ordered = (table.take(some) for some in np.array_split(order, -(-len(order) // (1 << 16)) or 1))
    stored = write_blocks(directory, ordered, sort.split, range(first, last), sort.token)
    write_state(state_path(directory, sort.split), stored)


def _read(sort: Sort, step: Step, files: int, number: int) -> pa.Table:
    """What all parts of a step have for a part of the next one."""
    found = [_row_groups(sort.path(step, part), (number,)) for part in range(files)]
    return pa.concat_tables(found).combine_chunks()


def _row_groups(path: Path, groups: Sequence[int]) -> pa.Table:
    with parquet.ParquetFile(path, page_checksum_verification=True) as file:
        return file.read_row_groups(list(groups), use_threads=False)


def _write_ranges(path: Path, table: pa.Table, ranges: _Array, count: int) -> None:
    """Write rows into the range that each is in."""
    order = np.argsort(ranges, kind="stable")
    ends = np.bincount(ranges, minlength=count).cumsum()
    _write(path, table, order, [0, *map(int, ends)])


def _write(path: Path, table: pa.Table, order: _Array, ends: Sequence[int]) -> None:
    """Write rows in this order, a row group from each end to the next, with or without any."""
    how = {"compression": "lz4", "use_dictionary": False, "write_statistics": False}
    with (
        whole(path) as temporary,
        parquet.ParquetWriter(temporary, table.schema, write_page_checksum=True, **how) as file,
    ):
        for group in _taken(table, order, ends):
            file.write_table(group, row_group_size=max(len(group), 1))


def _taken(table: pa.Table, order: _Array, ends: Sequence[int]) -> Iterator[pa.Table]:
    table = table.combine_chunks()
    for start, stop in pairwise(ends):
        yield table.take(order[start:stop])
