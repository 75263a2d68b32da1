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
nodes vote every few chunks, and learn of the vote's outcome one vote later: so all stop behind the
same chunk. Only then do they tell each other what has happened.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dataprep.errors import DataprepError, StagingError
from dataprep.staging.copying import Watch
from dataprep.staging.inventory import SourceFile
from dataprep.staging.mpi import Failure, MpiPeers
from dataprep.staging.reading import SourceReader
from dataprep.staging.target.paths import CopiedFile, Verify
from dataprep.staging.writing import TargetWriter
from dataprep.system.throttle import Bandwidth

if TYPE_CHECKING:
    from mpi4py import MPI

MOST_LANES = 8  # files at a time: one core hashes about 1 GB/s
_CHUNK = 1 << 23  # bytes: large enough for full speed on file systems and networks
_AHEAD = 2  # chunks that a node reads before their turn
_UNDER_WAY = 4  # broadcasts at a time
_BUFFERS = 16  # more than are read ahead and under way: the rest waits for the storage
_CHUNKS_A_VOTE = 16
_PAUSE = 0.0002  # seconds between two looks, when there is nothing to send or no buffer

# What the byte behind a chunk's own says of it.
_SOUND = 1  # without this bit, its reader has failed


@dataclass(frozen=True, slots=True)
class Chunk:
    """What travels at a time.

    Attributes:
        file: of which it is.
        offset: where it begins in the file.
        length: in bytes; 0 if the file is empty.
        lane: the file's place among those that travel at the same time.
        reader: index of the node that reads it.
    """

    file: SourceFile
    offset: int
    length: int
    lane: int
    reader: int

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
        files: what travels.
        nodes: how many read.
        lanes: how many files travel at the same time.
        length: of a chunk, in bytes; the last one of a file is shorter.
    """
    loads = [(0, node) for node in range(nodes)]  # a heap
    waiting = iter(files)
    under_way: dict[int, Iterator[tuple[SourceFile, int]]] = dict.fromkeys(range(lanes), iter(()))
    while under_way:
        for lane in list(under_way):
            found = next(under_way[lane], None)
            if found is None and (file := next(waiting, None)) is not None:
                offsets = range(0, max(file.bytes, 1), length)
                under_way[lane] = iter([(file, offset) for offset in offsets])
                found = next(under_way[lane])
            if found is None:
                del under_way[lane]
                continue
            file, offset = found
            count = min(length, file.bytes - offset)
            load, reader = loads[0]
            heapq.heapreplace(loads, (load + max(1, count), reader))  # empty files are work too
            yield Chunk(file, offset, count, lane, reader)


def broadcast_files(
    peers: MpiPeers,
    source: Path,
    files: Sequence[SourceFile],
    target: int,
    *,
    lacking: Collection[str],
    verify: Verify,
    streams: int,
    watch: Watch,
    on_landed: Callable[[CopiedFile], None],
    bandwidth: float | None = None,
    chunk_bytes: int = _CHUNK,
) -> int:
    """Bring what is lacking to all nodes, reading it from the source once. All nodes must call it.

    A file that any node lacks travels to all, and those who have it drop it; a file that nobody
    lacks is not read. What is not explained here: `dataprep.staging.copying.copy_files`.

    Args:
        peers: all nodes.
        source: the directory that the files are in.
        files: all files there may be, the same on every node, in the same order.
        target: an open descriptor of the directory they go into.
        lacking: paths of those that this node needs; may be none.
        verify: what is proven of each file, on every node by itself.
        streams: how many files travel at the same time, at most 8; the least of all nodes counts.
        watch: told of every chunk that is stored here; stops all nodes.
        on_landed: called once a file is in its place here.
        bandwidth: bytes a second that this node reads, at most.
        chunk_bytes: what travels at a time; the same on every node.

    Returns:
        Bytes that this node has read from the source. All nodes' together are the bytes of the
        files that travelled.

    Raises:
        StagingError: as `copy_files`, or another node has failed; its name and its reason are in
            the message. Then all nodes raise, and no node keeps anything unfinished.
    """
    from mpi4py import MPI

    def new_writer(file: SourceFile) -> TargetWriter:
        return TargetWriter(
            target,
            file,
            source=source,
            verify=verify,
            pulse=watch.pulse,
        )

    needed = frozenset(lacking)
    with peers.in_step() as failure:
        reports = peers.settle(failure, {"lanes": max(1, min(streams, MOST_LANES))})
        lanes = min(report["lanes"] for report in reports)
        anywhere = bytearray(file.path in needed for file in files)
        peers.nodes.Allreduce(MPI.IN_PLACE, [anywhere, MPI.BYTE], MPI.BOR)
        travelling = [file for file, lacks in zip(files, anywhere, strict=True) if lacks]
        order = partial(chunks, travelling, nodes=peers.count, lanes=lanes, length=chunk_bytes)
        with ExitStack() as stack:
            pools = [stack.enter_context(ThreadPoolExecutor(1)) for _ in range(1 + lanes)]
            broadcast = _Broadcast(
                peers=peers,
                order=order(),
                mine=(chunk for chunk in order() if chunk.reader == peers.index),
                source=source,
                needed=needed,
                new_writer=new_writer,
                watch=watch,
                on_landed=on_landed,
                limit=Bandwidth(bandwidth),
                failure=failure,
                reading=pools[0],
                storing=pools[1:],
                free=deque(bytearray(chunk_bytes + 1) for _ in range(_BUFFERS)),
            )
            broadcast.run()
        broadcast.discard()
        peers.settle(failure)
    return broadcast.bytes_read


@dataclass
class _Broadcast:
    """One node's part: a thread that reads, the calls of MPI, and a thread a lane that stores.

    Attributes:
        peers: all nodes.
        order: of all chunks, the same on every node.
        mine: those that this node reads, in the same order.
        source: the directory that the files are in.
        needed: paths of the files that are lacking here.
        new_writer: begins such a file.
        free: buffers, each with a byte for the mark.
    """

    peers: MpiPeers
    order: Iterator[Chunk]
    mine: Iterator[Chunk]
    source: Path
    needed: Collection[str]
    new_writer: Callable[[SourceFile], TargetWriter]
    watch: Watch
    on_landed: Callable[[CopiedFile], None]
    limit: Bandwidth
    failure: Failure
    reading: Executor
    storing: Sequence[Executor]
    free: deque[bytearray]
    bytes_read: int = 0
    _ahead: deque[Future[bytearray]] = field(default_factory=deque)
    _under_way: deque[tuple[Chunk, bytearray, MPI.Request]] = field(default_factory=deque)
    _writers: dict[int, TargetWriter] = field(default_factory=dict)  # by lane
    _landing: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        """Until all have travelled, or all nodes know that one has failed."""
        vote: tuple[bytearray, MPI.Request] | None = None
        for number, chunk in enumerate(self.order, 1):
            try:
                self.watch.check()
            except DataprepError as error:
                self.failure.note(error)
            self._begin(chunk)
            while len(self._under_way) >= _UNDER_WAY:
                self._complete()
            if number % _CHUNKS_A_VOTE == 0:
                if vote is not None and self._is_stop(*vote):
                    vote = None
                    break
                vote = self._new_vote()
        while self._under_way:
            self._complete()
        if vote is not None:
            self._is_stop(*vote)  # all have voted; what comes of it is settled anyway

    def discard(self) -> None:
        """Once nothing is read or stored any more: what is not finished leaves nothing."""
        for lane in list(self._writers):
            self._drop(lane)

    def _begin(self, chunk: Chunk) -> None:
        from mpi4py import MPI

        mine = chunk.reader == self.peers.index
        # While this node waits for a buffer, chunks go on travelling through it.
        while (buffer := self._next_read() if mine else self._next_free()) is None:
            if self._under_way and self._under_way[0][2].Test():
                self._complete()
            else:
                time.sleep(_PAUSE)
        data = memoryview(buffer)[: chunk.length + 1]
        request = self.peers.nodes.Ibcast([data, MPI.BYTE], chunk.reader)
        self._under_way.append((chunk, buffer, request))

    def _complete(self) -> None:
        """Wait for the chunk that has been under way for longest, and hand it to its lane."""
        chunk, buffer, request = self._under_way.popleft()
        request.Wait()
        self.storing[chunk.lane].submit(self._take, chunk, buffer)

    def _new_vote(self) -> tuple[bytearray, MPI.Request]:
        """Begin to find out whether any node has failed."""
        from mpi4py import MPI

        vote = bytearray([self.failure.error is not None, 0])  # of this node, of all
        mine, outcome = memoryview(vote)[:1], memoryview(vote)[1:]
        # MPI does not keep the buffer alive; the caller does.
        request = self.peers.nodes.Iallreduce([mine, MPI.BYTE], [outcome, MPI.BYTE], MPI.BOR)
        return vote, request

    def _is_stop(self, vote: bytearray, request: MPI.Request) -> bool:
        request.Wait()
        return vote[1] != 0

    def _next_free(self) -> bytearray | None:
        """A buffer for what arrives; those for what is read ahead come first."""
        while self.free and len(self._ahead) < _AHEAD:
            if (chunk := next(self.mine, None)) is None:
                break
            self._ahead.append(self.reading.submit(self._read, chunk, self.free.pop()))
        return self.free.pop() if self.free else None

    def _next_read(self) -> bytearray | None:
        """This node's next chunk, with its mark behind it; None if it is not there yet."""
        if (buffer := self._next_free()) is not None:
            self.free.append(buffer)
        ready = self._ahead and self._ahead[0].done()
        return self._ahead.popleft().result() if ready else None

    def _read(self, chunk: Chunk, buffer: bytearray) -> bytearray:
        """In the thread that reads. After a failure chunks still travel, marked as bad."""
        mark = 0
        try:
            self._check()
            self.limit.take(chunk.length, self._check)
            # Opened anew: other nodes read what is before it and behind it.
            with SourceReader(self.source, chunk.file, scattered=True) as reader:
                reader.read(chunk.offset, memoryview(buffer)[: chunk.length])
                reader.check_unchanged()
                self.bytes_read += chunk.length
                mark = _SOUND
        except BaseException as error:  # noqa: BLE001  # raised where all nodes have heard of it
            self.failure.note(error)
        buffer[chunk.length] = mark
        return buffer

    def _check(self) -> None:
        if self.failure.error is not None:
            raise StagingError("stopped")  # never seen: what has stopped it came first

    def _take(self, chunk: Chunk, buffer: bytearray) -> None:
        """In a lane's thread: hash and store what has arrived, if it is lacking."""
        mark, lane = buffer[chunk.length], chunk.lane
        try:
            if not mark & _SOUND or self.failure.error is not None:
                self._drop(lane)
            elif chunk.offset == 0 and chunk.file.path in self.needed:
                self._writers[lane] = self.new_writer(chunk.file)
            if lane in self._writers:
                self._store(chunk, memoryview(buffer)[: chunk.length])
        except BaseException as error:  # noqa: BLE001  # raised once all nodes know
            self.failure.note(error)
            self._drop(lane)
        finally:
            self.free.append(buffer)

    def _store(self, chunk: Chunk, data: memoryview) -> None:
        writer = self._writers[chunk.lane]
        writer.write(data, chunk.offset)
        self.watch.advance(chunk.length)
        if chunk.is_last:
            landed = writer.finish()
            self._drop(chunk.lane)
            with self._landing:
                self.on_landed(landed)

    def _drop(self, lane: int) -> None:
        """A file that is not finished leaves nothing."""
        if lane in self._writers:
            self._writers.pop(lane).__exit__(None, None, None)
