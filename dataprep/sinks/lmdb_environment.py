"""LMDB database files: written in batches with a map that grows, read, and errors Python knows.

Equal records give an equal file, down to its meta pages, which hold the size of the map and the
number of the last transaction: transactions end and the map grows at points that depend on
nothing but the sizes of the records. LMDB clears the memory that it writes (``meminit``).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Self

import lmdb

from dataprep.errors import SinkError
from dataprep.sinks.base import WrittenFile
from dataprep.sinks.hashed_file import hash_finished

LONGEST_KEY = 511
"""In bytes: LMDB's ``MDB_MAXKEYSIZE``."""

_LARGEST_VALUE = (1 << 32) - 1  # mdb.c: MAXDATASIZE
_SMALLEST_MAP = 1 << 20
_SPARE_PAGES = 1024  # for what LMDB notes of freed pages when a transaction ends

# py-lmdb can also write the format of LMDB 1.0, which none of Caffe, DALI and older py-lmdb reads,
# and a variable of the environment can make that its default.
_FORMAT: dict[str, Any] = {"lib_version": 0} if hasattr(lmdb.Environment, "lib_version") else {}


def library_versions() -> dict[str, str]:
    """What wrote the pages."""
    return {"lmdb": lmdb.__version__}


class LmdbWriter:
    """Puts records into a new database file, its unnamed database.

    The file takes no more room than its content: the map is only reserved address space.

    Args:
        path: must not exist. No lock file appears beside it: nobody else can know of it.
        append: whether keys come in ascending order, which packs pages full.
        batch_records: records a transaction at most; Caffe's ``convert_imageset`` has 1000 too.
        batch_bytes: bytes of values a transaction at most, unless one value alone is larger; LMDB
            keeps them in memory until its end. So few that nobody waits long for that.

    Raises:
        OSError: the disk is full, and the like.
    """

    def __init__(
        self,
        path: Path,
        *,
        append: bool,
        batch_records: int = 1000,
        batch_bytes: int = 4 << 20,
    ) -> None:
        self._path = path
        self._append = append
        self._batch_records = batch_records
        self._batch_bytes = batch_bytes
        self._records = 0  # of the open transaction
        self._bytes = 0
        self._transaction: lmdb.Transaction[bytes] | None = None
        self._map_size = _SMALLEST_MAP
        try:
            self._environment: lmdb.Environment | None = lmdb.open(
                str(path),
                map_size=self._map_size,
                subdir=False,
                lock=False,
                sync=False,  # once, when the file is finished
                metasync=False,
                meminit=True,
                mode=0o666,
                **_FORMAT,
            )
        except lmdb.Error as error:
            raise _converted(error, path) from error

    def put(self, key: bytes, value: bytes) -> None:
        """Store a record.

        Raises:
            SinkError: the value is too large, or the key is there already.
            OSError: the disk is full, and the like.
        """
        if len(value) > _LARGEST_VALUE:
            raise SinkError(f"{len(value)} bytes; LMDB keeps at most {_LARGEST_VALUE} in a value")
        if self._records == self._batch_records or (
            self._records and self._bytes + len(value) > self._batch_bytes
        ):
            self._commit()
        try:
            if self._transaction is None:
                self._transaction = self._begin(len(value))
            stored = self._transaction.put(key, value, overwrite=False, append=self._append)
        except lmdb.Error as error:
            raise _converted(error, self._path) from error
        if not stored:
            raise SinkError(f"key {key!r} is there already, or not in ascending order")
        self._records += 1
        self._bytes += len(value)

    def close(self) -> WrittenFile:
        """Finish the file, flush it to the disk, and describe it."""
        self._commit()
        self.abandon()
        return hash_finished(self._path)

    def abandon(self) -> None:
        """Release the file handle and write nothing more; harmless when repeated."""
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            transaction.abort()
        environment, self._environment = self._environment, None
        if environment is not None:
            environment.close()

    def _begin(self, first_value: int) -> lmdb.Transaction[bytes]:
        """Start a transaction with a map that is certainly large enough for all of its records.

        Growing when LMDB says that the map is full would mean to do a batch twice.
        """
        environment = self._open_environment()
        stat, info = environment.stat(), environment.info()
        page_size = stat["psize"]
        # A record can change each page on the way from the root and split it, which can make the
        # tree higher; a batch makes it four levels higher at most. A value takes whole pages.
        tree = 2 * (stat["depth"] + 4) + 1
        values = max(self._batch_bytes, first_value) // page_size + 1
        pages = info["last_pgno"] + 1 + values + self._batch_records * (tree + 1) + _SPARE_PAGES
        if self._map_size < pages * page_size:
            while self._map_size < pages * page_size:
                self._map_size *= 2
            environment.set_mapsize(self._map_size)
        return environment.begin(write=True)

    def _commit(self) -> None:
        transaction, self._transaction = self._transaction, None
        self._records = self._bytes = 0
        if transaction is not None:
            try:
                transaction.commit()
            except lmdb.Error as error:
                raise _converted(error, self._path) from error

    def _open_environment(self) -> lmdb.Environment:
        if self._environment is None:
            raise ValueError(f"{self._path} is closed")
        return self._environment


