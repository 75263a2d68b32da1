"""Training from a finished data set, whatever its format: by number, by key, or a rank's share."""

from __future__ import annotations

import hashlib
import operator
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, Literal, Self, SupportsIndex, TypeVar, get_args, overload

from dataprep.errors import DatasetError, ImageError, UsageError
from dataprep.formats import ShardReader
from dataprep.formats.example import Example
from dataprep.images.decode import sniff
from dataprep.sealed.ranges import COLUMNS, Recorded, is_few, read_few
from dataprep.sealed.set import SealedSet, first_rows
from dataprep.sealed.split import FinishedSplit
from dataprep.system.messages import counted, printable
from dataprep.system.shares import read_share
from dataprep.tables.records import NAME, RecordsTable
from dataprep.training.examples import TrainingExamples
from dataprep.training.sampler import whole_number
from dataprep_schemas.fields import UNCERTAIN, Fields, named, shown
from dataprep_schemas.tables import arrow_type

_Read = TypeVar("_Read", Example, bytes)

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

_TOGETHER = 64  # examples whose ranges are downloaded at a time
_SHOWN = 5  # examples of a part that its repr describes

Uneven = Literal["keep", "drop", "repeat"]


class Records(TrainingExamples):
    """The examples of one split, or those chosen of them, in the order they were written.

    Of a node's part of a data set, those of the shards that are there, numbered from 0.

    Args:
        sealed: the data set.
        split: which of its splits.
        where: and the rest: which examples, as `dataprep.open` has it.

    May be used from several threads, and pickled or forked into other processes: each opens the
    files for itself, at its first read, and at most 32 shards at a time. They are closed by
    `close`, at the end of a ``with`` block, or when nobody needs them any more.

    Attributes:
        out: the directory of ``manifest.json``.
        split: which split.
        info: what is true of every example.
        sink: the format.
        pixels: whether it stores pixels, not encoded images.

    Raises:
        UsageError: no such split, a format that is not installed, or a choice that cannot be made.
        DatasetError: the table of records, from which is chosen, cannot be read.
    """

    def __init__(
        self,
        sealed: SealedSet,
        split: str,
        *,
        where: str | None = None,
        limit: int | None = None,
        sample: float | None = None,
        stratify: bool = False,
    ) -> None:
        self._all = FinishedSplit(sealed, split)
        self.out, self.split = self._all.out, self._all.split
        self.info, self.sink = self._all.info, self._all.sink
        present, rows = sealed.splits[self.split], first_rows(sealed.manifest)[self.split]
        self.pixels = self.sink.pixels
        self._manifest, self._node = sealed.manifest, sealed.part
        self._table = sealed.manifest.records_table
        self._first_rows = [rows[number] for number in present.numbers]
        self._numbers: range | NDArray[np.integer[Any]] = range(len(self._all))
        _check_choice(limit, sample, stratify=stratify)
        if where is not None or sample is not None:
            from dataprep.sealed.questions import rows_where
            from dataprep.tables.questions import chosen_rows

            # A share is one of the whole split: of a shared data set, all nodes together have it.
            every = range(rows[0], rows[0] + present.whole.records)
            choose = chosen_rows if where is None else rows_where
            found = choose(
                self.out,
                self._table,
                every,
                where=where,
                sample=None if sample is None else read_share(sample),
                stratify=stratify,
                seed=sealed.manifest.seed,
            )
            self._numbers = self._moved(found, self._first_rows, self._starts)
        self._numbers = self._numbers[:limit]
        few = is_few(self.sink, len(self), len(self._all))
        self._all.sparse = self._all.cache is not None and few
        self._known: dict[int, Recorded] | None = None
        self._keys: dict[str, int] | None = None

    @property
    def labels(self) -> NDArray[np.int64]:
        """See `TrainingExamples.labels`.

        Raises:
            DatasetError: the table cannot be read, or has labels that are none.
        """
        import numpy as np
        import pyarrow.compute as pc

        classes, many = len(self.classes), self.info.multilabel
        found = np.zeros((len(self), classes) if many else len(self), np.int64)
        start = 0
        for column in self._chunks("labels"):
            lengths = pc.fill_null(pc.list_value_length(column), -1).to_numpy()
            values = pc.fill_null(pc.list_flatten(column), -1).to_numpy()
            numbers = np.repeat(np.arange(start, start + len(lengths)), lengths.clip(0))
            wrong = start + np.flatnonzero((lengths < 0) if many else (lengths != 1))
            strange = numbers[(values < 0) | (values >= classes)]
            if wrong.size or strange.size:
                number = int(min([*wrong[:1], *strange[:1]]))
                raise DatasetError(
                    f"{self.out / NAME}: example {number} of {self.split} has the labels "
                    f"{column[number - start].as_py()}, expected {'any' if many else 'one'} of 0 "
                    f"to {classes - 1}; make the data set again"
                )
            found[(numbers, values) if many else numbers] = 1 if many else values
            start += len(lengths)
        for name in named(self._fields, UNCERTAIN.kind) if many else ():
            places = {name: place for place, (name, _) in enumerate(self.classes)}
            for row, text in zip(found, self._column(name), strict=True):
                unsure = [places[name] for name in (text or "").split("|") if name in places]
                row[unsure] = np.where(row[unsure] == 1, 1, -1)  # it may have got another label
        return found

    def values(self, name: str) -> pa.Array:
        """See `TrainingExamples.values`."""
        import pyarrow as pa

        known = {field.name: field.rules.column for field in self._fields}
        if name not in known:
            there = ", ".join(known) or "none"
            raise UsageError(f"{self.title} have no field {name!r}; there are: {there}")
        chunks = [chunk for column in self._chunks(name) for chunk in column.chunks]
        return pa.chunked_array(chunks, arrow_type(known[name])).combine_chunks()

    @property
    def table(self) -> pa.Table:
        """Their rows of ``records.parquet``, in order, as an Arrow table; no image is read.

        Raises:
            DatasetError: the table cannot be read.
        """
        import pyarrow as pa

        from dataprep_schemas.tables import schema_of

        with RecordsTable(self.out, self._table) as table:
            schema = schema_of("records", table.fields)
            return pa.concat_tables([schema.empty_table(), *table.take(self._rows())])

    def __len__(self) -> int:
        """How many examples there are."""
        return len(self._numbers)

    def __repr__(self) -> str:
        """Where and what; of a part, a line for each of the first few examples."""
        place = f"{self.split} in {self._all.place}"
        whole = f"<{len(self._all):,} records of {place}, {self.sink.name}>"
        if len(self) == len(self._all):
            return whole
        shown = [f"{number}: {describe(self[number])}" for number in range(len(self))[:_SHOWN]]
        more = [f"and {len(self) - _SHOWN:,} more"] if len(self) > _SHOWN else []
        text = f"<{counted(len(self), 'example')} of {whole}" + (":" if shown else "")
        return "\n".join([text, *shown, *more]) + ">"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from dataprep.sealed.html import examples_table

        return examples_table(self.title, map(self.__getitem__, range(len(self))))

    @overload
    def __getitem__(self, number: SupportsIndex) -> Example: ...
    @overload
    def __getitem__(self, number: slice) -> Self: ...
    def __getitem__(self, number: SupportsIndex | slice) -> Example | Self:
        """Example ``number``, 0-based, negative from the end; or a part, by a slice of step 1.

        Raises:
            IndexError: there is no such example.
            SinkError: it is damaged, or its shard is missing.
            TypeError: it is neither a whole number nor a slice of such.
            UsageError: the slice has another step.
        """
        if isinstance(number, slice):
            return self._part(number)
        if self._all.sparse:
            return self.__getitems__([number])[0]
        return self._all[self._index(number)]

    def __getitems__(self, numbers: Sequence[SupportsIndex], /) -> list[Example]:
        """See `TrainingExamples.__getitems__`."""
        return self._each(numbers, ShardReader.__getitem__)

    def encoded(self, numbers: Sequence[SupportsIndex]) -> list[bytes]:
        """See `TrainingExamples.encoded`."""
        return self._each(numbers, ShardReader.encoded)

    def place_of(self, number: int) -> str:
        """See `TrainingExamples.place_of`."""
        return self._all.place_of(self._index(number))

    def identity(self) -> dict[str, Any]:
        """See `TrainingExamples.identity`."""
        rows = None
        if len(self) < self._manifest.splits[self.split].records:
            rows = hashlib.sha256(self._rows().astype("<i8").tobytes()).hexdigest()
        return {
            "examples": len(self),
            "split": self.split,
            "manifest": self._manifest.sha256,
            "rows": rows,
        }

    @property
    def title(self) -> str:
        """See `TrainingExamples.title`."""
        return f"{len(self):,} of {len(self._all):,} records of {self.split} in {self._all.place}"

    @property
    def held_out(self) -> bool:
        """See `TrainingExamples.held_out`."""
        from dataprep.datasets.splits import is_held_out  # late: it loads the data sets

        return is_held_out(self.split)

    @property
    def shared(self) -> bool:
        """See `TrainingExamples.shared`."""
        return self._node is not None and self._node.nodes > 1

    @property
    def remote(self) -> bool:
        """See `TrainingExamples.remote`."""
        return self._all.cache is not None

    def announce(self, numbers: Sequence[int]) -> None:
        """See `TrainingExamples.announce`."""
        self._all.announce({self._all.shard_of(self._index(number)) for number in numbers})

    def shard_sizes(self) -> list[int]:
        """See `TrainingExamples.shard_sizes`."""
        ends = [bisect_left(self._numbers, end) for end in self._all.ends]
        return [end - start for start, end in pairwise([0, *ends])]

    def _each(
        self, numbers: Sequence[SupportsIndex], read: Callable[[ShardReader, int], _Read]
    ) -> list[_Read]:
        """In that order; read in the order of the files, and announced before that."""
        indices = [self._index(number) for number in numbers]
        return (self._few if self._all.sparse else self._all.read)(indices, read)

    def _few(
        self, indices: Sequence[int], read: Callable[[ShardReader, int], _Read]
    ) -> list[_Read]:
        """The same where only their ranges are downloaded."""
        assert self._all.cache is not None  # noqa: S101  # else nothing is sparse
        if self._known is None:
            with RecordsTable(self.out, self._table) as table:
                tables = table.take(self._rows(), COLUMNS)
                rows = [row for piece in tables for row in _rows_of(piece)]
            self._known = dict(zip(map(int, self._numbers), rows, strict=True))
        found: dict[int, _Read] = {}
        ordered = sorted({*indices})
        for shard, group in groupby(ordered, self._all.shard_of):
            places, start = list(group), self._all.start(shard)
            read_ones = read_few(
                self._all.cache,
                self._all.shards[shard].files[0],
                self._all.opened(shard),
                [place - start for place in places],
                {place - start: self._known[place] for place in places},
                read,
            )
            found |= zip(places, read_ones, strict=True)
        return [found[index] for index in indices]

    def _index(self, number: SupportsIndex) -> int:
        """Of the whole split."""
        try:
            return int(self._numbers[operator.index(number)])
        except IndexError:
            raise IndexError(
                f"{self.out} {self.split}: no example {number} of {len(self)}"
            ) from None
        except TypeError:
            raise _no_number(number) from None

    if not TYPE_CHECKING:  # which would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            one = f"; each example has: [it.{name} for it in records]" * hasattr(Example, name)
            raise AttributeError(f"records of a split have no {name!r}{one}", name=name, obj=self)

    def __iter__(self) -> Iterator[Example]:
        """Every example in order, checking whatever the format lets one check."""
        if self._all.sparse:
            starts = range(0, len(self), _TOGETHER)
            batches = (range(len(self))[start : start + _TOGETHER] for start in starts)
            return (one for batch in batches for one in self.__getitems__(batch))
        return self._all.take(self._numbers)

    def number_of(self, key: str) -> int:
        """The number of the example with this key; the first call reads all keys of the table.

        Raises:
            KeyError: there is none.
            DatasetError: the table cannot be read.
        """
        if self._keys is None:
            self._keys = {found: at for at, found in enumerate(self._column("key"))}
        return self._keys[key]

    def by_key(self, key: str) -> Example:
        """The example with this key.

        Raises:
            KeyError: there is none.
            DatasetError: the table cannot be read, or is of another data set.
        """
        example = self[self.number_of(key)]
        if example.key != key:
            raise DatasetError(
                f"{self.out / NAME} does not say where {printable(key)} is; `dataprep verify` "
                "names bad files"
            )
        return example

    def part(self, rank: int, world_size: int, *, uneven: Uneven = "keep") -> Self:
        """The share of one rank: a consecutive run, so that it reads few files.

        Args:
            rank: 0-based.
            world_size: how many ranks there are.
            uneven: what to do when the number of examples cannot be divided. ``keep``: sizes
                differ by 1. ``drop``: leave the last few out. ``repeat``: some ranks see an
                example that the next rank sees too. With the last two all ranks take equally
                many steps, without which data-parallel training hangs.

        Raises:
            UsageError: there is no such rank, or no such way.
        """
        return self._part(part_of(len(self), rank, world_size, uneven))

    def close(self) -> None:
        """Close what this thread has open; reading opens it again.

        What other threads have open is closed when they end.
        """
        self._all.close()

    def __enter__(self) -> Self:
        """The examples themselves."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close."""
        self.close()

    def _part(self, wanted: slice) -> Self:
        try:
            start, stop, step = wanted.indices(len(self))
        except TypeError:
            raise _no_number(wanted) from None
        if step != 1:
            raise UsageError("a part of a data set is consecutive: slices need the step 1")
        part = copy(self)  # which shares what is open
        part._numbers, part._keys, part._known = self._numbers[start:stop], None, None
        return part

    @property
    def _fields(self) -> Fields:
        with RecordsTable(self.out, self._table) as table:
            return table.fields

    def _column(self, name: str) -> Iterator[Any]:
        """A column of the table of records, one by one."""
        for chunk in self._chunks(name):
            yield from chunk.to_pylist()

    def _chunks(self, name: str) -> Iterator[pa.ChunkedArray]:
        """The same, in pieces."""
        with RecordsTable(self.out, self._table) as table:
            for rows in table.take(self._rows(), [name]):
                yield rows.column(name)

    def _rows(self) -> NDArray[np.integer[Any]]:
        """Their rows in the table of records."""
        import numpy as np

        numbers = self._numbers
        if isinstance(numbers, range):
            numbers = np.arange(numbers.start, numbers.stop)
        return self._moved(numbers, self._starts, self._first_rows)

    @property
    def _starts(self) -> list[int]:
        """The number of each shard's first example."""
        return [0, *self._all.ends[:-1]]

    def _moved(
        self, numbers: NDArray[np.integer[Any]], before: list[int], after: list[int]
    ) -> NDArray[np.integer[Any]]:
        """Ascending numbers where shards begin at `before`, as those where they begin at `after`.

        What is in no shard that is here is left out.
        """
        import numpy as np

        sizes = np.diff([0, *self._all.ends])
        first = np.searchsorted(numbers, before)
        last = np.searchsorted(numbers, np.add(before, sizes))
        # A node reads millions of examples in several processes, each of which has these.
        kind = np.min_scalar_type(max(after, default=0) + len(self._all))
        found = np.empty((last - first).sum(), kind)
        done = 0
        for begin, end, old, new in zip(first, last, before, after, strict=True):
            found[done : done + end - begin] = numbers[begin:end].astype(np.int64) + (new - old)
            done += end - begin
        return found


