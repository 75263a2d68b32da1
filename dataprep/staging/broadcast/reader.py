"""One node's part of a broadcast's reading: its parcels, read ahead of their turn."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType

from typing_extensions import Self

from dataprep.errors import StagingError
from dataprep.staging.broadcast.plan import Parcel
from dataprep.staging.copying.bandwidth import Bandwidth
from dataprep.staging.copying.reading import Piece, SourceReader
from dataprep.staging.inventory import SourceFile

# What the byte behind a parcel's own says of it.
SOUND = 1  # without this bit, its reader has failed
HOLE = 2  # nothing but zeros of a sparse file
SPARSE = 4  # its file is sparse


@dataclass(slots=True)
class _Run:
    """Parcels of one file that this node reads in a row, with the file open for all of them."""

    file: SourceFile
    left: int  # parcels not read yet
    lock: threading.Lock = field(default_factory=threading.Lock)
    reader: SourceReader | None = None


class ParcelReader:
    """Reads this node's parcels in threads, as far ahead as there are buffers. A context manager.

    A failure does not stop it, for the other nodes count on its parcels: they are marked as bad.

    Args:
        source: the directory that the files are in.
        mine: this node's parcels, in the order in which they travel.
        run: bytes of a file that one node reads in a row.
        length: of a parcel, at most.
        threads: how many parcels are read at the same time.
        bandwidth: bytes a second, at most.
        on_failure: told of every failure, from any thread.
        is_stopped: whether it is no use to read any more.
    """

    def __init__(
        self,
        source: Path,
        mine: Iterator[Parcel],
        *,
        run: int,
        length: int,
        threads: int,
        bandwidth: float | None,
        on_failure: Callable[[BaseException], None],
        is_stopped: Callable[[], bool],
    ) -> None:
        self._source = source
        self._mine = mine
        self._run = run
        self._length = length
        self._limit = Bandwidth(bandwidth)
        self._on_failure = on_failure
        self._is_stopped = is_stopped
        self._free: SimpleQueue[bytearray] = SimpleQueue()
        for _ in range(2 * threads):
            self._free.put(bytearray(length + 1))
        self._ahead: deque[Future[bytearray]] = deque()
        self._runs: dict[tuple[str, int], _Run] = {}
        self._counting = threading.Lock()
        self._pool = ThreadPoolExecutor(threads, "read")
        self.bytes_read = 0

    def next_ready(self) -> bytearray | None:
        """The next parcel, with its mark behind it; None if it is not there yet."""
        self._read_ahead()
        if not self._ahead or not self._ahead[0].done():
            return None
        return self._ahead.popleft().result()

    def give_back(self, buffer: bytearray) -> None:
        """It has been sent and stored; from any thread."""
        self._free.put(buffer)

    def _read_ahead(self) -> None:
        with suppress(Empty):
            while True:
                buffer = self._free.get_nowait()
                parcel = next(self._mine, None)
                if parcel is None:
                    return
                run = self._run_of(parcel)
                self._ahead.append(self._pool.submit(self._fill, parcel, run, buffer))

    def _run_of(self, parcel: Parcel) -> _Run:
        begin = parcel.offset // self._run * self._run
        key = parcel.file.path, begin
        if key not in self._runs:
            count = -(-min(self._run, parcel.file.bytes - begin) // self._length)
            self._runs[key] = _Run(parcel.file, max(1, count))
        return self._runs[key]

    def _fill(self, parcel: Parcel, run: _Run, buffer: bytearray) -> bytearray:
        mark = 0
        try:
            if not self._is_stopped():
                self._limit.take(parcel.length, self._check)
                mark = SOUND | self._read(parcel, run, memoryview(buffer))
        except BaseException as error:  # noqa: BLE001 - raised where all nodes have heard of it
            self._on_failure(error)
        buffer[parcel.length] = mark
        return buffer

    def _read(self, parcel: Parcel, run: _Run, buffer: memoryview) -> int:
        with run.lock:
            if run.reader is None:
                run.reader = SourceReader(self._source, run.file)
            reader = run.reader
        data = reader.read(Piece(parcel.offset, parcel.length, hole=False), buffer)
        with self._counting:
            self.bytes_read += parcel.length
        with run.lock:
            run.left -= 1
            if run.left == 0:
                reader.check_unchanged()
                self._close(run)
        if not reader.is_sparse:
            return 0
        return SPARSE | (0 if data.tobytes().strip(b"\0") else HOLE)

    def _check(self) -> None:
        if self._is_stopped():
            raise StagingError("stopped")  # never seen: what has stopped it came first

    def _close(self, run: _Run) -> None:
        if run.reader is not None:
            run.reader.__exit__(None, None, None)
            run.reader = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pool.shutdown(cancel_futures=True)
        for run in self._runs.values():
            self._close(run)
