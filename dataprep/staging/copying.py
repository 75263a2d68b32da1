"""Copying files in parallel streams, hashing on the way; each gets its name when it is proven."""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import (
    AbstractContextManager,
    ExitStack,
    contextmanager,
    nullcontext,
    suppress,
)
from functools import cache
from pathlib import Path
from typing import Self

from dataprep.errors import DataprepError, StagingError
from dataprep.staging.directory import opened_parent, partial_name, place_of, target_error
from dataprep.staging.request import StageReporter, Verify
from dataprep.staging.source import SourceFile, SourceReader
from dataprep.system.durable_files import reports_lost_writes, sync_file_system
from dataprep.system.job_limits import usable_cores
from dataprep.system.messages import printable
from dataprep.system.state_files import file_sha256
from dataprep.system.throttle import Bandwidth
from dataprep_schemas.state import CopiedFile


class Progress:
    """Counts what is done, and stops every stream of this node at its next piece.

    Safe between threads.

    Args:
        reporter: told of every byte; None on all nodes but the first.
    """

    def __init__(self, reporter: StageReporter | None = None) -> None:
        self._reporter = reporter
        self._turn = threading.Lock()
        self._error: DataprepError | None = None

    def advance(self, count: int) -> None:
        """So many more bytes are done; raises if all must stop."""
        if self._reporter is not None:
            with self._turn:
                self._reporter.advance(count)
        self.check()

    def stop(self, error: DataprepError) -> None:
        """Let every stream raise ``error`` when it next counts; the first error stands."""
        with self._turn:
            self._error = self._error or error

    def check(self) -> None:
        """Raise what stopped the copying, if anything did."""
        if self._error is not None:
            raise self._error


