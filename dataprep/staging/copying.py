"""Copying files in parallel streams, hashing on the way."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from dataprep.errors import DataprepError, StagingError
from dataprep.staging.directory import opened_parent, target_errors
from dataprep.staging.source import RemoteReader, SourceFile, SourceReader, open_source
from dataprep.staging.writing import Progress, TargetWriter, Transfer
from dataprep.system.durable_files import reports_lost_writes, sync_file_system
from dataprep.system.job_limits import usable_cores
from dataprep.system.state_files import file_sha256
from dataprep_schemas.state import CopiedFile

_MOST = 8  # more of one node's streams gain nothing, and 1536 nodes open files too
_FEWEST = 2  # one waits for the storage while the other hashes


def default_streams() -> int:
    """How many files to copy at the same time: as many as cores may be used, within 2 to 8."""
    return min(_MOST, max(_FEWEST, usable_cores()))


def in_order(files: Sequence[SourceFile], node: int) -> list[SourceFile]:
    """Files in the order to work on: large ones first, so that no stream ends alone with one.

    Those of about one size are shuffled, differently on every node, so that the nodes do not all
    read the same file, from the same storage server, at the same time; first the directories, since
    files of one are quicker together.
    """

    @cache
    def place(path: str) -> bytes:
        return hashlib.sha256(f"{node}\0".encode() + os.fsencode(path)).digest()

    def rank(file: SourceFile) -> tuple[int, bytes, bytes]:
        folder, _, _ = file.path.rpartition("/")
        return -file.bytes.bit_length(), place(folder), place(file.path)

    return sorted(files, key=rank)


def _run_streams(
    files: Sequence[SourceFile],
    streams: int,
    progress: Progress,
    new_worker: Callable[[], AbstractContextManager[Callable[[SourceFile], None]]],
) -> None:
    """Give every file in turn to a worker, each of which is made, works and ends in its own thread.

    What a worker raises, or a signal in this thread, is raised once all threads have ended.
    """
    waiting = iter(files)

    def run() -> None:
        with new_worker() as work:
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
_SMALL = 1 << 20  # bytes of a file that takes longer to flush than to write
_FEW = 500  # such files, which may as well be flushed one by one
_TOGETHER = 2000  # small files that a stream flushes together, at most
_TOGETHER_SECONDS = 2.0  # and what was copied in so long: a killed copier loses no more
_FOLDERS = 32  # in so many directories, which stay open meanwhile


def copy_files(
    transfer: Transfer, files: Sequence[SourceFile], *, streams: int, node: int = 0
) -> None:
    """Copy ``files``.

    Every file is read in large pieces, hashed, written under a hidden temporary name, flushed and
    renamed; its pages of the source do not stay in the page cache.

    Args:
        node: makes every node begin elsewhere, so that they do not walk the storage in lockstep.

    Raises:
        StagingError: a source file is not what it was said to be, has vanished or cannot be read;
            the target is full, read-only or damaged. Nothing unfinished is left behind.
    """
    small = sum(file.bytes < _SMALL for file in files)
    together = small > _FEW and transfer.verify != "reread" and reports_lost_writes()
    new_worker = partial(_Stream, transfer, together)
    _run_streams(in_order(files, node), streams, transfer.progress, new_worker)


@dataclass(eq=False)
class _Stream:
    """Copies one file after the other; a context manager."""

    transfer: Transfer
    # Small files are flushed together before they get their names: one by one, that takes a
    # millisecond each.
    together: bool
    writers: list[TargetWriter] = field(default_factory=list)  # of small files without their names
    proven: list[CopiedFile] = field(default_factory=list)  # what they have brought
    published: float = field(default_factory=time.monotonic)
    folders: dict[str, int] = field(default_factory=dict)

    def __enter__(self) -> Callable[[SourceFile], None]:
        self._buffers = [memoryview(bytearray(_PIECE)) for _ in range(_BUFFERS)]
        # Of its own: by one that streams share, only one of them would hear of a lost write.
        self._root = os.open(
            ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.transfer.target
        )
        return self._copy

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._publish()
        finally:
            self._forget()
            os.close(self._root)

    def _copy(self, file: SourceFile) -> None:
        if self.together and file.bytes < _SMALL:
            writer = TargetWriter(self.transfer, file, self._folder_of(file))
            self.writers.append(writer)
            self._move(file, writer)
            self.proven.append(writer.prove())
            writer.close()
            full = len(self.proven) == _TOGETHER
            if full or time.monotonic() - self.published > _TOGETHER_SECONDS:
                self._publish()
            return
        with TargetWriter(self.transfer, file) as writer:
            self._move(file, writer)
            copied = writer.finish()
        self.transfer.on_copied(copied)

    def _move(self, file: SourceFile, writer: TargetWriter) -> None:
        with open_source(self.transfer.source, file) as reader:
            _move(reader, writer, self._buffers, self.transfer)
            reader.check_unchanged()

    def _folder_of(self, file: SourceFile) -> int:
        """The directory of a small file, open until the file is published."""
        folder, _, _ = file.path.rpartition("/")
        if folder not in self.folders:
            if len(self.folders) == _FOLDERS:
                self._publish()
            target = self.transfer.target
            with (
                target_errors(target, f"writing {file.path}"),
                opened_parent(target, file.path, create=True) as (parent, _),
            ):
                self.folders[folder] = os.dup(parent)
        return self.folders[folder]

    def _publish(self) -> None:
        """Make the small files durable, and give them their names."""
        if self.proven:
            with target_errors(self.transfer.target, "flushing files"):
                sync_file_system(self._root)
        for writer, copied in zip(self.writers, self.proven, strict=True):
            writer.publish()
            self.transfer.on_copied(copied)
        self.published = time.monotonic()
        self.writers.clear()
        self._forget()

    def _forget(self) -> None:
        """Of small files without their names nothing stays."""
        with ExitStack() as left:
            for folder in self.folders.values():
                left.callback(os.close, folder)
            for writer in self.writers:
                left.push(writer)
        self.folders.clear()
        self.writers.clear()
        self.proven.clear()


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

    _run_streams(
        sorted(files, key=lambda file: -file.bytes), streams, progress, lambda: nullcontext(look)
    )
    return good


def _move(
    reader: SourceReader | RemoteReader,
    writer: TargetWriter,
    buffers: Sequence[memoryview],
    transfer: Transfer,
) -> None:
    """Read the next pieces while the last ones are hashed and stored."""
    progress, limit = transfer.progress, transfer.limit
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
