"""Shards handed out one by one to the processes of one machine, each as it gets free.

Beam divides what a graph is given among its processes in advance: one that is slow would keep its
portion while others have nothing to do.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dataprep.sinks import ShardName
from dataprep.system.shared_bytes import Place, SharedBytes

_NEXT = struct.Struct("=Q")


@dataclass(frozen=True, slots=True)
class Dealer:
    """Pickled into every process; all take from the same shards.

    Attributes:
        place: of the next position.
        shards: all there are.
    """

    place: Place
    shards: tuple[ShardName, ...]

    def deal(self, when: Callable[[], None] = lambda: None) -> Iterator[ShardName]:
        """One shard after another that nobody else gets; none if the launcher is gone.

        Args:
            when: returns when the next one could be begun at once.
        """
        shared = self.place.open()
        while shared is not None:
            when()
            if (position := _take(shared)) >= len(self.shards):
                return
            yield self.shards[position]


@contextmanager
def dealing(shards: Sequence[ShardName]) -> Iterator[Dealer]:
    """A dealer for as long as this lasts, or this process.

    Raises:
        PipelineError: there is no memory to share.
    """
    shared = SharedBytes.new(_NEXT.pack(0))
    yield Dealer(shared.place, tuple(shards))


def _take(shared: SharedBytes) -> int:
    with shared.locked():
        position: int = _NEXT.unpack(shared.read(_NEXT.size))[0]
        shared.write(_NEXT.pack(position + 1))
        return position