def _check_choice(limit: int | None, sample: float | None, *, stratify: bool) -> None:
    if limit is not None:
        whole_number("limit", limit, 1)
    if sample is not None and not (isinstance(sample, (int, float)) and 0 < sample <= 1):
        raise UsageError(f"sample={sample}: expected a share, above 0 and up to 1, such as 0.1")
    if stratify and sample is None:
        raise UsageError("stratify=True says how to sample; give sample=0.1, say, too")


def _rows_of(table: pa.Table) -> Iterator[Recorded]:
    columns = [table.column(name).to_pylist() for name in COLUMNS]
    return map(Recorded, *columns)


def _no_number(number: object) -> TypeError:
    return TypeError(
        f"{number!r} is no number of an example: expected a whole number or a slice such as 0:2; "
        "of several numbers, [records[number] for number in numbers]; of a key, by_key(key)"
    )


def part_of(total: int, rank: int, world_size: int, uneven: Uneven) -> slice:
    """The numbers of one rank's part of so many examples; see `Records.part`."""
    if uneven not in get_args(Uneven):
        raise UsageError(f"uneven={uneven!r} is none of {', '.join(get_args(Uneven))}")
    rank, world_size = whole_number("rank", rank), whole_number("world_size", world_size, 1)
    if rank >= world_size:
        raise UsageError(f"there is no rank {rank} in a world of size {world_size}")
    start, stop = rank * total // world_size, (rank + 1) * total // world_size
    if uneven == "drop":
        size = total // world_size
        start, stop = rank * size, (rank + 1) * size
    elif uneven == "repeat" and total:
        size = -(-total // world_size)
        start = min(start, total - size)
        stop = start + size
    return slice(start, stop)


def describe(example: Example) -> str:
    """An example in one line: key, labels, size."""
    labels = ", ".join(map(str, example.labels)) + " (0-based)" if example.labels else "none"
    color = example.colorspace  # what it is to be decoded to
    if example.format != "RAW":
        with suppress(ImageError):
            color = "Grayscale" if sniff(example.encoded).grey else "RGB"
    name = example.class_name if example.class_name != example.synset else ""
    words = [
        *filter(None, [printable(example.key), " class", labels, example.synset, name]),
        f" {example.width}x{example.height} {color} {example.format} ",
        f"{len(example.encoded):,} bytes",
    ]
    return " ".join([*words, *(f" {printable(text)}" for text in shown(example.fields))])
