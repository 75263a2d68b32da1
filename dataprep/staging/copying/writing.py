"""The receiving half of a copy: a hidden temporary file that gets its name when it is proven."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from dataprep.errors import StagingError
from dataprep.staging.copying.rereading import stored_sha256
from dataprep.staging.copying.running_hash import RunningHash, check_source_hash
from dataprep.staging.inventory import SourceFile
from dataprep.staging.landed import Landed, Verify
from dataprep.staging.target.beneath import opened_parent, place_of
from dataprep.staging.target.partials import partial_name
from dataprep.staging.target.refusals import target_error
from dataprep.system.messages import printable


class TargetWriter:
    """A file on its way into the target; left without `finish`, it leaves nothing there.

    A context manager. Bytes are given in their order, from the beginning; `hash` and `store` may
    work on the same bytes at the same time, in a thread each.

    Args:
        target: an open descriptor of the directory that it goes into.
        file: what it must become.
        source: the directory it comes from, for messages.
        verify: see `dataprep.staging.copying.files.copy_files`.
        hashed: hash it even if no hash is known.
        sparse: it has holes: reserve no room for them.
        pulse: called again and again while it is read back, which may take long; what it raises
            ends that.

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
        hashed: bool,
        sparse: bool = False,
        pulse: Callable[[], None] = lambda: None,
    ) -> None:
        self._file = file
        self._source = source
        self._place = place_of(target)
        self._reread = verify == "reread"
        self._sparse = sparse
        self._pulse = pulse
        wanted = self._reread or (verify != "none" and (hashed or file.sha256 is not None))
        self._running = RunningHash(wanted=wanted)
        self._temporary = ""  # nothing to discard
        with ExitStack() as undo, self._explained():
            self._parent, self._name = undo.enter_context(
                opened_parent(target, file.path, create=True)
            )
            undo.callback(self._discard)
            name = partial_name(self._name)
            self._descriptor = os.open(
                name,
                os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
                0o644,
                dir_fd=self._parent,
            )
            self._temporary = name
            undo.callback(os.close, self._descriptor)
            if file.modified is not None:
                os.fchmod(self._descriptor, file.mode)  # whatever the umask
            if not sparse:
                _reserve(self._descriptor, file.bytes)
            self._undo = undo.pop_all()

    @property
    def descriptor(self) -> int:
        """Of the unfinished file."""
        return self._descriptor

    @property
    def must_see(self) -> bool:
        """Whether the bytes must pass through `write`, because they are hashed."""
        return self._running.wanted

    def write(self, data: memoryview | bytes, offset: int) -> None:
        """Hash and store what comes next.

        Raises:
            StagingError: the target does not take it.
        """
        self.hash(data)
        self.store(data, offset)

    def skip(self, count: int) -> None:
        """A hole comes next: zeros, which are hashed but take no room."""
        self._running.skip(count)

    def hash(self, data: memoryview | bytes) -> None:
        """The first half of `write`."""
        self._running.update(data)

    def store(self, data: memoryview | bytes, offset: int) -> None:
        """The second half of `write`.

        Raises:
            StagingError: the target does not take it.
        """
        view, done = memoryview(data), 0
        with self._explained():
            while done < len(view):
                done += os.pwrite(self._descriptor, view[done:], offset + done)

    def finish(self) -> Landed:
        """Prove it, make it durable, and give it its name.

        Raises:
            StagingError: it is not what it was said to be; the node's storage gives back something
                else; a directory has its name; the target does not take it.
        """
        found = self._running.hex()
        check_source_hash(self._source, self._file, found)
        with self._explained():
            if self._sparse:
                os.ftruncate(self._descriptor, self._file.bytes)
            if self._file.modified is not None:
                # What has no hash is known again by this, should the copier be killed.
                times = (self._file.modified, self._file.modified)
                os.utime(self._descriptor, ns=times)
            os.fsync(self._descriptor)
            written = os.fstat(self._descriptor)
            if written.st_size != self._file.bytes:
                raise self._damaged(f"{written.st_size:,} bytes", f"{self._file.bytes:,}")
            if self._reread:
                self._check_stored(found)
            os.replace(
                self._temporary, self._name, src_dir_fd=self._parent, dst_dir_fd=self._parent
            )
            self._temporary = ""
            os.fsync(self._parent)
        return Landed(self._file.path, self._file.bytes, found, written.st_mtime_ns)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._undo.close()

    def _discard(self) -> None:
        if self._temporary:
            with suppress(OSError):  # what went wrong before is what the user must know
                os.unlink(self._temporary, dir_fd=self._parent)

    def _check_stored(self, expected: str | None) -> None:
        found = stored_sha256(self._descriptor, self._file.bytes, lambda _: self._pulse())
        if found != expected:
            raise self._damaged(f"SHA-256 {found}", str(expected))

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
            raise target_error(error, self._place, self._file.path) from error


def _reserve(descriptor: int, count: int) -> None:
    """Take the room for a file now, so that nobody else can, where that costs no writing.

    `os.posix_fallocate` would write the file once over where the file system cannot reserve.

    Raises:
        OSError: there is too little.
    """
    import ctypes

    if count == 0:
        return
    fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    offset_type = ctypes.c_long  # off_t
    if fallocate(descriptor, 0, offset_type(0), offset_type(count)) != 0:
        number = ctypes.get_errno()
        if number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise OSError(number, os.strerror(number))
