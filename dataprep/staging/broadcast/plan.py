"""In which order a broadcast's parcels travel, and which node reads each."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dataprep.staging.inventory import SourceFile


@dataclass(frozen=True, slots=True)
class Parcel:
    """What travels at a time.

    Attributes:
        file: of which it is.
        offset: where it begins in the file.
        length: in bytes; 0 if the file is empty.
        lane: the file's place among those that travel at the same time.
        reader: index of the node that reads it.
    """

    file: SourceFile
    offset: int
    length: int
    lane: int
    reader: int

    @property
    def is_last(self) -> bool:
        """Whether the file ends with it."""
        return self.offset + self.length == self.file.bytes


_PARCELS_A_RUN = 8


def run_bytes(files: int, *, lanes: int, length: int) -> int:
    """Bytes of a file that one node reads in a row.

    Long runs read better, and when as many files as lanes take turns, so do the nodes that send.
    With fewer files they would not, and most links would wait for one.

    Args:
        files: how many travel.
        lanes: as for `parcels`.
        length: as for `parcels`.
    """
    return length * (_PARCELS_A_RUN if files >= lanes else 1)


def parcels(
    files: Iterable[SourceFile], *, readers: int, lanes: int, length: int, run: int
) -> Iterator[Parcel]:
    """Every parcel of every file, in the order in which they travel; the same on every node.

    The parcels of one file come in their order; those of as many files as there are lanes take
    turns, so that a node can hash and write several files at the same time. A run of parcels of one
    file has the same reader: the one who has been given the least so far. So small files are dealt
    over the nodes whole, and a large one in runs.

    Args:
        files: what travels.
        readers: how many nodes read.
        lanes: how many files travel at the same time.
        length: of a parcel, in bytes; the last one of a file is shorter.
        run: `run_bytes`.
    """
    loads = [(0, reader) for reader in range(readers)]  # a heap

    def cut(file: SourceFile, lane: int) -> Iterator[Parcel]:
        reader = 0
        for offset in range(0, max(file.bytes, 1), length):
            if offset % run == 0:
                load, reader = loads[0]
                # An empty file is work as well.
                heapq.heapreplace(loads, (load + max(1, min(run, file.bytes - offset)), reader))
            yield Parcel(file, offset, min(length, file.bytes - offset), lane, reader)

    waiting = iter(files)
    under_way: dict[int, Iterator[Parcel]] = dict.fromkeys(range(lanes), iter(()))
    while under_way:
        for lane in list(under_way):
            parcel = next(under_way[lane], None)
            if parcel is None:
                file = next(waiting, None)
                if file is None:
                    del under_way[lane]
                    continue
                under_way[lane] = cut(file, lane)
                parcel = next(under_way[lane])
            yield parcel
