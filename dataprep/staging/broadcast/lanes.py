"""One node's part of a broadcast's writing: a thread a lane, each with a file at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Self

from dataprep.staging.broadcast.failure import Failure
from dataprep.staging.broadcast.plan import Parcel
from dataprep.staging.broadcast.reader import HOLE, SOUND, SPARSE
from dataprep.staging.copied_file import CopiedFile
from dataprep.staging.copying.streams import Watch
from dataprep.staging.copying.writing import TargetWriter
from dataprep.staging.inventory import SourceFile


@dataclass(frozen=True, slots=True)
class Arrival:
    """A parcel that has come, whoever has read it.

    Attributes:
        parcel: which.
        buffer: its bytes, and its mark behind them.
        give_back: takes the buffer again.
    """

    parcel: Parcel
    buffer: bytearray
    give_back: Callable[[bytearray], None]

    @property
    def mark(self) -> int:
        """What its reader says of it."""
        return self.buffer[self.parcel.length]


class _DroppedError(Exception):
    """What is left of the file is not worth having: something has failed, here or elsewhere."""


class Lanes:
    """Hashes and stores what arrives, if it is lacking; drops the rest. A context manager.

    After a failure it goes on taking parcels, and drops them.

    Args:
        count: of lanes.
        lacks: whether a file is lacking here.
        new_writer: begins a file, sparse or not.
        watch: told of every parcel.
        on_landed: called once a file is in its place, from any lane's thread, one at a time.
        failure: of this node.
    """

    def __init__(
        self,
        count: int,
        *,
        lacks: Callable[[SourceFile], bool],
        new_writer: Callable[[SourceFile, bool], TargetWriter],
        watch: Watch,
        on_landed: Callable[[CopiedFile], None],
        failure: Failure,
    ) -> None:
        self._lacks = lacks
        self._new_writer = new_writer
        self._watch = watch
        self._on_landed = on_landed
        self._failure = failure
        self._landing = threading.Lock()
        self._inboxes: list[SimpleQueue[Arrival | None]] = [SimpleQueue() for _ in range(count)]
        self._threads = [
            threading.Thread(target=self._work, args=[inbox], name="lane", daemon=True)
            for inbox in self._inboxes
        ]

    def put(self, arrival: Arrival) -> None:
        """Hand over what has arrived; its buffer is given back later."""
        self._inboxes[arrival.parcel.lane].put(arrival)

    def _work(self, inbox: SimpleQueue[Arrival | None]) -> None:
        # Storing waits for the storage, hashing for the processor: side by side.
        with ThreadPoolExecutor(1, "store") as storing:
            while (arrival := inbox.get()) is not None:
                file = arrival.parcel.file
                if self._failure.is_set() or arrival.parcel.offset > 0 or not self._lacks(file):
                    arrival.give_back(arrival.buffer)
                    continue
                try:
                    self._take_file(arrival, inbox, storing)
                except _DroppedError:
                    continue
                except BaseException as error:  # noqa: BLE001 - raised once all nodes know
                    self._failure.note(error)

    def _take_file(
        self,
        arrival: Arrival | None,
        inbox: SimpleQueue[Arrival | None],
        storing: ThreadPoolExecutor,
    ) -> None:
        writer: TargetWriter | None = None
        try:
            while True:
                if arrival is None:
                    inbox.put(None)  # for the loop outside
                    raise _DroppedError
                try:
                    if self._failure.is_set() or not arrival.mark & SOUND:
                        raise _DroppedError
                    if writer is None:
                        writer = self._new_writer(arrival.parcel.file, bool(arrival.mark & SPARSE))
                    self._store(arrival, writer, storing)
                finally:
                    arrival.give_back(arrival.buffer)
                if arrival.parcel.is_last:
                    break
                arrival = inbox.get()
            landed = writer.finish()
        finally:
            if writer is not None:
                writer.__exit__(None, None, None)
        with self._landing:
            self._on_landed(landed)

    def _store(self, arrival: Arrival, writer: TargetWriter, storing: ThreadPoolExecutor) -> None:
        parcel = arrival.parcel
        if arrival.mark & HOLE:
            writer.skip(parcel.length)
        else:
            data = memoryview(arrival.buffer)[: parcel.length]
            stored = storing.submit(writer.store, data, parcel.offset)
            try:
                writer.hash(data)
            finally:
                stored.result()  # before the buffer is given back
        self._watch.advance(parcel.length)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Wait until all that has arrived is stored."""
        for inbox in self._inboxes:
            inbox.put(None)
        for thread in self._threads:
            thread.join()
