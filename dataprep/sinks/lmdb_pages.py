"""Reads an LMDB database file without LMDB, because a damaged file must not end the process.

LMDB maps the file and trusts it: a page behind the end of a truncated file is a SIGBUS, a flipped
byte in a B+tree an assertion or a wild pointer. Here every page is read with ``pread`` and
checked before it is believed, so that damage is an error message. The layout is that of LMDB 0.9
(``MDB_DATA_VERSION`` 1, ``mdb.c``: ``MDB_meta``, ``MDB_page``, ``MDB_node``), unchanged since 2011,
as 64-bit machines write it, in their byte order.

What remains: LMDB has no checksums. A byte flipped inside a value or inside a key is seen only if
what is stored there does not make sense any more; the manifest's SHA-256 sees it always.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dataprep.errors import ImageError, SinkError

_MAGIC = 0xBEEFC0DE
_DATA_VERSION = 1
_NO_PAGE = (1 << 64) - 1  # the root of an empty database
_BRANCH, _LEAF, _OVERFLOW, _META = 1, 2, 4, 8  # mp_flags
_BIG = 1  # mn_flags: the value is on overflow pages

# native byte order, no padding but what is spelt out
_PAGE = struct.Struct("=QHHHH")  # mp_pgno, mp_pad, mp_flags, mp_lower, mp_upper
_OVERFLOW_PAGE = struct.Struct("=QHHI")  # mp_pgno, mp_pad, mp_flags, mp_pages
_NODE = struct.Struct("=HHHH")  # mn_lo, mn_hi, mn_flags, mn_ksize
_PAGE_NUMBER = struct.Struct("=Q")
# mm_magic, mm_version, mm_address, mm_mapsize, the free database (its md_pad is the page size),
# the main database (md_flags, md_depth, md_entries, md_root), mm_last_pg, mm_txnid
_META_PAGE = struct.Struct("=II16xI48xHH24xQQQQ")
_SMALLEST_PAGE, _LARGEST_PAGE = 512, 1 << 16
_CACHED_PAGES = 64


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value is in the file: ``size`` bytes from byte ``offset``."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class _Meta:
    page_size: int
    flags: int
    depth: int
    entries: int
    root: int
    last_page: int
    transaction: int


@dataclass(frozen=True, slots=True)
class _Page:
    """A checked page: its keys, and the children (branch) or the places of the values (leaf)."""

    keys: list[bytes]
    children: list[int]
    places: list[Place | int]  # an int is the overflow page, looked up when it is wanted
    sizes: list[int]


@contextmanager
def located(place: str) -> Iterator[None]:
    """Say in an error where it was found, and the way out."""
    try:
        yield
    except (SinkError, ImageError) as error:
        raise SinkError(f"{place}: {error}; make the shard again") from error


class LmdbPages:
    """The unnamed database of a file, open for reading; keys in byte order.

    Raises:
        SinkError: not an LMDB file of this kind, truncated, or damaged; the message says what is
            wrong and on which page, but not in which file.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._size = os.fstat(self._descriptor).st_size
            self._meta = self._newest_meta()
        except BaseException:
            self.close()
            raise
        self._cache: dict[int, _Page] = {}

    @property
    def entries(self) -> int:
        """How many keys there are, as the file says."""
        return self._meta.entries

    def close(self) -> None:
        """Release the file handle; harmless when repeated."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        """The open file."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close."""
        self.close()

    def first_from(self, key: bytes) -> tuple[bytes, Place] | None:
        """The first entry whose key is not less than ``key``; None if there is none."""
        return next(self.items(key), None)

    def items(self, start: bytes = b"") -> Iterator[tuple[bytes, Place]]:
        """The entries from key ``start`` in order; the values stay unread.

        Raises:
            SinkError: a page on the way is damaged, or the keys are not in order.
        """
        previous: bytes | None = None
        for page, index in self._leaf_entries(start):
            key = page.keys[index]
            if previous is not None and key <= previous:
                raise SinkError(f"key {key!r} follows {previous!r}")
            previous = key
            place = page.places[index]
            if isinstance(place, int):
                place = page.places[index] = self._overflow_place(place, page.sizes[index])
            yield key, place

    def read(self, place: Place, start: int = 0, stop: int | None = None) -> bytes:
        """A value, or bytes ``start`` to ``stop`` of it."""
        stop = place.size if stop is None else min(stop, place.size)
        return self._bytes(place.offset + start, max(0, stop - start))

    def _bytes(self, offset: int, size: int) -> bytes:
        if offset + size > self._size:
            raise SinkError(
                f"bytes {offset} to {offset + size} are behind the end of the file "
                f"({self._size} bytes): it is truncated or damaged"
            )
        data = os.pread(self._descriptor, size, offset)
        while len(data) < size:  # Linux gives at most 2 GiB at once
            more = os.pread(self._descriptor, size - len(data), offset + len(data))
            if not more:
                raise SinkError(f"the file ends at byte {offset + len(data)} while it is read")
            data += more
        return data

    def _newest_meta(self) -> _Meta:
        """Of two meta pages, written by turns, the one of the last transaction."""
        first = self._meta_page(0, 0)
        if not _SMALLEST_PAGE <= first.page_size <= _LARGEST_PAGE or (
            first.page_size & (first.page_size - 1)
        ):
            raise SinkError(f"meta page 0 speaks of pages of {first.page_size} bytes")
        second = self._meta_page(1, first.page_size)
        if second.page_size != first.page_size:
            raise SinkError("the meta pages disagree about the size of a page")
        older, newer = sorted((first, second), key=lambda meta: meta.transaction)
        # Transaction n is kept in meta page n mod 2; a new database begins with 0 in both.
        if newer.transaction != older.transaction + 1 and newer.transaction != 0:
            raise SinkError(
                f"the meta pages are of transactions {first.transaction} and "
                f"{second.transaction}, which do not follow each other"
            )
        if newer is not (first, second)[newer.transaction % 2] and newer.transaction != 0:
            raise SinkError(f"transaction {newer.transaction} is in the wrong meta page")
        if self._size < (newer.last_page + 1) * newer.page_size:
            raise SinkError(
                f"{self._size} bytes, but {newer.last_page + 1} pages of {newer.page_size} bytes "
                "are in use: the file is truncated"
            )
        if newer.flags:
            raise SinkError(f"the database has flags {newer.flags:#x}; expected none")
        if (newer.root == _NO_PAGE) != (newer.entries == 0) or newer.depth > 32:
            raise SinkError("the meta page contradicts itself")
        return newer

    def _meta_page(self, number: int, page_size: int) -> _Meta:
        offset = number * page_size
        if self._size < offset + _PAGE.size + _META_PAGE.size:
            raise SinkError(f"{self._size} bytes are too few for an LMDB file")
        data = self._bytes(offset, _PAGE.size + _META_PAGE.size)
        page, _, page_flags, _, _ = _PAGE.unpack_from(data)
        magic, version, *fields = _META_PAGE.unpack_from(data, _PAGE.size)
        if magic != _MAGIC or page != number or not page_flags & _META:
            raise SinkError("not an LMDB 0.9 file of a 64-bit machine of this byte order")
        if version != _DATA_VERSION:
            raise SinkError(f"LMDB data version {version}; expected {_DATA_VERSION}, of LMDB 0.9")
        return _Meta(*fields)

    def _leaf_entries(self, start: bytes) -> Iterator[tuple[_Page, int]]:
        """Walk the tree depth first from the place where ``start`` is or would be."""
        if self._meta.root == _NO_PAGE:
            return
        page = self._page(self._meta.root, leaf=self._meta.depth == 1)
        stack: list[tuple[_Page, int]] = []
        seeking = True
        while True:
            while len(stack) < self._meta.depth - 1:
                # The first key of a branch is not stored: it stands for everything below.
                child = bisect_right(page.keys, start, 1) - 1 if seeking else 0
                stack.append((page, child))
                page = self._page(page.children[child], leaf=len(stack) == self._meta.depth - 1)
            begin = bisect_left(page.keys, start) if seeking else 0
            for index in range(begin, len(page.keys)):
                yield page, index
            seeking = False
            while stack:
                page, child = stack.pop()
                if child + 1 < len(page.children):
                    stack.append((page, child + 1))
                    page = self._page(
                        page.children[child + 1], leaf=len(stack) == self._meta.depth - 1
                    )
                    break
            else:
                return

    def _page(self, number: int, *, leaf: bool) -> _Page:
        page = self._cache.get(number)
        if page is None:
            while len(self._cache) >= _CACHED_PAGES:
                del self._cache[next(iter(self._cache))]
            page = self._cache[number] = self._parse(number)
        if bool(page.children) == leaf:
            raise SinkError(f"page {number} is not at the level of the tree where it should be")
        return page

    def _parse(self, number: int) -> _Page:
        """Read a branch or leaf page and believe nothing of it."""
        size = self._meta.page_size
        if not 2 <= number <= self._meta.last_page:
            raise SinkError(f"page {number} is referred to; the last one is {self._meta.last_page}")
        data = self._bytes(number * size, size)
        own_number, _, flags, lower, upper = _PAGE.unpack_from(data)
        if own_number != number or flags not in (_BRANCH, _LEAF):
            raise SinkError(f"page {number} is not a page of the tree")
        if not _PAGE.size < lower <= upper <= size or lower % 2:
            raise SinkError(f"page {number} has a damaged header")
        page = _Page([], [], [], [])
        count = (lower - _PAGE.size) // 2
        for offset in struct.unpack_from(f"={count}H", data, _PAGE.size):
            if not upper <= offset <= size - _NODE.size:
                raise SinkError(f"page {number} has an entry outside of it")
            low, high, node_flags, key_size = _NODE.unpack_from(data, offset)
            start = offset + _NODE.size
            stop = start + key_size
            if stop > size:
                raise SinkError(f"page {number} has a key that leaves it")
            page.keys.append(data[start:stop])
            if flags == _BRANCH:
                page.children.append(low | high << 16 | node_flags << 32)
                continue
            value_size = low | high << 16
            page.sizes.append(value_size)
            if node_flags not in (0, _BIG):
                raise SinkError(f"page {number} has an entry that is not a plain value")
            if stop + (_PAGE_NUMBER.size if node_flags else value_size) > size:
                raise SinkError(f"page {number} has a value that leaves it")
            if node_flags:
                page.places.append(_PAGE_NUMBER.unpack_from(data, stop)[0])
            else:
                page.places.append(Place(number * size + stop, value_size))
        return page

    def _overflow_place(self, number: int, value_size: int) -> Place:
        size = self._meta.page_size
        pages = -(-(_PAGE.size + value_size) // size)
        if not 2 <= number <= self._meta.last_page + 1 - pages:
            raise SinkError(
                f"{pages} pages from {number} are referred to; the last one is "
                f"{self._meta.last_page}"
            )
        found = _OVERFLOW_PAGE.unpack(self._bytes(number * size, _OVERFLOW_PAGE.size))
        if found[0] != number or found[2] != _OVERFLOW or found[3] != pages:
            raise SinkError(f"page {number} is not the beginning of a value of {pages} pages")
        return Place(number * size + _PAGE.size, value_size)
