"""The examples of one split of a finished data set, shard by shard, or by number."""

from __future__ import annotations

import os
import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import accumulate, groupby, islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from dataprep.errors import SinkError
from dataprep.formats import ShardReader
from dataprep.formats.example import Example
from dataprep.remote.cache import cache_at
from dataprep.sealed.set import SealedSet
from dataprep.system.job_limits import usable_cores
from dataprep.system.messages import unreadable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MOST_OPEN: Final = 32  # shards; a process may usually open 1024 files
_INHERITED: list[object] = []  # readers of the parent process, kept so that nothing closes them

_Read = TypeVar("_Read", Example, bytes)


class FinishedSplit:
    """The examples of one split, in the order they were written; opens nothing but to read.

    Of a node's part of a data set, those of the shards that are there, numbered from 0.

    May be used from several threads, and pickled or forked into other processes: each opens the
    files for itself, at its first read, and at most 32 shards at a time. They are closed by
    `close`, or when nobody needs them any more.

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
        self._open = _OpenShards(self.most_open)
        self.place = str(self.out) if self.cache is None else self.cache.address

    def __len__(self) -> int:
        """How many examples there are."""
        return self.ends[-1] if self.ends else 0

    def __getitem__(self, number: int) -> Example:
        """The example with this number, from 0.

        Raises:
            SinkError: it is damaged, or its shard is missing.
        """
        shard = self.shard_of(number)
        return self.opened(shard)[number - self.start(shard)]

    def read(
        self, numbers: Sequence[int], read: Callable[[ShardReader, int], _Read]
    ) -> list[_Read]:
        """Of each number, in that order; read in that of the files, and announced before."""
        order = sorted(range(len(numbers)), key=numbers.__getitem__)
        found: dict[int, _Read] = {}
        shards = groupby(order, lambda place: self.shard_of(numbers[place]))
        here = self._open.here
        while some := [(shard, list(places)) for shard, places in islice(shards, here.most)]:
            self.announce(shard for shard, _ in some if shard not in here)
            opened = [(self.opened(shard), self.start(shard), places) for shard, places in some]
            if len(numbers) > 1:
                for reader, start, places in opened:
                    for place in places:
                        reader.will_need(numbers[place] - start)
            for reader, start, places in opened:
                for place in places:
                    found[place] = read(reader, numbers[place] - start)
        return [found[place] for place in range(len(numbers))]

    def shard_of(self, number: int) -> int:
        """The shard that an example is in."""
        return bisect_right(self.ends, number)

    def place_of(self, number: int) -> str:
        """The shard of an example and its record there, for messages."""
        shard = self.shard_of(number)
        path = f"{self.place}/{self.shards[shard].files[0].path}"
        return f"{path}: record {number - self.start(shard)}"

    def start(self, shard: int) -> int:
        """The number of a shard's first example."""
        return self.ends[shard - 1] if shard else 0

    def opened(self, shard: int) -> ShardReader:
        """Of one shard, which this thread keeps open; see `reader`."""
        return self._open.here.get(shard, self.reader)

    def close(self) -> None:
        """Close what this thread has open; reading opens it again."""
        self._open.here.close()

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


class _OpenShards(threading.local):
    """The readers of one thread of one process; pickled, those of none."""

    def __init__(self, most: int) -> None:
        self._readers = _Readers(most)

    def __reduce__(self) -> tuple[type[_OpenShards], tuple[int]]:
        return _OpenShards, (self._readers.most,)

    @property
    def here(self) -> _Readers:
        if self._readers.process != os.getpid():
            self._readers = _Readers(self._readers.most)
        return self._readers


class _Readers:
    """Open readers, the least recently used closed first, the rest when this goes away."""

    def __init__(self, most: int) -> None:
        self.process, self.most = os.getpid(), most
        self._readers: OrderedDict[int, ShardReader] = OrderedDict()

    def __contains__(self, shard: int) -> bool:
        return shard in self._readers

    def get(self, shard: int, opened: Callable[[int], ShardReader]) -> ShardReader:
        if shard not in self._readers:
            if len(self._readers) == self.most:  # first, so that its place in a cache is free
                self._readers.popitem(last=False)[1].close()
            self._readers[shard] = opened(shard)
        self._readers.move_to_end(shard)
        return self._readers[shard]

    def close(self) -> None:
        while self._readers:
            self._readers.popitem()[1].close()

    def __del__(
        self, here: Callable[[], int] = os.getpid, inherited: list[object] = _INHERITED
    ) -> None:
        # What a module knows may be gone when a process ends: hence the arguments.
        if self.process == here():
            self.close()
        else:
            # Forked: HDF5 and LMDB forbid even to close what the parent opened.
            inherited.append(self._readers)
