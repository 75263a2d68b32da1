"""Copying to all nodes at once: every byte is read once, and travels on between the nodes.

::

    file system ─▶ reader ─┬▶ lanes ─▶ target       on the node that reads a chunk
                           │
                           ╰─ Ibcast ─▶ lanes ─▶ target       on every other node

All nodes are readers, each of its own chunks, so that all links to the file system are used, and
receivers of all. Every node goes through the same chunks in the same order and starts a
non-blocking broadcast for each, with that chunk's reader as its root; several are under way at a
time, so that the network, the file system and the node's storage are all busy. The network's shape
(trees, segments, multicast) is left to the MPI library.

Nothing may fall out of step, so a node that fails goes on taking part, and drops what arrives. All
nodes vote every few chunks, so all stop behind the same chunk. Only then do they tell each other
what has happened.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, NamedTuple, Self

from dataprep.errors import DataprepError, StagingError
from dataprep.staging.mpi import MpiPeers
from dataprep.staging.source import SourceFile, open_source
from dataprep.staging.writing import Progress, TargetWriter, Transfer

if TYPE_CHECKING:
    from mpi4py import MPI

_LANES = 8  # files at a time: one core hashes about 1 GB/s
_CHUNK = 1 << 23  # bytes: large enough for full speed on file systems and networks
_UNDER_WAY = 4  # broadcasts at a time
_READ_BUFFERS = 6  # for what is read here: ahead of its turn, under way, or waiting for the storage
_BUFFERS = 10  # for what arrives: under way, or waiting for the storage
_CHUNKS_A_VOTE = 16
_PAUSE = 0.0002  # seconds between two looks, when there is nothing to send or no buffer


class Chunk(NamedTuple):
    """What travels at a time."""

    file: SourceFile  # of which it is
    offset: int  # where it begins in the file
    length: int  # in bytes; 0 if the file is empty
    lane: int  # the file's place among those that travel at the same time
    reader: int  # index of the node that reads it

    @property
    def is_last(self) -> bool:
        """Whether the file ends with it."""
        return self.offset + self.length == self.file.bytes


def chunks(files: Sequence[SourceFile], *, nodes: int, lanes: int, length: int) -> Iterator[Chunk]:
    """Every chunk of every file, in the order in which they travel; the same on every node.

    The chunks of one file come in their order; those of as many files as there are lanes take
    turns, so that a node can hash and write several files at the same time. Each is read by the
    node that has been given the least so far.

    Args:
        length: of a chunk, in bytes; the last one of a file is shorter.
    """

    def in_lane(lane: int) -> Iterator[tuple[int, SourceFile, int]]:
        for file in files[lane::lanes]:
            for offset in range(0, max(file.bytes, 1), length):
                yield lane, file, offset

    loads = [(0, node) for node in range(nodes)]  # a heap
    turns = chain.from_iterable(zip_longest(*map(in_lane, range(lanes))))
    for lane, file, offset in filter(None, turns):
        count = min(length, file.bytes - offset)
        load, reader = loads[0]
        heapq.heapreplace(loads, (load + max(1, count), reader))  # empty files are work too
        yield Chunk(file, offset, count, lane, reader)


def broadcast_files(
    peers: MpiPeers,
    transfer: Transfer,
    files: Sequence[SourceFile],
    *,
    lacking: Collection[str],
    chunk_bytes: int = _CHUNK,
) -> int:
    """Bring what is lacking to all nodes, reading it from the source once. All nodes must call it.

    A file that any node lacks travels to all, and those who have it drop it; a file that nobody
    lacks is not read.

    Args:
        files: all files there may be, the same on every node, in the same order.
        lacking: paths of those that this node needs; may be none.
        chunk_bytes: what travels at a time; the same on every node.

    Returns:
        Bytes that this node has read from the source. All nodes' together are the bytes of the
        files that travelled.

    Raises:
        StagingError: as `copy_files`, or another node has failed; its name and its reason are in
            the message. Then all nodes raise, and no node keeps anything unfinished.
    """
    from mpi4py import MPI

    needed = frozenset(lacking)
    with peers.in_step():
        peers.settle()  # a node may have failed since all last told each other, or be late
        anywhere = bytearray(file.path in needed for file in files)
        peers.nodes.Allreduce(MPI.IN_PLACE, [anywhere, MPI.BYTE], MPI.BOR)
        travelling = [file for file, lacks in zip(files, anywhere, strict=True) if lacks]
        order = partial(chunks, travelling, nodes=peers.count, lanes=_LANES, length=chunk_bytes)
        mine = (chunk for chunk in order() if chunk.reader == peers.index)
        with (
            _Reader(peers, transfer, mine, chunk_bytes) as reader,
            _Storage(peers, transfer, needed) as storage,
        ):
            _travel(peers, order(), reader, storage, transfer.progress)
        peers.settle()
    return reader.bytes_read


def _travel(
    peers: MpiPeers, order: Iterator[Chunk], reader: _Reader, storage: _Storage, progress: Progress
) -> None:
    """Let every chunk travel through this node, to the end or until a node has failed."""
    from mpi4py import MPI

    free = deque(bytearray(reader.length + 1) for _ in range(_BUFFERS))
    under_way: deque[tuple[Chunk, bytearray, MPI.Request]] = deque()

    def complete() -> None:
        """Wait for the chunk that has been under way for longest, and have it stored."""
        chunk, buffer, request = under_way.popleft()
        request.Wait()
        storage.store(chunk, buffer, reader.spare if chunk.reader == peers.index else free)

    def next_buffer(chunk: Chunk) -> bytearray:
        """What this node has read of the chunk; or, if another one reads it, room for it."""
        while True:
            reader.read_ahead()
            if chunk.reader == peers.index:
                if (read := reader.take()) is not None:
                    return read
            elif free:
                return free.pop()
            # Meanwhile chunks go on travelling through this node.
            if under_way and under_way[0][2].Test():
                complete()
            else:
                time.sleep(_PAUSE)

    for number, chunk in enumerate(order, 1):
        buffer = next_buffer(chunk)
        data = memoryview(buffer)[: chunk.length + 1]
        under_way.append((chunk, buffer, peers.nodes.Ibcast([data, MPI.BYTE], chunk.reader)))
        if len(under_way) == _UNDER_WAY:
            complete()
        if number % _CHUNKS_A_VOTE == 0 and _has_any_failed(peers, progress):
            break
    while under_way:
        complete()


def _has_any_failed(peers: MpiPeers, progress: Progress) -> bool:
    """All nodes vote."""
    from mpi4py import MPI

    try:
        progress.check()
    except DataprepError as error:
        peers.note(error)
    vote = bytearray([peers.failure is not None])
    request = peers.nodes.Iallreduce(MPI.IN_PLACE, [vote, MPI.BYTE], MPI.BOR)
    while not request.Test():
        time.sleep(_PAUSE)  # and leave the core to those that hash
    return vote[0] != 0


class _Reader:
    """Reads this node's chunks ahead of their turn, in a thread. A context manager.

    Behind each chunk's bytes is one that says whether they could be read.
    """

    def __init__(
        self, peers: MpiPeers, transfer: Transfer, mine: Iterator[Chunk], length: int
    ) -> None:
        self.length, self.bytes_read = length, 0
        self.spare = deque(bytearray(length + 1) for _ in range(_READ_BUFFERS))
        self._peers, self._transfer, self._mine = peers, transfer, mine
        self._ahead: deque[Future[bytearray]] = deque()
        self._thread = ThreadPoolExecutor(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()

    def read_ahead(self) -> None:
        """Begin to read as much as there are buffers for."""
        while self.spare and (chunk := next(self._mine, None)) is not None:
            self._ahead.append(self._thread.submit(self._read, chunk, self.spare.pop()))

    def take(self) -> bytearray | None:
        """The next chunk, if it is read by now."""
        return self._ahead.popleft().result() if self._ahead[0].done() else None

    def _read(self, chunk: Chunk, buffer: bytearray) -> bytearray:
        """After a failure chunks still travel, marked as bad."""
        buffer[chunk.length] = 0
        try:
            self._check()
            self._transfer.limit.take(chunk.length, self._check)
            # Opened anew: other nodes read what is before it and behind it.
            with open_source(self._transfer.source, chunk.file, scattered=True) as reader:
                reader.read(chunk.offset, memoryview(buffer)[: chunk.length])
                reader.check_unchanged()
            self.bytes_read += chunk.length
            buffer[chunk.length] = 1
        except BaseException as error:  # noqa: BLE001  # raised where all nodes have heard of it
            self._peers.note(error)
        return buffer

    def _check(self) -> None:
        if self._peers.failure is not None:
            raise StagingError("stopped")  # never seen: what has stopped it came first


class _Storage:
    """Hashes and stores what arrives and is lacking, in a thread a lane. A context manager."""

    def __init__(self, peers: MpiPeers, transfer: Transfer, needed: Collection[str]) -> None:
        self._peers, self._transfer, self._needed = peers, transfer, needed
        self._threads = [ThreadPoolExecutor(1) for _ in range(_LANES)]
        self._writers: dict[int, TargetWriter] = {}  # by lane

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._threads:
            thread.shutdown()
        for lane in [*self._writers]:
            self._drop(lane)

    def store(self, chunk: Chunk, buffer: bytearray, free: deque[bytearray]) -> None:
        """Begin to, and put the buffer among the free ones when that is done."""
        self._threads[chunk.lane].submit(self._store, chunk, buffer, free)

    def _store(self, chunk: Chunk, buffer: bytearray, free: deque[bytearray]) -> None:
        try:
            if not buffer[chunk.length] or self._peers.failure is not None:
                self._drop(chunk.lane)
            elif chunk.offset == 0 and chunk.file.path in self._needed:
                self._writers[chunk.lane] = TargetWriter(self._transfer, chunk.file)
            if (writer := self._writers.get(chunk.lane)) is not None:
                writer.write(memoryview(buffer)[: chunk.length], chunk.offset)
                self._transfer.progress.advance(chunk.length)
                if chunk.is_last:
                    copied = writer.finish()
                    self._drop(chunk.lane)
                    self._transfer.on_copied(copied)
        except BaseException as error:  # noqa: BLE001  # raised once all nodes know
            self._peers.note(error)
            self._drop(chunk.lane)
        finally:
            free.append(buffer)

    def _drop(self, lane: int) -> None:
        """A file that is not finished leaves nothing."""
        if lane in self._writers:
            self._writers.pop(lane).__exit__(None, None, None)
