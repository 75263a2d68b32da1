"""What there is to stage, a sealed data set's files or those of any directory; and reading it."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dataprep.errors import DatasetError, StagingError, UsageError
from dataprep.remote.store import Store, no_data_set
from dataprep.sealed.set import NAME, SealedSet
from dataprep.staging.directory import PRIVATE
from dataprep.staging.request import Source
from dataprep.system.durable_files import is_partial
from dataprep.system.filesystems import walk
from dataprep.system.messages import REMEDY, printable
from dataprep.system.regular_files import read_regular
from dataprep.system.state_files import parse
from dataprep.tables.records import NAME as TABLE
from dataprep_schemas.manifest import File, Manifest, RecordsFile

_OURS = ".dataprep"  # what begins like this is a directory of ours, not data
_FORMAT = b'"dataprep-'  # of any version; other programs have a manifest.json, too
_LMDB_LOCK = "lock.mdb"  # of the machine that has the database open


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file to stage."""

    path: str  # relative to the source and to the target, with ``/``; never leaves either
    bytes: int  # its size
    sha256: str | None = None  # what it must have, from the manifest; None in a plain directory
    # Its time of modification in ns, in a plain directory; None with a manifest, whose hashes
    # say more.
    modified: int | None = None
    mode: int = 0o644  # its permissions, in a plain directory


@dataclass(frozen=True, slots=True)
class Inventory:
    """All files of a source."""

    source: Source  # the directory, or the place in a bucket
    digest: str  # the manifest's own SHA-256; of a plain directory the SHA-256 over its listing
    # In the order of their paths; ``manifest.json``, if there is one, is among them.
    files: tuple[SourceFile, ...]
    manifest: Manifest | None  # what it says; None for a plain directory
    data: bytes = b""  # its very bytes, which a copy has too; none for a plain directory


def read_inventory(source: Source) -> Inventory:
    """List what is in ``source``: what its manifest names, or else every file below it.

    Of a data set nothing is read but the manifest, since a thousand nodes that ask for the state of
    a thousand shards are a storm for the file system; whoever copies a file finds out whether it
    has the size that the manifest says. Files that the manifest does not name, such as notes or
    rejected images, do not belong to the data set; a directory of them is staged by itself.

    Of a plain directory the files below it, those that links lead to among them. Left out are
    directories of dataprep's own (``.dataprep…``), its unfinished files (``….partial``), and LMDB's
    ``lock.mdb``. A ``manifest.json`` of another program is a file like any other.

    Of a bucket only data sets are staged: nothing is listed there.

    Raises:
        DatasetError: there is no such directory; it has no manifest but unfinished work of
            dataprep, or is a part of a data set; it holds what cannot be copied.
        RemoteError: the bucket does not answer, or refuses.
        UsageError: it is a file.
    """
    if isinstance(source, Store):
        if (there := source.read(NAME)) is None:
            raise no_data_set(str(source))
        return _named(source, parse(there, Manifest, f"{source}/{NAME}", REMEDY), there)
    try:
        if not stat.S_ISDIR(source.stat().st_mode):
            raise UsageError(
                f"{printable(str(source))} is no directory, and only directories are staged; name "
                f"the one that it is in, {printable(str(source.absolute().parent))}"
            )
        if (data := _manifest_of(source)) is not None:
            sealed = SealedSet.of(source, parse(data, Manifest, source / NAME, REMEDY))
            sealed.require_whole("staged")
            return _named(source, sealed.manifest, data)
        if (source / _OURS).is_dir():
            raise DatasetError(
                f"{source} holds an unfinished data set, without {NAME}; finish it first, with "
                "the command that makes it: `dataprep status` tells how far it has come"
            )
        return _listed(source)
    except OSError as error:
        raise DatasetError(
            f"{printable(str(error.filename or source))} cannot be staged: "
            f"{error.strerror or error}; name the directory of a data set, and check that it can "
            "be read and that nobody changes it"
        ) from error


def _manifest_of(source: Path) -> bytes | None:
    """The bytes of a manifest of ours, be it damaged; None if there is none."""
    try:
        data = read_regular(source / NAME)
    except FileNotFoundError:
        return None
    if _FORMAT not in data:
        with suppress(ValueError, RecursionError):  # ours that was cut, say, or emptied
            json.loads(data)
            return None
    return data


def _named(source: Source, manifest: Manifest, data: bytes) -> Inventory:
    """What a manifest names, and itself."""
    named: list[File | RecordsFile] = [manifest.records_table, *manifest.files()]
    files = [SourceFile(file.path, file.bytes, file.sha256) for file in named]
    files.append(SourceFile(NAME, len(data), hashlib.sha256(data).hexdigest()))
    files.sort(key=lambda file: file.path)
    return Inventory(source, manifest.sha256, tuple(files), manifest, data)


def _listed(source: Path) -> Inventory:
    """Every file below a plain directory."""
    files = sorted(_walk(source), key=lambda file: file.path)
    if not files:
        raise DatasetError(
            f"{printable(str(source))} holds no files, so there is nothing to stage; check the path"
        )
    digest = hashlib.sha256()
    for file in files:
        try:
            digest.update(f"{file.path}\0{file.bytes}\0{file.modified}\0".encode())
        except UnicodeEncodeError as error:
            raise DatasetError(
                f"the name {printable(file.path)} in {printable(str(source))} is not UTF-8, so it "
                "cannot be staged; rename it"
            ) from error
    return Inventory(source, digest.hexdigest(), tuple(files), None)


