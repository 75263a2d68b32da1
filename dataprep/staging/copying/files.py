"""Copying files in parallel streams, hashing on the way; or reading them into memory."""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from dataprep.staging.copied_file import CopiedFile, Verify
from dataprep.staging.copying.reading import SourceReader
from dataprep.staging.copying.streams import Watch, in_order, run_streams
from dataprep.staging.copying.writing import (
    TargetWriter,
    check_source_hash,
    hash_zeros,
    rehash,
)
from dataprep.staging.inventory import SourceFile
from dataprep.system.throttle import Bandwidth

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