# py-lmdb opens a file once a process, and so once for all readers of it; forked processes go on
# with what they inherit. Keys: device and inode; values: the environment and its number of readers.
_OPEN: dict[tuple[int, int], tuple[lmdb.Environment, int]] = {}
_LOCK = Lock()
os.register_at_fork(
    before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
)


class LmdbReader:
    """A finished file, its unnamed database, open for reading without locks.

    LMDB trusts what it reads: of files whose hash nobody has compared, see `Sink.trusts_files`.

    Args:
        path: the file.

    Raises:
        SinkError: not an LMDB file of this kind, or truncated; the message says what is wrong, but
            not in which file.
    """

    def __init__(self, path: Path) -> None:
        status = path.stat()
        self._identity = status.st_dev, status.st_ino
        self._transaction: lmdb.Transaction[memoryview] | None = None
        environment = _acquire(path, self._identity)
        self.entries: int = environment.stat()["entries"]
        needed = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
        if status.st_size < needed:  # LMDB would end the process
            _release(self._identity)
            raise SinkError(f"{status.st_size} bytes of {needed}: the file is truncated")
        self._transaction = environment.begin(buffers=True)

    def get(self, key: bytes) -> memoryview | None:
        """The value of a key, not copied: until `close`."""
        with _told():
            return self._open().get(key)

    def items(self, start: bytes = b"") -> Iterator[tuple[bytes, memoryview]]:
        """The entries from key ``start`` on, in order."""
        with _told(), self._open().cursor() as cursor:
            if cursor.set_range(start):
                for key, value in cursor:
                    yield bytes(key), value

    def close(self) -> None:
        """Release the file; harmless when repeated."""
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            transaction.abort()
            _release(self._identity)

    def __enter__(self) -> Self:
        """The open file."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close."""
        self.close()

    def _open(self) -> lmdb.Transaction[memoryview]:
        if self._transaction is None:
            raise ValueError("the database is closed")
        return self._transaction


@contextmanager
def _told() -> Iterator[None]:
    """Turn what LMDB raises about a file into a SinkError."""
    try:
        yield
    except lmdb.Error as error:
        raise SinkError(f"LMDB cannot read it: {error}") from error


def _acquire(path: Path, identity: tuple[int, int]) -> lmdb.Environment:
    with _LOCK:
        environment, readers = _OPEN.get(identity, (None, 0))
        if environment is None:
            with _told():
                environment = lmdb.open(
                    str(path), subdir=False, readonly=True, lock=False, readahead=False, **_FORMAT
                )
        _OPEN[identity] = environment, readers + 1
        return environment


def _release(identity: tuple[int, int]) -> None:
    with _LOCK:
        environment, readers = _OPEN.pop(identity)
        if readers > 1:
            _OPEN[identity] = environment, readers - 1
        else:
            environment.close()


def check_key(key: bytes, name: str) -> bytes:
    """``key``, if LMDB can hold it; ``name`` is what the user calls it.

    Raises:
        SinkError: it is longer than `LONGEST_KEY`.
    """
    if len(key) > LONGEST_KEY:
        raise SinkError(
            f"{name}: its LMDB key is {len(key)} bytes long; LMDB holds at most {LONGEST_KEY}: "
            "shorten the path"
        )
    return key


def _converted(error: lmdb.Error, path: Path) -> Exception:
    """What Python would have raised: an OSError for the system's errors; else a SinkError."""
    number = getattr(error, "code", 0)  # older py-lmdb tells it in words only
    if isinstance(error, lmdb.DiskError):
        number = errno.ENOSPC
    elif isinstance(error, lmdb.MemoryError):
        number = errno.ENOMEM
    elif number <= 0:
        candidates = (errno.EIO, errno.EFBIG, errno.EDQUOT, errno.ENOSPC)
        number = next((one for one in candidates if os.strerror(one) in str(error)), 0)
    if number == errno.EIO:
        number = _reason_for_short_write(path)
    if number > 0:
        return OSError(number, os.strerror(number), str(path))
    return SinkError(f"{path}: LMDB failed: {error}")


def _reason_for_short_write(path: Path) -> int:
    """Why the disk took only a part: LMDB calls that an I/O error (``mdb_page_flush``).

    Asks the system for room as large as a batch's pages; the file is lost anyhow.
    """
    try:
        with path.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            try:
                os.posix_fallocate(file.fileno(), size, 64 << 20)
            finally:
                os.ftruncate(file.fileno(), size)
    except OSError as error:
        return error.errno or errno.EIO
    return errno.EIO
