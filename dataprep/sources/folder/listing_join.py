"""Joins a listing with the images of archives, by path: 24 bytes a listed image in memory.

The table has a 128-bit hash of each path and where in the listing it is; what else is listed is
read from there when the image is met. For 14.2 million images it is 340 MB in every process that
scans, and 800 MB for the moment in which it is made.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import numpy as np
import numpy.typing as npt

from dataprep.index import Unmatched
from dataprep.keys import key_hash
from dataprep.sources.folder.classes import Placed
from dataprep.sources.folder.drafts import Draft
from dataprep.sources.folder.listing_entries import Entries
from dataprep.sources.folder.options import FolderOptions, ListingOptions
from dataprep.sources.folder.text_files import is_utf8
from dataprep.sources.folder.units import Container
from dataprep.wording import unreadable

Positions = npt.NDArray[np.int64]

_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class Table:
    """Where in a listing each path is.

    Attributes:
        high: uint64, shape (entries,): the first half of each path's hash, ascending.
        low: uint64, the second half.
        positions: int64, of the entry in the listing.
        bare: whether all paths are just file names; then images match by these.
    """

    high: npt.NDArray[np.uint64]
    low: npt.NDArray[np.uint64]
    positions: Positions
    bare: bool

    def find(self, paths: Sequence[str]) -> Positions:
        """The place of each path in this table, -1 where it is not listed."""
        if not paths or not len(self.high):
            return np.full(len(paths), -1, dtype=np.int64)
        high, low = _halves(b"".join(map(key_hash, paths)))
        places = np.searchsorted(self.high, high).astype(np.int64)
        # Two paths with one first half are next to each other; that there are any is unlikely.
        while True:
            inside = np.minimum(places, len(self.high) - 1)
            same = (places < len(self.high)) & (self.high[inside] == high)
            other = same & (self.low[inside] != low)
            if not other.any():
                return np.where(same, places, -1)
            places[other] += 1


def open_table(listing: ListingOptions, options: FolderOptions) -> Table:
    """The table of a listing; made once in a process, as long as the listing does not change.

    Raises:
        SourceError: the listing is unreadable, or has an empty or impossible path, or one twice.
    """
    try:
        status = listing.path.stat()
    except OSError as error:
        raise unreadable(str(listing.path), error) from error
    return _cached(listing, options, status.st_size, status.st_mtime_ns)


def join(
    container: Container, placed: Placed, table: Table, entries: Entries
) -> tuple[list[Draft], list[Unmatched]]:
    """The listed images of a container, and the others.

    An image matches by its path; an image of a class archive also by that with the archive's name
    before it. A listing of bare file names matches by these.

    Args:
        container: the folder or archive.
        placed: its images and their paths.
        table: of the listing.
        entries: the listing.

    Raises:
        SourceError: an entry is wrong; names its line.
    """
    keys = [image.name if table.bare else path for path, image in placed]
    places = table.find(keys)
    if container.stem and not table.bare:
        others = np.flatnonzero(places < 0).tolist()
        longer = [f"{container.stem}/{keys[at]}" for at in others]
        for at, place in zip(others, table.find(longer).tolist(), strict=True):
            places[at] = place
    listed = np.flatnonzero(places >= 0)
    positions = table.positions[places[listed]]
    order = np.argsort(positions, kind="stable")  # the listing is read from front to back
    listed, positions = listed[order], positions[order]
    found: list[Draft] = []
    once, firsts, counts = np.unique(positions, return_index=True, return_counts=True)
    lasts = (firsts + counts).tolist()
    read = entries.read_at(once.tolist())
    for (_, entry), first, last in zip(read, firsts.tolist(), lasts, strict=True):
        # Usually one image; that of two which match one entry is for others to refuse.
        for at in listed[first:last].tolist():
            found.append(Draft(entry.split, entry.path, placed[at][1], entry.labels, entry.group))
    unlisted = [
        Unmatched("unlisted", placed[at][0], container.path)
        for at in np.flatnonzero(places < 0).tolist()
    ]
    return found, unlisted


def missing_entries(
    table: Table, entries: Entries, splits: Sequence[str] | None, present: Iterable[str]
) -> Iterator[Unmatched]:
    """What is listed, and in the splits wanted, but is the key of no row.

    Raises:
        SourceError: an entry is wrong, or one is missing whose path is not UTF-8; names its line.
    """
    seen = np.zeros(len(table.positions), dtype=np.bool_)
    keys = iter(present)
    while batch := list(islice(keys, _AT_ONCE)):
        places = table.find(batch)
        seen[places[places >= 0]] = True
    absent = np.sort(table.positions[~seen])
    for position, entry in entries.read_at(absent.tolist()):
        if splits is None or entry.split in splits:
            if not is_utf8(entry.path):
                raise entries.not_utf8(position, entry.path)
            yield Unmatched("missing", entry.path, entries.file.name, entry.split)


@lru_cache(maxsize=1)
def _cached(listing: ListingOptions, options: FolderOptions, _size: int, _modified: int) -> Table:
    return make_table(Entries(listing, options, None))


def make_table(entries: Entries) -> Table:
    """Hash every path of a listing.

    Raises:
        SourceError: see `open_table`.
    """
    hashes = bytearray()
    positions = array("q")
    bare = True
    for position, path in entries.paths():
        hashes += key_hash(path)
        positions.append(position)
        bare = bare and "/" not in path
    high, low = _halves(hashes)
    order = np.lexsort((low, high))
    table = Table(high[order], low[order], np.asarray(positions, dtype=np.int64)[order], bare)
    _require_unique(table, entries)
    return table


def _halves(hashes: bytes | bytearray) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    pairs = np.frombuffer(hashes, dtype=np.uint64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _require_unique(table: Table, entries: Entries) -> None:
    same = (table.high[1:] == table.high[:-1]) & (table.low[1:] == table.low[:-1])
    if not same.any():
        return
    at = int(np.flatnonzero(same)[0])
    both = sorted(table.positions[at : at + 2].tolist())
    (_, entry), *_ = entries.read_at(both[:1])
    raise entries.repeated(entry.path, both)
