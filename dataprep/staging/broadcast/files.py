"""Copying to all nodes at once: every byte is read once, and travels on between the nodes.

::

    file system ─▶ reader ─┬▶ lanes ─▶ target       on the node that reads a parcel
                           │
                           ╰─ Ibcast ─▶ lanes ─▶ target       on every other node

All nodes are readers, each of its own parcels, so that all links to the file system are used, and
receivers of all. Every node goes through the same parcels in the same order (`broadcast.plan`) and
calls a non-blocking broadcast for each, with that parcel's reader as its root; several are under
way at a time. Why so, and not a chain of messages from node to node: MPI libraries know the
network's shape (trees, pipelines in segments, multicast in the switches), where 1536 hops of a
chain, with Python at each, would add seconds of delay and go at the pace of the slowest hop. And
why several at a time: while one parcel is still on its way to the last nodes, the next reader's is
already leaving, and no node waits for the network and its storage in turn.

Nothing may fall out of step, so a node that fails goes on taking part, and drops what arrives. All
nodes vote every few parcels, and learn of the vote's outcome one vote later, while parcels travel
on: so all stop behind the same parcel. Only then do they tell each other what has happened.

Memory: `_RECEIVING` buffers for what arrives, twice the lanes for what is read ahead.
"""

from __future__ import annotations

import hashlib
import time
from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeVar

from dataprep.errors import DataprepError, StagingError
from dataprep.staging.broadcast.failure import Failure
from dataprep.staging.broadcast.lanes import Arrival, Lanes
from dataprep.staging.broadcast.mpi import MpiPeers
from dataprep.staging.broadcast.mpi_messages import wait_for
from dataprep.staging.broadcast.plan import Parcel, parcels, run_bytes
from dataprep.staging.broadcast.reader import ParcelReader
from dataprep.staging.copying.watch import Watch
from dataprep.staging.copying.writing import TargetWriter
from dataprep.staging.inventory import SourceFile
from dataprep.staging.landed import Landed, Verify
from dataprep.system.messages import printable
from dataprep.system.state_files import to_json

if TYPE_CHECKING:
    from mpi4py import MPI

_PARCEL = 1 << 22  # bytes: large enough for full speed on file systems and networks
MOST_LANES = 8  # with as many, the parcels under way come from as many nodes
_UNDER_WAY = 6  # broadcasts at a time
_RECEIVING = 16  # buffers: those under way, and what waits for the storage
_PARCELS_A_VOTE = 16
_PAUSE = 0.0002  # seconds between two looks, when there is nothing to send or no buffer


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Shape:
    """What all nodes must have in common."""

    parcel: int
    lanes: int
    readers: int

    def run(self, files: Sequence[SourceFile]) -> int:
        return run_bytes(len(files), lanes=self.lanes, length=self.parcel)

    def parcels(self, files: Sequence[SourceFile]) -> Iterator[Parcel]:
        return parcels(
            files,
            readers=self.readers,
            lanes=self.lanes,
            length=self.parcel,
            run=self.run(files),
        )


def broadcast_files(
    peers: MpiPeers,
    source: Path,
    files: Sequence[SourceFile],
    target: int,
    *,
    lacking: Collection[str],
    verify: Verify,
    hashed: bool,
    streams: int,
    watch: Watch,
    on_landed: Callable[[Landed], None],
    bandwidth: float | None = None,
    parcel_bytes: int = _PARCEL,
) -> int:
    """Bring what is lacking to all nodes, reading it from the source once. All nodes must call it.

    A file that any node lacks travels to all, and those who have it drop it; a file that nobody
    lacks is not read. What is not explained here: `dataprep.staging.copying.files.copy_files`.

    Args:
        peers: the copiers of all nodes.
        source: the directory that the files are in.
        files: all files there may be, the same on every node, in the same order.
        target: an open descriptor of the directory they go into.
        lacking: paths of those that this node needs; may be none.
        verify: what is proven of each file, on every node by itself.
        hashed: also hash files of which no hash is known.
        streams: how many files travel at the same time, at most 8; the same on every node, or the
            least counts.
        watch: told of every parcel that is stored here; stops all nodes.
        on_landed: called once a file is in its place here.
        bandwidth: bytes a second that this node reads, at most.
        parcel_bytes: what travels at a time; the same on every node.

    Returns:
        Bytes that this node has read from the source. All nodes' together are the bytes of the
        files that travelled.

    Raises:
        StagingError: as `copy_files`, or another node has failed; its name and its reason are in
            the message. Then all nodes raise, and no node keeps anything unfinished.
    """
    failure = Failure()

    def work() -> int:
        shape = _agree(peers, source, files, parcel_bytes, streams)
        travelling = _lacking_anywhere(peers.among, files, lacking)
        with (
            ParcelReader(
                source,
                (parcel for parcel in shape.parcels(travelling) if parcel.reader == peers.index),
                run=shape.run(travelling),
                length=shape.parcel,
                threads=shape.lanes,
                bandwidth=bandwidth,
                failure=failure,
            ) as reader,
            Lanes(
                shape.lanes,
                lacks=lambda file: file.path in needed,
                new_writer=lambda file, sparse: TargetWriter(
                    target,
                    file,
                    source=source,
                    verify=verify,
                    hashed=hashed,
                    sparse=sparse,
                    pulse=watch.pulse,
                ),
                watch=watch,
                on_landed=on_landed,
                failure=failure,
            ) as lanes,
        ):
            traffic = _Traffic(peers, reader, lanes, watch, failure, shape.parcel)
            traffic.run(shape.parcels(travelling))
        peers.settle(failure.error)
        return reader.bytes_read

    needed = frozenset(lacking)
    return peers.run(work, failure.note)


