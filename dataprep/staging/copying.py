"""Copying files in parallel streams, hashing on the way."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path

from dataprep.errors import DataprepError, StagingError
from dataprep.staging.inventory import SourceFile
from dataprep.staging.node_dir.paths import Verify, opened_parent
from dataprep.staging.progress import Progress
from dataprep.staging.reading import SourceReader
from dataprep.staging.writing import TargetWriter
from dataprep.system.job_limits import usable_cores
from dataprep.system.state_files import file_sha256
from dataprep.system.throttle import Bandwidth
from dataprep_schemas.state import CopiedFile

_MOST = 8  # more of one node's streams gain nothing, and 1536 nodes open files too
_FEWEST = 2  # one waits for the storage while the other hashes


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
    progress: Progress,
    new_worker: Callable[[], Callable[[SourceFile], None]],
) -> None:
    """Give every file to a worker, each of which has a thread of its own.

    Args:
        files: in the order to begin them.
        streams: how many threads, at most.
        progress: stops all of them.
        new_worker: makes what works on one file after the other; called in its thread.

    Raises:
        DataprepError: what stopped all first; a worker's error does.
        BaseException: any other error of a worker, or what a signal raised in this thread; all
            threads have ended before.
    """
    waiting = iter(files)

    def run() -> None:
        work = new_worker()
        while (file := next(waiting, None)) is not None:
            progress.check()
            work(file)

    with ThreadPoolExecutor(streams) as pool:
        try:
            for done in as_completed([pool.submit(run) for _ in files[:streams]]):
                done.result()
        except BaseException as error:
            reason = f"the copying was stopped by {type(error).__name__}"
            progress.stop(error if isinstance(error, DataprepError) else StagingError(reason))
            raise
    progress.check()


_PIECE = 1 << 22  # what parallel file systems read at full speed
_BUFFERS = 3  # of a stream: one is read into, one is hashed, one is stored


def copy_files(
    source: Path,
    files: Sequence[SourceFile],
    target: int,
    *,
    verify: Verify,
    streams: int,
    progress: Progress,
    on_copied: Callable[[CopiedFile], None],
    bandwidth: float | None = None,
    node: int = 0,
) -> None:
    """Copy ``files`` from ``source`` into the directory that ``target`` is open on.

    Every file is read in large pieces, hashed, written under a hidden temporary name, flushed and
    renamed; its pages of the source do not stay in the page cache.

    Args:
        target: an open descriptor of the directory they go into; nothing is reached but through it.
        verify: ``none`` compares sizes; ``copy`` also hashes what is read and compares it with
            what the manifest says; ``reread`` also reads it back from the target's storage.
        progress: told of every piece; stops all streams.
        on_copied: called once a file is in its place, from any stream's thread, one at a time.
        bandwidth: bytes a second of all streams together, at most.
        node: makes every node begin elsewhere, so that they do not walk the storage in lockstep.

    Raises:
        StagingError: a source file is not what it was said to be, has vanished or cannot be read;
            the target is full, read-only or damaged. Nothing unfinished is left behind.
    """
    limit = Bandwidth(bandwidth)
    telling = threading.Lock()

    def new_worker() -> Callable[[SourceFile], None]:
        buffers = [memoryview(bytearray(_PIECE)) for _ in range(_BUFFERS)]

        def copy(file: SourceFile) -> None:
            with (
                SourceReader(source, file) as reader,
                TargetWriter(
                    target, file, source=source, verify=verify, check=progress.check
                ) as writer,
            ):
                _move(reader, writer, buffers, progress, limit)
                reader.check_unchanged()
                copied = writer.finish()
            with telling:
                on_copied(copied)

        return copy

    run_streams(in_order(files, node), streams, progress, new_worker)


def rehash_files(
    target: int, files: Sequence[SourceFile], *, streams: int, progress: Progress
) -> list[CopiedFile]:
    """Hash what an earlier call left in the target.

    Args:
        target: an open descriptor of the directory.
        files: what to look at, with the hash that it must have.
        progress: counts what has been hashed; stops all streams.

    Returns:
        Those that are what they must be. The others are absent, or unreadable, or something else:
        copying them again will tell what is wrong.

    Raises:
        DataprepError: what the progress was stopped with.
    """
    good: list[CopiedFile] = []

    def look(file: SourceFile) -> None:
        with suppress(OSError), opened_parent(target, file.path) as (parent, name):
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if not stat.S_ISREG(found.st_mode) or found.st_size != file.bytes:
                return
            if file_sha256(Path(f"/proc/self/fd/{parent}/{name}"), progress.advance) == file.sha256:
                good.append(CopiedFile(file.path, file.bytes, file.sha256, found.st_mtime_ns))

    run_streams(sorted(files, key=lambda file: -file.bytes), streams, progress, lambda: look)
    return good


def _move(
    reader: SourceReader,
    writer: TargetWriter,
    buffers: Sequence[memoryview],
    progress: Progress,
    limit: Bandwidth,
) -> None:
    """Read the next pieces while the last ones are hashed and stored."""
    pieces = [*reader.pieces(len(buffers[0]))]
    if len(pieces) == 1:  # starting two threads takes longer than they would save
        ((_, count),) = pieces
        limit.take(count, progress.check)
        writer.write(reader.read(0, buffers[0][:count]), 0)
        progress.advance(count)
        return
    busy: deque[tuple[Future[None], Future[None]]] = deque()
    # Left only when both are idle, so nothing is stored by way of a descriptor that was closed.
    with ThreadPoolExecutor(1) as hashing, ThreadPoolExecutor(1) as storing:
        for number, (offset, count) in enumerate(pieces):
            if len(busy) == len(buffers):
                _await(*busy.popleft())
            limit.take(count, progress.check)
            data = reader.read(offset, buffers[number % len(buffers)][:count])
            store = storing.submit(writer.store, data, offset)
            busy.append((hashing.submit(writer.hash, data), store))
            progress.advance(count)
        while busy:
            _await(*busy.popleft())


def _await(*futures: Future[None]) -> None:
    for future in futures:
        future.result()
