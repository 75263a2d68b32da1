"""Working on several files at the same time, until one fails or all are done."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence

from dataprep.errors import DataprepError, StagingError
from dataprep.staging.inventory import SourceFile
from dataprep.system.cores import usable_cores

_MOST = 8  # more of one node's streams gain nothing, and 1536 nodes open files too
_FEWEST = 2  # one waits for the storage while the other hashes


class Watch:
    """Counts bytes, and stops every stream of this node at its next chunk. Safe between threads.

    Args:
        on_advance: called with the number of bytes that a stream has just finished, from that
            stream's thread; with 0 as a sign of life in between.
    """

    def __init__(self, on_advance: Callable[[int], None] = lambda _: None) -> None:
        self._lock = threading.Lock()
        self._done = 0
        self._error: DataprepError | None = None
        self._on_advance = on_advance

    @property
    def done(self) -> int:
        """Bytes finished so far."""
        return self._done

    def advance(self, count: int) -> None:
        """A stream has finished ``count`` more bytes; raises if all must stop."""
        with self._lock:
            self._done += count
        self._on_advance(count)
        self.check()

    def pulse(self) -> None:
        """A stream is alive, but what it does counts for nothing; raises if all must stop."""
        self._on_advance(0)
        self.check()

    def stop(self, error: DataprepError) -> None:
        """Let every stream raise ``error`` when it next counts; the first error stands."""
        with self._lock:
            self._error = self._error or error

    def check(self) -> None:
        """Raise what stopped the copying, if anything did."""
        if self._error is not None:
            raise self._error


def default_streams() -> int:
    """How many files to copy at the same time: as many as cores may be used, within 2 to 8."""
    return min(_MOST, max(_FEWEST, usable_cores()))


def in_order(files: Sequence[SourceFile], node: int) -> list[SourceFile]:
    """Files in the order to work on: large ones first, so that no stream ends alone with one.

    Those of about one size are shuffled, differently on every node, so that the nodes do not all
    read the same file, from the same storage server, at the same time.
    """

    def rank(file: SourceFile) -> tuple[int, bytes]:
        name = f"{node}\0".encode() + os.fsencode(file.path)
        return -file.bytes.bit_length(), hashlib.sha256(name).digest()

    return sorted(files, key=rank)


def run_streams(
    files: Sequence[SourceFile],
    streams: int,
    watch: Watch,
    new_worker: Callable[[], Callable[[SourceFile], None]],
) -> None:
    """Give every file to a worker, each of which has a thread of its own.

    Args:
        files: in the order to begin them.
        streams: how many threads, at most.
        watch: stops all of them.
        new_worker: makes what works on one file after the other; called in its thread.

    Raises:
        DataprepError: what stopped the watch first; a worker's error does.
        BaseException: any other error of a worker, or what a signal raised in this thread; all
            threads have ended before.
    """
    queue = deque(files)
    failures: list[BaseException] = []
    running: list[threading.Event] = []

    def run(ended: threading.Event) -> None:
        try:
            work = new_worker()
            while queue:
                watch.check()
                try:
                    file = queue.popleft()
                except IndexError:
                    return
                work(file)
        except BaseException as error:  # noqa: BLE001 -- raised again in the thread that waits
            failures.append(error)
            watch.stop(_as_reason(error))
        finally:
            ended.set()

    try:
        for number in range(min(streams, len(files))):
            ended = threading.Event()
            thread = threading.Thread(target=run, args=(ended,), name=f"stream-{number}")
            try:
                thread.start()
            except RuntimeError as error:  # a limit on processes, such as a container's
                raise StagingError(f"no more streams: {error}; use fewer (--streams)") from error
            running.append(ended)
        _wait_for(running)
    except BaseException as error:
        watch.stop(_as_reason(error))
        _wait_for(running)
        raise
    if failures:
        raise failures[0]
    watch.check()


def _wait_for(running: Sequence[threading.Event]) -> None:
    """Until all have ended; a signal's exception comes through.

    Not by join(): interrupted once, before Python 3.13, it takes a running thread for ended.
    """
    for ended in running:
        ended.wait()


def _as_reason(error: BaseException) -> DataprepError:
    """What the other streams stop with."""
    if isinstance(error, DataprepError):
        return error
    return StagingError(f"the copying was stopped by {type(error).__name__}")