class TargetWriter:
    """A file on its way into the target; left without `finish`, it leaves nothing there.

    A context manager. Bytes are given in their order, from the beginning; `hash` and `store` may
    work on the same bytes at the same time, in a thread each.

    Args:
        target: an open descriptor of the directory that it goes into.
        source: the directory it comes from, for messages.
        folder: an open descriptor of the directory in `target` that the file is in, which stays
            open; None: it is opened here.
        check: called again and again while it is read back; raises to stop.

    Raises:
        StagingError: the target is full, read-only, or something is in the way.
    """

    def __init__(
        self,
        target: int,
        file: SourceFile,
        *,
        source: Path,
        verify: Verify,
        folder: int | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._file = file
        self._source = source
        self._place = place_of(target)
        self._reread = verify == "reread"
        self._check = check
        self._digest = hashlib.sha256() if verify != "none" else None
        self._temporary = ""  # nothing to discard
        with ExitStack() as undo, self._explained():
            self._parent, self._name = (
                undo.enter_context(opened_parent(target, file.path, create=True))
                if folder is None
                else (folder, file.path.rpartition("/")[2])
            )
            undo.callback(self._discard)
            name = partial_name(self._name)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._descriptor = os.open(name, flags, 0o644, dir_fd=self._parent)
            self._temporary = name
            undo.callback(self.close)
            if file.modified is not None:
                os.fchmod(self._descriptor, file.mode)  # whatever the umask
            self._undo = undo.pop_all()

    def write(self, data: memoryview | bytes, offset: int) -> None:
        """Hash and store what comes next.

        Raises:
            StagingError: the target does not take it.
        """
        self.hash(data)
        self.store(data, offset)

    def hash(self, data: memoryview | bytes) -> None:
        """The first half of `write`."""
        if self._digest is not None:
            self._digest.update(data)

    def store(self, data: memoryview | bytes, offset: int) -> None:
        """The second half of `write`.

        Raises:
            StagingError: the target does not take it.
        """
        view, done = memoryview(data), 0
        with self._explained():
            while done < len(view):
                done += os.pwrite(self._descriptor, view[done:], offset + done)

    def finish(self) -> CopiedFile:
        """Prove it, make it durable, and give it its name, which lasts after `sync_folders`.

        Raises:
            StagingError: it is not what it was said to be; the node's storage gives back something
                else; a directory has its name; the target does not take it.
        """
        copied = self.prove()
        with self._explained():
            os.fsync(self._descriptor)
            if self._reread:
                # Its pages are clean now: without them it comes from the storage.
                os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                place = Path(f"/proc/self/fd/{self._descriptor}")
                stored = file_sha256(place, lambda _: self._check())
                if stored != copied.sha256:
                    raise self._damaged(f"SHA-256 {stored}", str(copied.sha256))
        self.publish()
        return copied

    def prove(self) -> CopiedFile:
        """Compare what was written with what was said of it.

        Raises:
            StagingError: it is something else.
        """
        found = None if self._digest is None else self._digest.hexdigest()
        if None not in (found, self._file.sha256) and found != self._file.sha256:
            raise StagingError(
                f"{printable(str(self._source / self._file.path))} has SHA-256 {found}, expected "
                f"{self._file.sha256}: it was damaged or changed; run dataprep verify "
                f"{shlex.quote(printable(str(self._source)))}"
            )
        with self._explained():
            if self._file.modified is not None:
                # What has no hash is known again by this, should the copier be killed.
                times = (self._file.modified, self._file.modified)
                os.utime(self._descriptor, ns=times)
            written = os.fstat(self._descriptor)
            if written.st_size != self._file.bytes:
                raise self._damaged(f"{written.st_size:,} bytes", f"{self._file.bytes:,}")
        return CopiedFile(self._file.path, self._file.bytes, found, written.st_mtime_ns)

    def close(self) -> None:
        """Close the file, whether it is proven or given up."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def publish(self) -> None:
        """Give it its name; it is durable.

        Raises:
            StagingError: a directory has that name; the target does not take it.
        """
        with self._explained():
            os.replace(
                self._temporary, self._name, src_dir_fd=self._parent, dst_dir_fd=self._parent
            )
        self._temporary = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._undo.close()

    def _discard(self) -> None:
        if self._temporary:
            with suppress(OSError):  # what went wrong before is what the user must know
                os.unlink(self._temporary, dir_fd=self._parent)

    def _damaged(self, found: str, expected: str) -> StagingError:
        return StagingError(
            f"this node's storage gives back other bytes than were written to {self._place}/"
            f"{printable(self._file.path)}: {found}, expected {expected}; "
            "take the node out of the job and report it"
        )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise target_error(error, self._place, f"writing {self._file.path}") from error


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


def run_streams(
    files: Sequence[SourceFile],
    streams: int,
    progress: Progress,
    new_worker: Callable[[], AbstractContextManager[Callable[[SourceFile], None]]],
) -> None:
    """Give every file to a worker, each of which has a thread of its own.

    Args:
        files: in the order to begin them.
        streams: how many threads, at most.
        progress: stops all of them.
        new_worker: makes what works on one file after the other, and ends it; in its thread.

    Raises:
        DataprepError: what stopped all first; a worker's error does.
        BaseException: any other error of a worker, or what a signal raised in this thread; all
            threads have ended before.
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

    def publish(copied: CopiedFile) -> None:
        with telling:
            on_copied(copied)

    def new_worker() -> _Stream:
        return _Stream(source, target, verify, progress, limit, publish, together=together)

    small = sum(file.bytes < _SMALL for file in files)
    together = small > _FEW and verify != "reread" and reports_lost_writes()
    run_streams(in_order(files, node), streams, progress, new_worker)


class _Stream:
    """Copies one file after the other; a context manager.

    Args:
        together: whether small files are flushed together before they get their names. One by one,
            that takes most disks a millisecond each.
    """

    def __init__(
        self,
        source: Path,
        target: int,
        verify: Verify,
        progress: Progress,
        limit: Bandwidth,
        on_copied: Callable[[CopiedFile], None],
        *,
        together: bool,
    ) -> None:
        self._source = source
        self._target = target
        self._verify = verify
        self._progress = progress
        self._limit = limit
        self._on_copied = on_copied
        self._buffers = [memoryview(bytearray(_PIECE)) for _ in range(_BUFFERS)]
        self._together = together
        self._proven: list[tuple[TargetWriter, CopiedFile]] = []
        self._published = time.monotonic()
        self._folders: dict[str, int] = {}
        self._opened = ExitStack()  # what the proven files need until they are published

    def __enter__(self) -> Callable[[SourceFile], None]:
        return self._copy

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._opened:
            if kind is None:
                self._publish()

    def _copy(self, file: SourceFile) -> None:
        if self._together and file.bytes < _SMALL:
            writer = self._opened.enter_context(self._writer(file, self._folder_of(file)))
            self._move(file, writer)
            self._proven.append((writer, writer.prove()))
            writer.close()
            full = len(self._proven) == _TOGETHER
            if full or time.monotonic() - self._published > _TOGETHER_SECONDS:
                self._publish()
            return
        with self._writer(file) as writer:
            self._move(file, writer)
            copied = writer.finish()
        self._on_copied(copied)

    def _writer(self, file: SourceFile, folder: int | None = None) -> TargetWriter:
        return TargetWriter(
            self._target,
            file,
            source=self._source,
            verify=self._verify,
            folder=folder,
            check=self._progress.check,
        )

    def _move(self, file: SourceFile, writer: TargetWriter) -> None:
        with SourceReader(self._source, file) as reader:
            _move(reader, writer, self._buffers, self._progress, self._limit)
            reader.check_unchanged()

    def _folder_of(self, file: SourceFile) -> int:
        """The directory of a small file, open until the file is published."""
        folder, _, _ = file.path.rpartition("/")
        if folder not in self._folders:
            if len(self._folders) == _FOLDERS:
                self._publish()
            try:
                with opened_parent(self._target, file.path, create=True) as (parent, _):
                    self._folders[folder] = os.dup(parent)
            except OSError as error:
                doing = f"writing {file.path}"
                raise target_error(error, place_of(self._target), doing) from error
            self._opened.callback(os.close, self._folders[folder])
        return self._folders[folder]

    def _publish(self) -> None:
        """Make the small files durable, and give them their names."""
        if self._proven:
            try:
                sync_file_system(self._target)
            except OSError as error:
                raise target_error(error, place_of(self._target), "flushing files") from error
        for writer, copied in self._proven:
            writer.publish()
            self._on_copied(copied)
        self._published = time.monotonic()
        self._proven.clear()
        self._folders.clear()
        self._opened.close()


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

    run_streams(
        sorted(files, key=lambda file: -file.bytes), streams, progress, lambda: nullcontext(look)
    )
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
