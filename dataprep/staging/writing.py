"""The receiving half of a copy: a hidden temporary file that gets its name when it is proven."""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

from dataprep.errors import DataprepError, StagingError
from dataprep.staging.directory import opened_parent, partial_name, place_of, target_errors
from dataprep.staging.request import Source, StageReporter, Verify
from dataprep.staging.source import SourceFile
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


@dataclass(frozen=True, eq=False)
class Transfer:
    """From where to where files are copied on this node, and how, by whatever way."""

    source: Source
    target: int  # an open descriptor of the directory they go into; all is reached through it
    # ``none`` compares sizes; ``copy`` also hashes what is read and compares it with what the
    # manifest says; ``reread`` also reads it back from the target's storage.
    verify: Verify = "copy"
    progress: Progress = field(default_factory=Progress)  # told of every piece; stops all streams
    # Called once a file is in its place, from any thread.
    on_copied: Callable[[CopiedFile], None] = lambda _: None
    limit: Bandwidth = field(default_factory=partial(Bandwidth, None))  # of what is read here


_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(eq=False, slots=True)
class TargetWriter:
    """A file on its way into the target; left without `finish`, it leaves nothing there.

    A context manager. Bytes are given in their order, from the beginning; `hash` and `store` may
    work on the same bytes at the same time, in a thread each.

    Raises:
        StagingError: the target is full, read-only, or something is in the way; of each method.
    """

    transfer: Transfer
    file: SourceFile
    folder: int | None = None  # of the file, open in the target, and stays so; None: is opened here
    _digest: hashlib._Hash | None = field(init=False, default=None)
    _opened: ExitStack | None = field(init=False, default=None)
    _parent: int = field(init=False)
    _name: str = field(init=False)
    _temporary: str = field(init=False)
    _descriptor: int = field(init=False)

    def __post_init__(self) -> None:
        if self.transfer.verify != "none":
            self._digest = hashlib.sha256()
        with self._explained():
            if self.folder is None:
                self._opened = ExitStack()
                opened = opened_parent(self.transfer.target, self.file.path, create=True)
                self._parent, self._name = self._opened.enter_context(opened)
            else:
                self._parent, self._name = self.folder, self.file.path.rpartition("/")[2]
            self._temporary = partial_name(self._name)
            try:
                self._descriptor = os.open(self._temporary, _NEW, 0o644, dir_fd=self._parent)
            except BaseException:
                if self._opened is not None:
                    self._opened.close()
                raise

    def write(self, data: memoryview | bytes, offset: int) -> None:
        """Hash and store what comes next."""
        self.hash(data)
        self.store(data, offset)

    def hash(self, data: memoryview | bytes) -> None:
        """The first half of `write`."""
        if self._digest is not None:
            self._digest.update(data)

    def store(self, data: memoryview | bytes, offset: int) -> None:
        """The second half of `write`."""
        view, done = memoryview(data), 0
        with self._explained():
            while done < len(view):
                done += os.pwrite(self._descriptor, view[done:], offset + done)

    def finish(self) -> CopiedFile:
        """Prove it, make it durable, and give it its name, which lasts after `sync_folders`.

        Raises:
            StagingError: it is not what it was said to be; the node's storage gives back something
                else; a directory has its name.
        """
        copied = self.prove()
        with self._explained():
            os.fsync(self._descriptor)
            if self.transfer.verify == "reread":
                # Its pages are clean now: without them it comes from the storage.
                os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                place = Path(f"/proc/self/fd/{self._descriptor}")
                stored = file_sha256(place, lambda _: self.transfer.progress.check())
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
        if None not in (found, self.file.sha256) and found != self.file.sha256:
            source = self.transfer.source
            raise StagingError(
                f"{printable(f'{source}/{self.file.path}')} has SHA-256 {found}, expected "
                f"{self.file.sha256}: it was damaged or changed; run dataprep verify "
                f"{shlex.quote(printable(str(source)))}"
            )
        with self._explained():
            if self.file.modified is not None:
                # What has no hash is known again by this, should the copier be killed.
                os.utime(self._descriptor, ns=(self.file.modified,) * 2)
            written = os.fstat(self._descriptor)
            if self.file.modified is not None and stat.S_IMODE(written.st_mode) != self.file.mode:
                os.fchmod(self._descriptor, self.file.mode)  # whatever the umask
            if written.st_size != self.file.bytes:
                raise self._damaged(f"{written.st_size:,} bytes", f"{self.file.bytes:,}")
        return CopiedFile(self.file.path, self.file.bytes, found, written.st_mtime_ns)

    def close(self) -> None:
        """Close the file, whether it is proven or given up; there may be thousands meanwhile."""
        self._digest = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def publish(self) -> None:
        """Give it its name; it is durable."""
        with self._explained():
            os.replace(
                self._temporary, self._name, src_dir_fd=self._parent, dst_dir_fd=self._parent
            )
        self._temporary = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
        if self._temporary:
            with suppress(OSError):  # what went wrong before is what the user must know
                os.unlink(self._temporary, dir_fd=self._parent)
        if self._opened is not None:
            self._opened.close()

    def _explained(self) -> AbstractContextManager[None]:
        """Words the errors of the system."""
        return target_errors(self.transfer.target, f"writing {self.file.path}")

    def _damaged(self, found: str, expected: str) -> StagingError:
        place = f"{place_of(self.transfer.target)}/{printable(self.file.path)}"
        return StagingError(
            f"this node's storage gives back other bytes than were written to {place}: "
            f"{found}, expected {expected}; "
            "take the node out of the job and report it"
        )
