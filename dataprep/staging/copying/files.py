"""Copying files in parallel streams, hashing on the way."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from dataprep.staging.copying.reading import SourceReader
from dataprep.staging.copying.rehashing import rehash_files
from dataprep.staging.copying.streams import default_streams, in_order, run_streams
from dataprep.staging.copying.watch import Watch
from dataprep.staging.copying.writing import TargetWriter
from dataprep.staging.inventory import SourceFile
from dataprep.staging.landed import Landed, Verify
from dataprep.system.throttle import Bandwidth

__all__ = ["copy_files", "default_streams", "rehash_files"]

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
    on_landed: Callable[[Landed], None],
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
        on_landed: called once a file is in its place, from any stream's thread, one at a time.
        bandwidth: bytes a second of all streams together, at most.
        node: makes every node begin elsewhere, so that they do not walk the storage in lockstep.

    Raises:
        StagingError: a source file is not what it was said to be, has vanished or cannot be read;
            the target is full, read-only or damaged. Nothing unfinished is left behind.
    """
    limit = Bandwidth(bandwidth)
    landing = threading.Lock()
    piece = piece_bytes(streams)
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
                if file.bytes > max(fair, piece * _BUFFERS):
                    _move_overlapping(reader, writer, ring, watch, limit)
                else:
                    _move_in_turn(reader, writer, ring[0], watch, limit)
                reader.check_unchanged()
                landed = writer.finish()
            with landing:
                on_landed(landed)

        return copy

    run_streams(in_order(files, node), streams, watch, new_worker)


def piece_bytes(streams: int) -> int:
    """How much to read at once, so that the buffers of all streams stay within bounds."""
    piece = _LARGEST_PIECE
    while piece > _SMALLEST_PIECE and piece * _BUFFERS * streams > _MEMORY:
        piece //= 2
    return piece


def _move_in_turn(
    reader: SourceReader,
    writer: TargetWriter,
    buffer: memoryview,
    watch: Watch,
    limit: Bandwidth,
) -> None:
    """Read, hash and store one piece after the other: other streams use the other cores.

    What is not hashed the kernel copies: measured 1.2 times as fast between two tmpfs.
    """
    for piece in reader.pieces(len(buffer)):
        if piece.hole:
            writer.skip(piece.bytes)
        else:
            limit.take(piece.bytes, watch.check)
            if writer.must_see or not reader.send(piece, writer.descriptor):
                writer.write(reader.read(piece, buffer), piece.offset)
        watch.advance(piece.bytes)


def _move_overlapping(
    reader: SourceReader,
    writer: TargetWriter,
    ring: Sequence[memoryview],
    watch: Watch,
    limit: Bandwidth,
) -> None:
    """Read, hash and store side by side: for a file that other streams would wait for."""
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
