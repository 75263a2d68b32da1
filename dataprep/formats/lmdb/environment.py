"""LMDB database files: written in batches with a map that grows, read, and errors Python knows.

Equal records give an equal file, down to its meta pages, which hold the size of the map and the
number of the last transaction: transactions end and the map grows at points that depend on
nothing but the sizes of the records. LMDB clears the memory that it writes (``meminit``).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import lmdb

from dataprep.errors import SinkError
from dataprep.formats import DatasetInfo, PlainSink, ShardReader, ShardWriter, WrittenFile
from dataprep.formats.hashed_file import hash_finished, library_writes
from dataprep.system.regular_files import require_regular

LONGEST_KEY = 511  # in bytes: LMDB's ``MDB_MAXKEYSIZE``
_SMALLEST_MAP = 1 << 20
_SPARE_PAGES = 1024  # for what LMDB notes of freed pages when a transaction ends
# Of a transaction at most. Caffe's ``convert_imageset`` has 1000 records, too. LMDB keeps values in
# memory until its end: so few bytes that nobody waits long for that, unless one alone is larger.
_BATCH_RECORDS = 1000
_BATCH_BYTES = 4 << 20

# py-lmdb can also write the format of LMDB 1.0, which none of Caffe, DALI and older py-lmdb reads,
# and a variable of the environment can make that its default.
_FORMAT: dict[str, Any] = {"lib_version": 0} if hasattr(lmdb.Environment, "lib_version") else {}


class LmdbFileSink(PlainSink):
    """A shard is an LMDB database; a base class, no format."""

    usual_shards: ClassVar[int | None] = 1
    overhead: ClassVar[int] = 2200  # measured: half a page at the image's end, the key, the tree
    seeks: ClassVar[bool] = True
    trusts_files: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ("lmdb",)


class LmdbWriter(ShardWriter):
    """Puts records into a new database file, its unnamed database.

    The file takes no more room than its content: the map is only reserved address space.

    Args:
        paths: one, which must not exist. No lock file appears beside it: nobody else can know of
            it.

    Attributes:
        ascending: whether keys come in that order, which packs pages full.
        number: of the next record.

    Raises:
        OSError: the disk is full, and the like.
    """

    ascending: ClassVar[bool] = False

    def __init__(self, paths: Sequence[Path], info: DatasetInfo, *, pixels: bool = False) -> None:
        super().__init__(info, pixels=pixels)
        self.number = 0
        (self._path,) = paths
        self._records = 0  # of the open transaction
        self._bytes = 0
        self._transaction: lmdb.Transaction[bytes] | None = None
        self._map_size = _SMALLEST_MAP
        # LMDB calls a short write an I/O error (``mdb_page_flush``).
        self._library_writes = partial(library_writes, self._path, "LMDB", lmdb.Error)
        with self._library_writes():
            self._environment = lmdb.open(
                str(self._path),
                map_size=self._map_size,
                subdir=False,
                lock=False,
                sync=False,  # once, when the file is finished
                metasync=False,
                meminit=True,
                mode=0o666,
                **_FORMAT,
            )

    def put(self, key: bytes, value: bytes) -> None:
        """Store a record.

        Raises:
            SinkError: the key is there already, or LMDB fails.
            OSError: the disk is full, and the like.
        """
        with self._library_writes():
            full = self._bytes + len(value) > _BATCH_BYTES or self._records == _BATCH_RECORDS
            if self._records and full:
                self._commit()
            if self._transaction is None:
                self._transaction = self._begin(len(value))
            stored = self._transaction.put(key, value, overwrite=False, append=self.ascending)
        if not stored:
            raise SinkError(f"key {key!r} is there already, or not in ascending order")
        self.number += 1
        self._records += 1
        self._bytes += len(value)

    def close(self) -> Sequence[WrittenFile]:
        """Finish the file, flush it to the disk, and describe it."""
        with self._library_writes():
            self._commit()
        self.abandon()
        return (hash_finished(self._path),)

    def abandon(self) -> None:
        """Release the file handle and write nothing more; harmless when repeated."""
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            transaction.abort()
        self._environment.close()

    def _begin(self, first_value: int) -> lmdb.Transaction[bytes]:
        """Start a transaction with a map that is certainly large enough for all of its records.

        Growing when LMDB says that the map is full would mean to do a batch twice.
        """
        stat, info = self._environment.stat(), self._environment.info()
        page_size = stat["psize"]
        # A record can change each page on the way from the root and split it, which can make the
        # tree higher; a batch makes it four levels higher at most. A value takes whole pages.
        tree = 2 * (stat["depth"] + 4) + 1
        values = max(_BATCH_BYTES, first_value) // page_size + 1
        pages = info["last_pgno"] + 1 + values + _BATCH_RECORDS * (tree + 1) + _SPARE_PAGES
        if self._map_size < pages * page_size:
            while self._map_size < pages * page_size:
                self._map_size *= 2
            self._environment.set_mapsize(self._map_size)
        return self._environment.begin(write=True)

    def _commit(self) -> None:
        transaction, self._transaction = self._transaction, None
        self._records = self._bytes = 0
        if transaction is not None:
            transaction.commit()


class LmdbReader(ShardReader):
    """A finished file, its unnamed database, open for reading without locks.

    LMDB trusts what it reads: of files whose hash nobody has compared, see `Sink.trusts_files`.
    py-lmdb opens a file once a process, so that all readers of it share an environment; forked
    processes go on with what they inherit.
    """

    def __init__(self, paths: Sequence[Path], info: DatasetInfo) -> None:
        super().__init__(paths[0], info)
        with self.opening("LMDB structure"):
            require_regular(self.path)
            status = self.path.stat()
            identity = status.st_dev, status.st_ino
            with _LOCK:
                environment = _OPEN.get(identity)
                if environment is None:
                    environment = lmdb.open(
                        str(self.path),
                        subdir=False,
                        readonly=True,
                        lock=False,
                        readahead=False,
                        **_FORMAT,
                    )
                    _OPEN[identity] = environment
            self.entries: int = environment.stat()["entries"]
            needed = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
            if status.st_size < needed:  # LMDB would end the process
                raise SinkError(f"it has {status.st_size} bytes of {needed}: it is truncated")
            if self.entries > needed:
                raise SinkError(f"it has {self.entries} entries in {needed} bytes: it is damaged")
            self._transactions = [environment.begin(buffers=True)]
            self.opened.callback(_abort, self._transactions)

    def __len__(self) -> int:
        return self.entries

    def get(self, key: bytes) -> memoryview:
        """The value of a key, not copied: until `close`.

        Raises:
            SinkError: there is none.
        """
        (transaction,) = self._transactions
        found = transaction.get(key)
        if found is None:
            raise SinkError(f"there is no {key.decode()}")
        return found

    def first(self, start: bytes) -> tuple[bytes, memoryview]:
        """The first entry from key ``start`` on.

        Raises:
            SinkError: there is none.
        """
        (transaction,) = self._transactions
        with transaction.cursor() as cursor:
            if not cursor.set_range(start):
                raise SinkError(f"there is no key from {start.decode()} on")
            return bytes(cursor.key()), cursor.value()


def _abort(transactions: list[lmdb.Transaction[memoryview]]) -> None:
    """Release the file, if nobody else reads it."""
    transactions.pop().abort()


_OPEN: WeakValueDictionary[tuple[int, int], lmdb.Environment] = WeakValueDictionary()
_LOCK = Lock()
os.register_at_fork(
    before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
)
