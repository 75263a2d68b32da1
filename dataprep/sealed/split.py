"""The examples of one split of a finished data set, shard by shard."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from dataprep.errors import SinkError
from dataprep.remote.cache import cache_at
from dataprep.sealed.set import SealedSet
from dataprep.system.job_limits import usable_cores
from dataprep.system.messages import unreadable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dataprep.sinks import ShardReader
    from dataprep.sinks.example import Example

_MOST_OPEN: Final = 32  # shards; a process may usually open 1024 files


class FinishedSplit:
    """The examples of one split, in the order they were written; opens nothing but to read.

    Of a node's part of a data set, those of the shards that are there, numbered from 0.

    Attributes:
        out: the directory of the data set, absolute.
        split: its name.
        info: what is true of every example.
        sink: the format.
        ends: of each shard that is there, the number behind its last example.
        shards: what is there.
        cache: that the directory is of, if the data set is in a bucket; else None.
        place: where the data set is, for a person.
        sparse: whether of shards in a bucket only the ranges are read that somebody fills.

    Raises:
        UsageError: no such split, or a format that is not installed.
    """

    def __init__(self, sealed: SealedSet, split: str) -> None:
        self.sparse = False
        self.split = sealed.split_called(split)
        self.out = sealed.out.absolute()
        self.info, self.sink = sealed.info, sealed.sink
        self.shards = sealed.splits[self.split].shards
        self.ends: list[int] = list(accumulate(shard.records for shard in self.shards))
        self.cache = cache_at(self.out)
        self.place = str(self.out) if self.cache is None else self.cache.address

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
            RemoteError: it is in a bucket, and cannot be had.
        """
        files = self.shards[shard].files
        paths = [self.out / file.path for file in files]
        with ExitStack() as until_read:
            if self.cache is not None:
                paths = until_read.enter_context(self.cache.held(files, sparse=self.sparse))
            try:
                reader = self.sink.reader(paths, self.info)
            except OSError as error:
                raise SinkError(str(unreadable(str(error.filename or paths[0]), error))) from error
            reader.opened.push(until_read.pop_all())
        return reader

    def announce(self, shards: Iterable[int]) -> None:
        """Have shards that are in a bucket fetched, since they will be read."""
        if self.cache is not None:
            for shard in shards:
                for file in self.shards[shard].files[self.sparse :]:
                    self.cache.fetch(file, ahead=True)

    @property
    def most_open(self) -> int:
        """How many shards a thread should have open: fewer where a cache has no room for more."""
        if self.cache is None or self.cache.most is None:
            return _MOST_OPEN
        sizes = (sum(file.bytes for file in shard.files) for shard in self.shards)
        largest = max((1, *sizes))
        return max(1, min(_MOST_OPEN, self.cache.most // largest // (2 * usable_cores())))

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
