"""The sending half of a copy: a source file in large pieces, none of which stay in memory."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dataprep.errors import StagingError
from dataprep.staging.inventory import SourceFile
from dataprep.system.messages import printable

_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE})
_LARGEST_HOLE = 1 << 26  # hashed in one go, about 50 ms, before anybody looks whether to stop
_BEHIND = 1 << 25  # the kernel only forgets whole folios, which may begin in an earlier piece
_BLOCK = 512  # what st_blocks counts, whatever the file system's own blocks are


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a file.

    Attributes:
        offset: where it begins.
        bytes: how long it is.
        hole: whether it is a part of a sparse file that was never written: zeros that need not be
            read.
    """

    offset: int
    bytes: int
    hole: bool


class SourceReader:
    """An open source file that is checked to be, and to stay, what was listed. A context manager.

    Args:
        source: the directory that it is in.
        file: what it must be.
        keep: leave what is read in the page cache.
        scattered: other nodes read what is between the pieces, so nothing is read ahead.

    Raises:
        StagingError: it is absent, no regular file, of another size or time than listed, or cannot
            be opened.
    """

    def __init__(
        self, source: Path, file: SourceFile, *, keep: bool = False, scattered: bool = False
    ) -> None:
        self._source = source
        self._path = source / file.path
        self._file = file
        self._keep = keep
        try:
            # Without O_NONBLOCK, a named pipe in a file's place would be waited for.
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise self._unreadable(error) from error
        try:
            self._being_read: set[int] = set()  # where pieces begin
            self._found = os.fstat(self._descriptor)
            self._check_as_listed()
            order = os.POSIX_FADV_RANDOM if scattered else os.POSIX_FADV_SEQUENTIAL
            _advise(self._descriptor, 0, 0, order)
        except BaseException:
            os.close(self._descriptor)
            raise

    @property
    def is_sparse(self) -> bool:
        """Whether it takes less room than its size, so that it may have holes."""
        return self._found.st_blocks * _BLOCK < self._found.st_size

    def pieces(self, largest: int) -> Iterator[Piece]:
        """The file from its beginning to its end.

        Args:
            largest: bytes of a piece that must be read, at most.
        """
        offset, size = 0, self._file.bytes
        while offset < size:
            begin, end = self._next_data(offset) if self.is_sparse else (offset, size)
            yield from _cut(offset, begin, _LARGEST_HOLE, hole=True)
            yield from _cut(begin, end, largest, hole=False)
            offset = end

    def read(self, piece: Piece, buffer: memoryview) -> memoryview:
        """Fill the beginning of ``buffer`` with a piece, and forget its pages.

        Returns:
            That beginning.

        Raises:
            StagingError: the file has become shorter, or cannot be read.
        """
        view, done = buffer[: piece.bytes], 0
        self._being_read.add(piece.offset)
        while done < piece.bytes:
            try:
                count = os.preadv(self._descriptor, [view[done:]], piece.offset + done)
            except OSError as error:
                raise self._unreadable(error) from error
            if count == 0:
                raise self._changed(f"it ends after {piece.offset + done:,} bytes")
            done += count
        self._being_read.discard(piece.offset)
        self._forget(piece)
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
        if (now.st_dev, now.st_ino) != (self._found.st_dev, self._found.st_ino):
            raise self._changed("another file has taken its place")
        if now.st_size != self._found.st_size:
            raise self._changed(f"it had {self._found.st_size:,} bytes and has {now.st_size:,}")
        if now.st_mtime_ns != self._found.st_mtime_ns:
            raise self._changed("it was written to")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if not self._keep:
            # What the kernel read ahead, and pages that piece boundaries cut in two.
            _advise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(self._descriptor)

    def _forget(self, piece: Piece) -> None:
        # What another thread is still reading further in front would have to be read again.
        slower = any(offset < piece.offset for offset in tuple(self._being_read))
        if not self._keep and not slower:
            begin = max(0, piece.offset - _BEHIND)
            count = piece.offset + piece.bytes - begin
            _advise(self._descriptor, begin, count, os.POSIX_FADV_DONTNEED)

    def _check_as_listed(self) -> None:
        name = printable(str(self._path))
        if not stat.S_ISREG(self._found.st_mode):
            raise StagingError(
                f"{name} is no regular file any more; put the file back and run the same command "
                "again"
            )
        if self._found.st_size != self._file.bytes:
            raise StagingError(
                f"{name} has {self._found.st_size:,} bytes, expected {self._file.bytes:,}: it was "
                f"damaged or changed; {self._advice()}"
            )
        if self._file.modified is not None and self._found.st_mtime_ns != self._file.modified:
            raise StagingError(f"{name} was written to since it was listed; {self._advice()}")

    def _next_data(self, offset: int) -> tuple[int, int]:
        """Where the next data begin and end; both the file's end if only a hole is left."""
        size = self._file.bytes
        try:
            begin = os.lseek(self._descriptor, offset, os.SEEK_DATA)
            end = os.lseek(self._descriptor, begin, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return size, size
            return offset, size  # a file system that does not tell: all of it is data
        return min(begin, size), min(end, size)

    def _changed(self, what: str) -> StagingError:
        return StagingError(
            f"{printable(str(self._path))} changed while it was being copied: {what}; "
            "run the same command again once nobody writes to it"
        )

    def _unreadable(self, error: OSError) -> StagingError:
        name, reason = printable(str(self._path)), error.strerror or str(error)
        if error.errno in _GONE:
            return StagingError(
                f"{name} has vanished since it was listed ({reason}); "
                "put it back and run the same command again"
            )
        return StagingError(
            f"cannot read {name}: {reason}; check its permissions and that its file system is "
            "healthy, and run the same command again"
        )

    def _advice(self) -> str:
        if self._file.sha256 is None:
            return "run the same command again once nobody writes to it"
        return f"run dataprep verify {printable(str(self._source))}"


def _cut(begin: int, end: int, largest: int, *, hole: bool) -> Iterator[Piece]:
    for offset in range(begin, end, largest):
        yield Piece(offset, min(largest, end - offset), hole)


def _advise(descriptor: int, offset: int, count: int, advice: int) -> None:
    """Tell the kernel; a file system that takes no advice is none the worse."""
    try:
        os.posix_fadvise(descriptor, offset, count, advice)
    except OSError:
        return
