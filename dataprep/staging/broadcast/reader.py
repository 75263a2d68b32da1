"""One node's part of a broadcast's reading: its parcels, read ahead of their turn."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from typing_extensions import Self

from dataprep.errors import StagingError
from dataprep.staging.broadcast.failure import Failure
from dataprep.staging.broadcast.plan import Parcel
from dataprep.staging.copying.reading import Piece, SourceReader
from dataprep.staging.inventory import SourceFile
from dataprep.system.throttle import Bandwidth

# What the byte behind a parcel's own says of it.
SOUND = 1  # without this bit, its reader has failed
HOLE = 2  # nothing but zeros of a sparse file
SPARSE = 4  # its file is sparse


class ParcelReader:
    """Reads this node's parcels in threads, as far ahead as there are buffers. A context manager.

    After a failure it goes on giving parcels, but marks them as bad.

    Args:
        source: the directory that the files are in.
        mine: this node's parcels, in the order in which they travel.
        run: as for `dataprep.staging.broadcast.plan.parcels`.
        length: of a parcel, at most.
        threads: how many parcels are read at the same time.
        bandwidth: bytes a second, at most.
        failure: of this node.
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
        failure: Failure,
    ) -> None:
        self._source = source
        self._mine = mine
        self._run = run
        self._length = length
        self._limit = Bandwidth(bandwidth)
        self._failure = failure
        self._free: SimpleQueue[bytearray] = SimpleQueue()
        for _ in range(2 * threads):
            self._free.put(bytearray(length + 1))
        self._ahead: deque[Future[bytearray]] = deque()
        self._files: dict[int, _OpenFile] = {}  # by lane
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
                file = self._file_of(parcel)
                file.hold()
                future = self._pool.submit(self._fill, parcel, file, buffer)
                future.add_done_callback(file.release)  # also if it is cancelled
                self._ahead.append(future)

    def _file_of(self, parcel: Parcel) -> _OpenFile:
        """A lane's files come one after another, so that its last one is no longer needed."""
        file = self._files.get(parcel.lane)
        if file is None or file.file != parcel.file:
            if file is not None:
                file.release()
            file = _OpenFile(self._source, parcel.file, self._run, self._length)
            self._files[parcel.lane] = file
        return file

    def _fill(self, parcel: Parcel, file: _OpenFile, buffer: bytearray) -> bytearray:
        mark = 0
        try:
            if not self._failure.is_set():
                self._limit.take(parcel.length, self._check)
                mark = SOUND | file.read(parcel, memoryview(buffer))
                with self._counting:
                    self.bytes_read += parcel.length
        except BaseException as error:  # noqa: BLE001 - raised where all nodes have heard of it
            self._failure.note(error)
        buffer[parcel.length] = mark
        return buffer

    def _check(self) -> None:
        if self._failure.is_set():
            raise StagingError("stopped")  # never seen: what has stopped it came first

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        for file in self._files.values():
            file.release()


class _OpenFile:
    """A source file of which this node reads parcels. Safe between threads.

    It is open from its first parcel on, until all that hold it have released it; whoever makes it
    does hold it.
    """

    def __init__(self, source: Path, file: SourceFile, run: int, length: int) -> None:
        self.file = file
        self._source = source
        self._run = run
        self._length = length
        self._lock = threading.Lock()
        self._reader: SourceReader | None = None
        self._holders = 1
        self._left: dict[int, int] = {}  # parcels not read yet, by where their run begins

    def hold(self) -> None:
        """Keep it open."""
        with self._lock:
            self._holders += 1

    def release(self, _: object = None) -> None:
        """It is not needed any more, by one of those that hold it."""
        with self._lock:
            self._holders -= 1
            if self._holders == 0 and self._reader is not None:
                self._reader.__exit__(None, None, None)

    def read(self, parcel: Parcel, buffer: memoryview) -> int:
        """Fill the beginning of ``buffer``; what is to be said of it besides that it is sound.

        Raises:
            StagingError: the file is not what was listed, has changed, or cannot be read.
        """
        with self._lock:
            if self._reader is None:
                # The kernel would read ahead what other nodes read.
                scattered = self._run == self._length
                self._reader = SourceReader(self._source, self.file, scattered=scattered)
            reader = self._reader
        data = reader.read(Piece(parcel.offset, parcel.length, hole=False), buffer)
        if self._is_last_of_run(parcel):
            reader.check_unchanged()
        if not reader.is_sparse:
            return 0
        return SPARSE | (0 if data.tobytes().strip(b"\0") else HOLE)

    def _is_last_of_run(self, parcel: Parcel) -> bool:
        """Whether all others of its run have been read."""
        begin = parcel.offset // self._run * self._run
        run = max(1, -(-min(self._run, self.file.bytes - begin) // self._length))
        with self._lock:
            left = self._left.pop(begin, run) - 1
            if left > 0:
                self._left[begin] = left
        return left == 0
