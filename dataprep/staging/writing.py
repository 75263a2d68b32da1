"""The receiving half of a copy: a hidden temporary file that gets its name when it is proven."""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

from dataprep.errors import StagingError
from dataprep.staging.directory import opened_parent, partial_name, place_of, target_error
from dataprep.staging.request import Source, Verify
from dataprep.staging.source import SourceFile
from dataprep.system.messages import printable
from dataprep.system.state_files import file_sha256
from dataprep_schemas.state import CopiedFile


class TargetWriter:
    """A file on its way into the target; left without `finish`, it leaves nothing there.

    A context manager. Bytes are given in their order, from the beginning; `hash` and `store` may
    work on the same bytes at the same time, in a thread each.

    Args:
        target: an open descriptor of the directory that it goes into.
        source: where it comes from, for messages.
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
        source: Source,
        verify: Verify,
        folder: int | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._file = file
        self._source = source
        self._target = target
        self._reread = verify == "reread"
        self._check = check
        self._digest = hashlib.sha256() if verify != "none" else None
        self._opened = ExitStack()
        with self._explained():
            if folder is None:
                opened = opened_parent(target, file.path, create=True)
                self._parent, self._name = self._opened.enter_context(opened)
            else:
                self._parent, self._name = folder, file.path.rpartition("/")[2]
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._temporary = partial_name(self._name)
            try:
                self._descriptor = os.open(self._temporary, flags, 0o644, dir_fd=self._parent)
            except BaseException:
                self._opened.close()
                raise

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
                f"{printable(f'{self._source}/{self._file.path}')} has SHA-256 {found}, expected "
                f"{self._file.sha256}: it was damaged or changed; run dataprep verify "
                f"{shlex.quote(printable(str(self._source)))}"
            )
        with self._explained():
            if self._file.modified is not None:
                # What has no hash is known again by this, should the copier be killed.
                os.utime(self._descriptor, ns=(self._file.modified,) * 2)
            written = os.fstat(self._descriptor)
            if self._file.modified is not None and stat.S_IMODE(written.st_mode) != self._file.mode:
                os.fchmod(self._descriptor, self._file.mode)  # whatever the umask
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
        self.close()
        if self._temporary:
            with suppress(OSError):  # what went wrong before is what the user must know
                os.unlink(self._temporary, dir_fd=self._parent)
        self._opened.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Word the errors of the system."""
        try:
            yield
        except OSError as error:
            doing = f"writing {self._file.path}"
            raise target_error(error, place_of(self._target), doing) from error

    def _damaged(self, found: str, expected: str) -> StagingError:
        place = f"{place_of(self._target)}/{printable(self._file.path)}"
        return StagingError(
            f"this node's storage gives back other bytes than were written to {place}: "
            f"{found}, expected {expected}; "
            "take the node out of the job and report it"
        )
