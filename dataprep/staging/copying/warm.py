"""Reading a data set that stays where it is into this node's page cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from dataprep.errors import StagingError
from dataprep.staging.copying.files import piece_bytes
from dataprep.staging.copying.reading import SourceReader
from dataprep.staging.copying.running_hash import RunningHash, check_source_hash
from dataprep.staging.copying.streams import in_order, run_streams
from dataprep.staging.copying.watch import Watch
from dataprep.staging.inventory import SourceFile
from dataprep.staging.landed import Verify
from dataprep.system.messages import printable, sized
from dataprep.system.throttle import Bandwidth


def warm_files(
    source: Path,
    files: Sequence[SourceFile],
    *,
    available: int,
    verify: Verify,
    streams: int,
    watch: Watch,
    bandwidth: float | None = None,
    node: int = 0,
) -> None:
    """Read ``files`` once, so that they can be read from memory afterwards.

    Args:
        source: the directory that they are in.
        files: which.
        available: bytes of memory that the page cache of this job may take.
        verify: ``none`` only reads; otherwise files whose hash is known are hashed and compared.
        streams: how many files at the same time.
        watch: told of every piece; stops all streams.
        bandwidth: bytes a second of all streams together, at most.
        node: makes every node begin elsewhere.

    Raises:
        StagingError: they are more than the memory, so that the first would be forgotten before
            the last is read; a file is not what it was said to be, or cannot be read.
    """
    total = sum(file.bytes for file in files)
    if total > available:
        raise StagingError(
            f"{printable(str(source))}: {sized(total)} do not fit into the {sized(available)} of "
            "memory that this node has available; warm fewer splits, ask for more memory, or "
            "stage to a disk (--to)"
        )
    limit = Bandwidth(bandwidth)

    def new_worker() -> Callable[[SourceFile], None]:
        buffer = memoryview(bytearray(piece_bytes(streams)))

        def read(file: SourceFile) -> None:
            _read(source, file, buffer, verify, watch, limit)

        return read

    run_streams(in_order(files, node), streams, watch, new_worker)


def _read(
    source: Path,
    file: SourceFile,
    buffer: memoryview,
    verify: Verify,
    watch: Watch,
    limit: Bandwidth,
) -> None:
    running = RunningHash(wanted=verify != "none" and file.sha256 is not None)
    with SourceReader(source, file, keep=True) as reader:
        for piece in reader.pieces(len(buffer)):
            if piece.hole:
                running.skip(piece.bytes)
            else:
                limit.take(piece.bytes, watch.check)
                running.update(reader.read(piece, buffer))
            watch.advance(piece.bytes)
        reader.check_unchanged()
    check_source_hash(source, file, running.hex())