def _agree(
    peers: MpiPeers, source: Path, files: Sequence[SourceFile], parcel_bytes: int, streams: int
) -> _Shape:
    """What all nodes have in common; all end here if that is not enough."""
    listed = hashlib.sha256(to_json([[file.path, file.bytes] for file in files])).hexdigest()
    mine = {"files": listed, "parcel": parcel_bytes, "lanes": max(1, min(streams, MOST_LANES))}
    reports = peers.settle(None, mine)
    for node, report in enumerate(reports):
        if (report["files"], report["parcel"]) != (reports[0]["files"], reports[0]["parcel"]):
            peers.settle(
                StagingError(
                    f"node {node} finds other files in {printable(str(source))} than node 0; "
                    "run the same command again once nobody writes to it"
                )
            )
    return _Shape(parcel_bytes, min(report["lanes"] for report in reports), peers.count)


def _lacking_anywhere(
    communicator: MPI.Comm, files: Sequence[SourceFile], lacking: Collection[str]
) -> list[SourceFile]:
    """The files that any node lacks."""
    from mpi4py import MPI

    wanted = frozenset(lacking)
    mine = bytearray(file.path in wanted for file in files)
    anywhere = bytearray(len(files))
    wait_for(communicator.Iallreduce([mine, MPI.BYTE], [anywhere, MPI.BYTE], MPI.BOR))
    return [file for file, lacks in zip(files, anywhere, strict=True) if lacks]


@dataclass(frozen=True, slots=True)
class _Vote:
    """Whether any node has failed."""

    mine: array[int]
    outcome: array[int]
    request: MPI.Request


class _Traffic:
    """Sends and receives all parcels, in step with the other nodes."""

    def __init__(
        self,
        peers: MpiPeers,
        reader: ParcelReader,
        lanes: Lanes,
        watch: Watch,
        failure: Failure,
        length: int,
    ) -> None:
        self._peers = peers
        self._reader = reader
        self._lanes = lanes
        self._watch = watch
        self._failure = failure
        self._free: SimpleQueue[bytearray] = SimpleQueue()
        for _ in range(_RECEIVING):
            self._free.put(bytearray(length + 1))
        self._under_way: deque[tuple[Arrival, MPI.Request]] = deque()

    def run(self, order: Iterator[Parcel]) -> None:
        """Until all have travelled, or all nodes know that one has failed."""
        vote: _Vote | None = None
        for number, parcel in enumerate(order, 1):
            self._heed_watch()
            self._begin(parcel)
            while len(self._under_way) >= _UNDER_WAY:
                self._complete()
            if number % _PARCELS_A_VOTE == 0:
                if vote is not None and self._is_stop(vote):
                    vote = None
                    break
                vote = self._new_vote()
        while self._under_way:
            self._complete()
        if vote is not None:
            self._is_stop(vote)  # all have voted; what comes of it is settled anyway

    def _heed_watch(self) -> None:
        try:
            self._watch.check()
        except DataprepError as error:
            self._failure.note(error)

    def _begin(self, parcel: Parcel) -> None:
        from mpi4py import MPI

        if parcel.reader == self._peers.index:
            buffer = self._await(self._reader.next_ready)
            arrival = Arrival(parcel, buffer, self._reader.give_back)
        else:
            buffer = self._await(self._next_free)
            arrival = Arrival(parcel, buffer, self._free.put)
        data = memoryview(buffer)[: parcel.length + 1]
        request = self._peers.among.Ibcast([data, MPI.BYTE], parcel.reader)
        self._under_way.append((arrival, request))

    def _next_free(self) -> bytearray | None:
        try:
            return self._free.get_nowait()
        except Empty:
            return None

    def _await(self, get: Callable[[], _T | None]) -> _T:
        """Wait for something of this node, while parcels go on travelling through it."""
        while (got := get()) is None:
            if self._under_way and self._under_way[0][1].Test():
                self._complete()
            else:
                time.sleep(_PAUSE)
        return got

    def _complete(self) -> None:
        """Wait for the parcel that has been under way for longest."""
        arrival, request = self._under_way.popleft()
        request.Wait()
        self._lanes.put(arrival)

    def _new_vote(self) -> _Vote:
        from mpi4py import MPI

        mine, outcome = array("i", [self._failure.is_set()]), array("i", [0])
        request = self._peers.among.Iallreduce([mine, MPI.INT], [outcome, MPI.INT], MPI.MAX)
        return _Vote(mine, outcome, request)

    def _is_stop(self, vote: _Vote) -> bool:
        vote.request.Wait()
        return vote.outcome[0] != 0