def _walk(source: Path) -> Iterator[SourceFile]:
    def refuse(_path: str, error: OSError) -> None:
        raise error

    def enter(entry: os.DirEntry[str]) -> bool:
        return entry.is_dir(follow_symlinks=False) and not entry.name.startswith(_OURS)

    for below, entries in walk(source, enter, refuse):
        for entry in entries:
            path = f"{below}/{entry.name}" if below else entry.name
            if entry.is_dir(follow_symlinks=False):
                continue
            if path == PRIVATE:
                raise DatasetError(
                    f"{printable(entry.path)} has the name of staging's own directory, so it "
                    "cannot be staged; move it away"
                )
            if entry.name != _LMDB_LOCK and not is_partial(entry.name):
                yield _file(entry, path)


def _file(entry: os.DirEntry[str], path: str) -> SourceFile:
    """A file, or what a link leads to."""
    found = entry.stat()
    if not stat.S_ISREG(found.st_mode):
        raise DatasetError(
            f"{printable(entry.path)} is no regular file, nor a link to one, so it cannot be "
            "staged; move it away"
        )
    mode = stat.S_IMODE(found.st_mode) & 0o777 | stat.S_IRUSR | stat.S_IWUSR
    return SourceFile(path, found.st_size, modified=found.st_mtime_ns, mode=mode)


_AHEAD = 1 << 17  # bytes, which the kernel reads at once anyway
_BEHIND = 1 << 25  # the kernel only forgets whole folios, which may begin in an earlier piece


def open_source(
    source: Source, file: SourceFile, *, scattered: bool = False
) -> SourceReader | RemoteReader:
    """A file to be read, in a directory or in a bucket; see `SourceReader`."""
    if isinstance(source, Store):
        return RemoteReader(source, file, scattered=scattered)
    return SourceReader(source, file, scattered=scattered)


_REQUEST = 1 << 23  # bytes


class RemoteReader:
    """The same of an object in a bucket, some of whose ranges are under way ahead.

    That it is what was listed, and stays it, its hash will tell.
    """

    def __init__(self, store: Store, file: SourceFile, *, scattered: bool) -> None:
        self._store, self._file, self._scattered = store, file, scattered
        self._path = file.path
        if file.path == TABLE and file.sha256 is not None:
            self._path = store.table_at(file.path, file.sha256)
        self._ahead: Iterator[memoryview] | None = None

    def pieces(self, largest: int) -> Iterator[tuple[int, int]]:
        """See `SourceReader.pieces`; larger ones, to be read in this order."""
        size, largest = self._file.bytes, max(largest, _REQUEST)
        if not self._scattered and size > largest:
            self._ahead = self._store.pieces(self._path, size, largest)
        return ((offset, min(largest, size - offset)) for offset in range(0, size, largest))

    def read(self, offset: int, view: memoryview) -> memoryview:
        """The bytes that begin there; of scattered chunks in the view, of others what came.

        Raises:
            StagingError: there is no such object.
            RemoteError: the bucket does not answer, or refuses.
        """
        try:
            if self._ahead is not None:
                return next(self._ahead)
            size = len(view) if self._scattered else self._file.bytes - offset
            found = self._store.read_range(self._path, offset, size)
        except FileNotFoundError as error:
            raise StagingError(
                f"{self._store}/{printable(self._file.path)} is missing; push the data set again"
            ) from error
        if not self._scattered:
            return found
        view[:] = found
        return view

    def check_unchanged(self) -> None:
        """Its hash tells."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._ahead = None


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
        self._path = f"{source}/{file.path}"  # 300,000 Path take seconds
        self._file = file
        try:
            # Without O_NONBLOCK, a named pipe in a file's place would be waited for.
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise self._unreadable(error) from error
        try:
            self._found = os.fstat(self._descriptor)
            self._check_as_listed()
            if file.bytes > _AHEAD:
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
        if len(view) < self._file.bytes:  # else all of it is forgotten in a moment
            begin = max(0, offset - _BEHIND)
            self._advise(os.POSIX_FADV_DONTNEED, begin, offset + done - begin)
        return view

    def check_unchanged(self) -> None:
        """After the last piece: nobody has written to it, or put another one in its place.

        Raises:
            StagingError: somebody has.
        """
        try:
            now = os.stat(self._path)  # noqa: PTH116  # as above
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
        found, expected = self._found, self._file
        same = found.st_size == expected.bytes and expected.modified in (None, found.st_mtime_ns)
        if same and stat.S_ISREG(found.st_mode):
            return
        name = printable(self._path)
        if not stat.S_ISREG(found.st_mode):
            raise StagingError(f"{name} is no regular file any more; put the file back")
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
            f"{printable(self._path)} changed while it was being copied; run the same command "
            "again once nobody writes to it"
        )

    def _unreadable(self, error: OSError) -> StagingError:
        return StagingError(
            f"cannot read {printable(self._path)}: {error.strerror or error}; check that it "
            "is there, its permissions and its file system, and run the same command again"
        )

    def _advise(self, advice: int, offset: int = 0, count: int = 0) -> None:
        with suppress(OSError):  # a file system that takes no advice is none the worse
            os.posix_fadvise(self._descriptor, offset, count, advice)
