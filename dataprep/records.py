"""Reading a finished data set, whatever its format: by number, by key, or a rank's share."""

from __future__ import annotations

import operator
import os
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, SupportsIndex, get_args, overload

from dataprep.build.manifest import FinishedSplit, read_manifest, shard_numbers
from dataprep.errors import DatasetError, UsageError
from dataprep.index.records import NAME, RecordsTable, first_rows
from dataprep.sinks import ShardReader
from dataprep.sinks.example import Example
from dataprep.system.messages import counted, printable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dataprep.torch_dataset import TorchDataset

_SHOWN = 5  # examples of a part that its repr describes
_MOST_OPEN = 32  # shards a thread keeps open; a process may usually open 1024 files

Uneven = Literal["keep", "drop", "repeat"]

_INHERITED: list[object] = []  # readers of the parent process, kept so that nothing closes them


class Records(FinishedSplit):
    """The examples of one split, in the order they were written.

    Of a node's part of a data set, those of the shards that are there, numbered from 0.

    May be used from several threads, and pickled or forked into other processes: each opens the
    files for itself, at its first read, and at most 32 shards at a time. They are closed by
    `close`, at the end of a ``with`` block, or when nobody needs them any more.

    Args:
        out: the directory that holds ``manifest.json``.
        split: which split.

    Raises:
        DatasetError: there is no intact manifest, or it is not clear what is there of it.
        UsageError: no such split, or a format that is not installed.
    """

    def __init__(self, out: Path, split: str) -> None:
        whole = read_manifest(out)
        super().__init__(out, split, whole)
        rows, numbers = first_rows(whole)[split], shard_numbers(out, whole)[split]
        self._first_rows = [rows[number] for number in numbers]
        self._numbers: dict[str, int] | None = None
        self._open = _OpenShards()

    @property
    def classes(self) -> Sequence[tuple[str, str]]:
        """(identifier, name) of every class; the position is the 0-based class index."""
        return self.info.classes

    @property
    def labels(self) -> NDArray[np.int64]:
        """The label of every example, in order, without reading an image.

        Shape (n,) of 0-based class indices; where an example may have any number of labels, shape
        (n, classes) of zeros and ones. Read from the table of records each time.

        Raises:
            DatasetError: the table cannot be read.
        """
        return self._labels(0, len(self))

    def to_torch(self, transform: Callable[[Any], Any] | None = None) -> TorchDataset:
        """A map-style `torch.utils.data.Dataset` of pairs of an image and its label.

        May be handed to the workers of a ``DataLoader``, which open the files for themselves.

        Args:
            transform: takes a Pillow image, e.g. of torchvision; None gives uint8 tensors, shape
                (channels, height, width), which a batch can hold only if all have one size.

        Raises:
            ImportError: PyTorch is not installed.
        """
        return self[:].to_torch(transform)

    def __repr__(self) -> str:
        """Where and what."""
        return f"<{len(self):,} records of {self.split} in {self.out}, {self.sink.name}>"

    @overload
    def __getitem__(self, number: SupportsIndex) -> Example: ...
    @overload
    def __getitem__(self, number: slice) -> RecordsPart: ...
    def __getitem__(self, number: SupportsIndex | slice) -> Example | RecordsPart:
        """Example ``number``, 0-based, negative from the end; or a part, by a slice of step 1.

        Raises:
            IndexError: there is no such example.
            SinkError: it is damaged.
        """
        if isinstance(number, slice):
            return RecordsPart(self, 0, len(self))[number]
        index = operator.index(number)
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(f"{self.out} {self.split}: no example {number} of {len(self)}")
        shard = bisect_right(self.ends, index)
        return self._reader(shard)[index - self.start(shard)]

    def __iter__(self) -> Iterator[Example]:
        """Every example in order, checking whatever the format lets one check."""
        return self.between(0, len(self))

    def number_of(self, key: str) -> int:
        """The number of the example with this key; the first call reads all keys of the table.

        Raises:
            KeyError: there is none.
            DatasetError: the table cannot be read.
        """
        if self._numbers is None:
            keys = self._column("key", 0, len(self))
            self._numbers = {found: at for at, found in enumerate(keys)}
        return self._numbers[key]

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

    def part(self, rank: int, world_size: int, *, uneven: Uneven = "keep") -> RecordsPart:
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
        if uneven not in get_args(Uneven):
            raise UsageError(f"uneven={uneven!r} is none of {', '.join(get_args(Uneven))}")
        if not 0 <= rank < world_size:
            raise UsageError(f"there is no rank {rank} in a world of size {world_size}")
        total = len(self)
        if uneven == "drop":
            size = total // world_size
            return RecordsPart(self, rank * size, (rank + 1) * size)
        start, stop = rank * total // world_size, (rank + 1) * total // world_size
        if uneven == "repeat" and total:
            size = -(-total // world_size)
            start = min(start, total - size)
            stop = start + size
        return RecordsPart(self, start, stop)

    def close(self) -> None:
        """Close what this thread has open; reading opens it again.

        What other threads have open is closed when they end.
        """
        self._open.close()

    def __enter__(self) -> Self:
        """The examples themselves."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close."""
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what is open."""
        return {**self.__dict__, "_open": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Open nothing yet."""
        self.__dict__.update(state)
        self._open = _OpenShards()

    def _labels(self, start: int, stop: int) -> NDArray[np.int64]:
        import numpy as np

        column = self._column("labels", start, stop)
        if not self.info.multilabel:
            return np.fromiter((label for (label,) in column), np.int64, stop - start)
        found = np.zeros((stop - start, len(self.classes)), np.int64)
        for number, labels in enumerate(column):
            found[number, labels] = 1
        return found

    def _column(self, name: str, start: int, stop: int) -> Iterator[Any]:
        """A column of the table of records, of examples ``start`` to ``stop - 1``."""
        with RecordsTable(self.out) as table:
            for shard, row in enumerate(self._first_rows):
                begin = self.start(shard)
                first, last = max(start, begin), min(stop, self.ends[shard])
                if first < last:
                    at = row + first - begin
                    rows = table.rows(at, at + last - first, [name])
                    yield from (value for (value,) in rows)

    def _reader(self, shard: int) -> ShardReader:
        found = self._open.get(shard)
        if found is None:
            found = self.reader(shard)
            self._open.put(shard, found)
        return found


class RecordsPart(Sequence[Example]):
    """A consecutive run of a split's examples.

    Args:
        records: the whole split.
        start: number of the first example.
        stop: number behind the last one.
    """

    def __init__(self, records: Records, start: int, stop: int) -> None:
        self.records = records
        self.numbers = range(start, stop)

    def __len__(self) -> int:
        """How many examples there are."""
        return len(self.numbers)

    @overload
    def __getitem__(self, number: SupportsIndex) -> Example: ...
    @overload
    def __getitem__(self, number: slice) -> RecordsPart: ...
    def __getitem__(self, number: SupportsIndex | slice) -> Example | RecordsPart:
        """An example by its number in this part; or a smaller part by a slice of step 1.

        Raises:
            IndexError: there is no such example.
            UsageError: the slice has another step.
        """
        if isinstance(number, slice):
            numbers = self.numbers[number]
            if numbers.step != 1:
                raise UsageError("a part of a data set is consecutive: slices need the step 1")
            return RecordsPart(self.records, numbers.start, max(numbers.start, numbers.stop))
        return self.records[self.numbers[number]]

    @property
    def classes(self) -> Sequence[tuple[str, str]]:
        """(identifier, name) of every class of the data set."""
        return self.records.classes

    @property
    def labels(self) -> NDArray[np.int64]:
        """As `Records.labels`, of this part."""
        return self.records._labels(self.numbers.start, self.numbers.stop)

    def to_torch(self, transform: Callable[[Any], Any] | None = None) -> TorchDataset:
        """As `Records.to_torch`, of this part."""
        from dataprep.torch_dataset import TorchDataset

        return TorchDataset(self, transform)

    def __repr__(self) -> str:
        """Which examples, and a line for each of the first few."""
        text = f"<{counted(len(self), 'example')} of {self.records!r}"
        shown = [f"{number}: {describe(self[number])}" for number in range(len(self))[:_SHOWN]]
        more = [f"and {len(self) - _SHOWN:,} more"] if len(self) > _SHOWN else []
        return "\n".join([text + (":" if shown else ""), *shown, *more]) + ">"

    def __iter__(self) -> Iterator[Example]:
        """In order."""
        return self.records.between(self.numbers.start, self.numbers.stop)


def describe(example: Example) -> str:
    """An example in one line: key, labels, size."""
    labels = ", ".join(map(str, example.labels)) or "none"
    name = example.class_name if example.class_name != example.synset else ""
    words = [
        *filter(None, [printable(example.key), " class", labels, example.synset, name]),
        f" {example.width}x{example.height} {example.colorspace} {example.format} ",
        f"{len(example.encoded):,} bytes",
    ]
    if example.boxes:
        words.append(f" {counted(len(example.boxes), 'box', 'boxes')}")
    return " ".join(words + [f" {name} {value}" for name, value in example.attributes.items()])


class _OpenShards(threading.local):
    """The readers of one thread of one process."""

    def __init__(self) -> None:
        self._readers = _Readers()

    def get(self, shard: int) -> ShardReader | None:
        return self._own().get(shard)

    def put(self, shard: int, reader: ShardReader) -> None:
        self._own().put(shard, reader)

    def close(self) -> None:
        self._own().close()

    def _own(self) -> _Readers:
        if self._readers.process != os.getpid():
            self._readers = _Readers()
        return self._readers


class _Readers:
    """Open readers, the least recently used closed first, the rest when this goes away."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._readers: OrderedDict[int, ShardReader] = OrderedDict()

    def get(self, shard: int) -> ShardReader | None:
        if shard in self._readers:
            self._readers.move_to_end(shard)
        return self._readers.get(shard)

    def put(self, shard: int, reader: ShardReader) -> None:
        self._readers[shard] = reader
        if len(self._readers) > _MOST_OPEN:
            self._readers.popitem(last=False)[1].close()

    def close(self) -> None:
        while self._readers:
            self._readers.popitem()[1].close()

    def __del__(self) -> None:
        if self.process == os.getpid():
            self.close()
        else:
            # Forked: HDF5 and LMDB forbid even to close what the parent opened.
            _INHERITED.append(self._readers)
