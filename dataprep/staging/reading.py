"""The sending half of a copy: a source file in large pieces, none of which stay in memory."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

from dataprep.errors import StagingError
from dataprep.staging.inventory import SourceFile
from dataprep.system.messages import printable

_BEHIND = 1 << 25  # the kernel only forgets whole folios, which may begin in an earlier piece


class SourceReader:
    """An open source file that is checked to be, and to stay, what was listed. A context manager.

    Args:
        scattered: other nodes read what is between the pieces, so nothing is read ahead.

    Raises:
        StagingError: it is absent, no regular file, of another size or time than listed, or cannot
            be opened.
    """

    def __init__(self, source: Path, file: SourceFile, *, scattered: bool = False) -> None:
        self._source = source
        self._path = source / file.path
        self._file = file
        try:
            # Without O_NONBLOCK, a named pipe in a file's place would be waited for.
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise self._unreadable(error) from error
        try:
            self._found = os.fstat(self._descriptor)
            self._check_as_listed()
            self._advise(os.POSIX_FADV_RANDOM if scattered else os.POSIX_FADV_SEQUENTIAL)
        except BaseException:
            os.close(self._descriptor)
            raise

    def pieces(self, largest: int) -> Iterator[tuple[int, int]]:
        """Where each piece of the file begins, and how many bytes it has, ``largest`` at most."""
        size = self._file.bytes
        return ((offset, min(largest, size - offset)) for offset in range(0, size, largest))

    def read(self, offset: int, view: memoryview) -> memoryview:
        """Fill ``view`` with what begins at ``offset``, and forget those pages.

        Returns:
            The same view.

        Raises:
            StagingError: the file has become shorter, or cannot be read.
        """
        done = 0
        while done < len(view):
            try:
                count = os.preadv(self._descriptor, [view[done:]], offset + done)
            except OSError as error:
                raise self._unreadable(error) from error
            if count == 0:
                raise self._changed()
            done += count
        begin = max(0, offset - _BEHIND)
        self._advise(os.POSIX_FADV_DONTNEED, begin, offset + done - begin)
        return view

    def check_unchanged(self) -> None:
        """After the last piece: nobody has written to it, or put another one in its place.

        Raises:
            StagingError: somebody has.
        """
        try:
            now = self._path.stat()
        except OSError as error:
            raise self._unreadable(error) from error
        if not os.path.samestat(now, self._found) or (
            (now.st_size, now.st_mtime_ns) != (self._found.st_size, self._found.st_mtime_ns)
        ):
            raise self._changed()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        # What the kernel read ahead, and pages that piece boundaries cut in two.
        self._advise(os.POSIX_FADV_DONTNEED)
        os.close(self._descriptor)

    def _check_as_listed(self) -> None:
        name = printable(str(self._path))
        found, expected = self._found, self._file
        if not stat.S_ISREG(found.st_mode):
            raise StagingError(f"{name} is no regular file any more; put the file back")
        same_time = expected.modified in (None, found.st_mtime_ns)
        if found.st_size == expected.bytes and same_time:
            return
        if expected.sha256 is None:
            raise StagingError(
                f"{name} was written to since it was listed; run the same command again once "
                "nobody writes to it"
            )
        raise StagingError(
            f"{name} has {found.st_size:,} bytes, expected {expected.bytes:,}: it was damaged or "
            f"changed; run dataprep verify "
            f"{shlex.quote(printable(str(self._source)))}"
        )

    def _changed(self) -> StagingError:
        return StagingError(
            f"{printable(str(self._path))} changed while it was being copied; run the same command "
            "again once nobody writes to it"
        )

    def _unreadable(self, error: OSError) -> StagingError:
        return StagingError(
            f"cannot read {printable(str(self._path))}: {error.strerror or error}; check that it "
            "is there, its permissions and its file system, and run the same command again"
        )

    def _advise(self, advice: int, offset: int = 0, count: int = 0) -> None:
        with suppress(OSError):  # a file system that takes no advice is none the worse
            os.posix_fadvise(self._descriptor, offset, count, advice)
