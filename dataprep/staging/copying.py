"""Copying files in parallel streams, hashing on the way; or reading them into memory."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from dataprep.errors import DataprepError, StagingError
from dataprep.staging.inventory import SourceFile
from dataprep.staging.reading import SourceReader
from dataprep.staging.target.paths import CopiedFile, Verify, opened_parent
from dataprep.staging.writing import TargetWriter, check_source_hash, file_sha256, hash_zeros
from dataprep.system.cores import usable_cores
from dataprep.system.throttle import Bandwidth

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


_LARGEST_PIECE = 1 << 22  # what parallel file systems read at full speed
_SMALLEST_PIECE = 1 << 18
_BUFFERS = 3  # of a stream: one is read into, one is hashed, one is stored
_MEMORY = 96 << 20  # of all buffers together


def copy_files(
    source: Path,
    files: Sequence[SourceFile],
    target: int,
    *,
    verify: Verify,
    hashed: bool,
    streams: int,
    watch: Watch,
    on_copied: Callable[[CopiedFile], None],
    bandwidth: float | None = None,
    node: int = 0,
) -> None:
    """Copy ``files`` from ``source`` into the directory that ``target`` is open on.

    Every file is read in large pieces, hashed, written under a hidden temporary name, flushed and
    renamed; its pages of the source do not stay in the page cache.

    Args:
        source: the directory that they are in.
        files: which.
        target: an open descriptor of the directory they go into; nothing is reached but through it.
        verify: ``none`` compares sizes; ``copy`` also hashes what is read and compares it with
            what the manifest says; ``reread`` also reads it back from the target's storage.
        hashed: with ``copy`` and ``reread``, also hash files of which no hash is known.
        streams: how many files at the same time.
        watch: told of every piece; stops all streams.
        on_copied: called once a file is in its place, from any stream's thread, one at a time.
        bandwidth: bytes a second of all streams together, at most.
        node: makes every node begin elsewhere, so that they do not walk the storage in lockstep.

    Raises:
        StagingError: a source file is not what it was said to be, has vanished or cannot be read;
            the target is full, read-only or damaged. Nothing unfinished is left behind.
    """
    limit = Bandwidth(bandwidth)
    telling = threading.Lock()
    piece = _piece_bytes(streams)
    fair = sum(file.bytes for file in files) / streams

    def new_worker() -> Callable[[SourceFile], None]:
        ring = [memoryview(bytearray(piece)) for _ in range(_BUFFERS)]

        def copy(file: SourceFile) -> None:
            with (
                SourceReader(source, file) as reader,
                TargetWriter(
                    target,
                    file,
                    source=source,
                    verify=verify,
                    hashed=hashed,
                    sparse=reader.is_sparse,
                    pulse=watch.pulse,
                ) as writer,
            ):
                # For a large file, other streams would wait; else they use the other cores.
                large = file.bytes > max(fair, piece * _BUFFERS)
                move = _move_overlapping if large else _move_in_turn
                move(reader, writer, ring, watch, limit)
                reader.check_unchanged()
                copied = writer.finish()
            with telling:
                on_copied(copied)

        return copy

    run_streams(in_order(files, node), streams, watch, new_worker)


def rehash_files(
    target: int,
    files: Sequence[SourceFile],
    *,
    streams: int,
    watch: Watch,
    on_good: Callable[[CopiedFile], None],
) -> list[SourceFile]:
    """Hash what an earlier call left in the target.

    Args:
        target: an open descriptor of the directory.
        files: what to look at.
        streams: how many files at the same time.
        watch: counts what has been hashed; stops all streams.
        on_good: called for every file that is what it must be, one at a time.

    Returns:
        The others, in the order given: to be copied.

    Raises:
        DataprepError: what the watch was stopped with.
    """
    good: set[str] = set()
    telling = threading.Lock()

    def look(file: SourceFile) -> None:
        found = rehash(target, file, watch)
        if found is not None:
            with telling:
                good.add(file.path)
                on_good(found)

    largest_first = sorted(files, key=lambda file: -file.bytes)
    run_streams(largest_first, streams, watch, lambda: look)
    return [file for file in files if file.path not in good]


def rehash(target: int, file: SourceFile, watch: Watch) -> CopiedFile | None:
    """Look whether a file that an earlier call left in the target is what it must be.

    Args:
        target: an open descriptor of the directory.
        file: what it must be; without a known hash nothing is believed.
        watch: counts what has been hashed; stops it.

    Returns:
        The file; None if it is absent, no regular file, not what it must be, or unreadable:
        copying it again will tell what is wrong.
    """
    if file.sha256 is None:
        return None
    try:
        with opened_parent(target, file.path) as (parent, name):
            # Without O_NONBLOCK, a named pipe in a file's place would be waited for.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(name, flags, dir_fd=parent)
        with os.fdopen(descriptor, "rb"):
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_size != file.bytes:
                return None
            if file_sha256(descriptor, watch.advance) != file.sha256:
                return None
    except OSError:
        return None
    return CopiedFile(file.path, file.bytes, file.sha256, found.st_mtime_ns)


def read_files(
    source: Path,
    files: Sequence[SourceFile],
    *,
    verify: Verify,
    streams: int,
    watch: Watch,
    bandwidth: float | None = None,
    node: int = 0,
) -> None:
    """Read ``files`` once, so that they are in the page cache afterwards.

    Args:
        source: the directory that they are in.
        files: which.
        verify: ``none`` only reads; otherwise files whose hash is known are hashed and compared.
        streams: how many files at the same time.
        watch: told of every piece; stops all streams.
        bandwidth: bytes a second of all streams together, at most.
        node: makes every node begin elsewhere.

    Raises:
        StagingError: a file is not what it was said to be, or cannot be read.
    """
    limit = Bandwidth(bandwidth)

    def new_worker() -> Callable[[SourceFile], None]:
        buffer = memoryview(bytearray(_piece_bytes(streams)))

        def read(file: SourceFile) -> None:
            digest = hashlib.sha256() if verify != "none" and file.sha256 else None
            with SourceReader(source, file, keep=True) as reader:
                for piece in reader.pieces(len(buffer)):
                    if not piece.hole:
                        limit.take(piece.bytes, watch.check)
                        data = reader.read(piece, buffer)
                        if digest:
                            digest.update(data)
                    elif digest:
                        hash_zeros(digest, piece.bytes)
                    watch.advance(piece.bytes)
                reader.check_unchanged()
            check_source_hash(source, file, digest.hexdigest() if digest else None)

        return read

    run_streams(in_order(files, node), streams, watch, new_worker)


def _piece_bytes(streams: int) -> int:
    """How much to read at once, so that the buffers of all streams stay within bounds."""
    piece = _LARGEST_PIECE
    while piece > _SMALLEST_PIECE and piece * _BUFFERS * streams > _MEMORY:
        piece //= 2
    return piece


def _move_in_turn(
    reader: SourceReader,
    writer: TargetWriter,
    ring: Sequence[memoryview],
    watch: Watch,
    limit: Bandwidth,
) -> None:
    """Read, hash and store one piece after the other."""
    for piece in reader.pieces(len(ring[0])):
        if piece.hole:
            writer.skip(piece.bytes)
        else:
            limit.take(piece.bytes, watch.check)
            writer.write(reader.read(piece, ring[0]), piece.offset)
        watch.advance(piece.bytes)


def _move_overlapping(
    reader: SourceReader,
    writer: TargetWriter,
    ring: Sequence[memoryview],
    watch: Watch,
    limit: Bandwidth,
) -> None:
    """Read, hash and store side by side."""
    busy: deque[list[Future[None]]] = deque()
    # Left only when both are idle, so nothing is stored by way of a descriptor that was closed.
    with ThreadPoolExecutor(1) as hashing, ThreadPoolExecutor(1) as storing:
        for number, piece in enumerate(reader.pieces(len(ring[0]))):
            if len(busy) == len(ring):
                _settle(busy.popleft())
            if piece.hole:
                busy.append([hashing.submit(writer.skip, piece.bytes)])
            else:
                limit.take(piece.bytes, watch.check)
                data = reader.read(piece, ring[number % len(ring)])
                store = storing.submit(writer.store, data, piece.offset)
                busy.append([hashing.submit(writer.hash, data), store])
            watch.advance(piece.bytes)
        while busy:
            _settle(busy.popleft())


def _settle(futures: Sequence[Future[None]]) -> None:
    """Wait for what is done with one piece; raises what went wrong."""
    for future in futures:
        future.result()
