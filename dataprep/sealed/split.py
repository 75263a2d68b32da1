"""The examples of one split of a finished data set, shard by shard."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from dataprep.errors import SinkError
from dataprep.sealed.set import SealedSet
from dataprep.system.messages import unreadable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dataprep.sinks import ShardReader
    from dataprep.sinks.example import Example


class FinishedSplit:
    """The examples of one split, in the order they were written; opens nothing but to read.

    Of a node's part of a data set, those of the shards that are there, numbered from 0.

    Attributes:
        out: the directory of the data set, absolute.
        split: its name.
        info: what is true of every example.
        sink: the format.
        ends: of each shard that is there, the number behind its last example.
        files: of each shard, where they are, relative to the directory.

    Raises:
        UsageError: no such split, or a format that is not installed.
    """

    def __init__(self, sealed: SealedSet, split: str) -> None:
        self.split = sealed.split_called(split)
        self.out = sealed.out.absolute()
        self.info, self.sink = sealed.info, sealed.sink
        shards = sealed.splits[self.split].shards
        self.files = [[file.path for file in shard.files] for shard in shards]
        self.ends: list[int] = list(accumulate(shard.records for shard in shards))

    def __len__(self) -> int:
        """How many examples there are."""
        return self.ends[-1] if self.ends else 0

    def start(self, shard: int) -> int:
        """The number of a shard's first example."""
        return self.ends[shard - 1] if shard else 0

    def reader(self, shard: int) -> ShardReader:
        """Of one shard, which is counted from 0; to be closed.

        Raises:
            SinkError: it is missing, damaged, or cannot be read.
        """
        paths = [self.out / path for path in self.files[shard]]
        try:
            return self.sink.reader(paths, self.info)
        except OSError as error:
            raise SinkError(str(unreadable(str(error.filename or paths[0]), error))) from error

    def take(self, numbers: Sequence[int] | NDArray[np.integer[Any]]) -> Iterator[Example]:
        """Examples with these numbers, which ascend; whole shards are read from end to end.

        Raises:
            SinkError: one is damaged, as far as the format lets one check that.
        """
        done = 0
        for shard, end in enumerate(self.ends):
            stop = bisect_left(numbers, end)
            if done == stop:
                continue
            begin = self.start(shard)
            # A reader of its own: whoever iterates may read by number in between.
            with self.reader(shard) as reader:
                if stop - done == end - begin:
                    yield from reader
                else:
                    yield from (reader[int(number) - begin] for number in numbers[done:stop])
            done = stop
