"""Shards handed out one by one to the processes of one machine, each as it gets free.

Beam divides what a graph is given among its processes in advance: one that is slow would keep its
portion while others have nothing to do.
"""

from __future__ import annotations

import fcntl
import os
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dataprep.sinks import ShardName

_MEMORY = "/dev/shm"  # noqa: S108  # not for a file that anybody could find there
_NEXT = struct.Struct("=Q")


@dataclass(frozen=True, slots=True)
class Dealer:
    """Pickled into every process; all take from the same shards.

    Attributes:
        place: where the launcher has the open, nameless file that holds the next position.
        shards: all there are.
    """

    place: str
    shards: tuple[ShardName, ...]

    def deal(self, when: Callable[[], None] = lambda: None) -> Iterator[ShardName]:
        """One shard after another that nobody else gets.

        Args:
            when: returns when the next one could be begun at once.
        """
        try:
            descriptor = os.open(self.place, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # the launcher is gone, and this process is about to notice
        try:
            while True:
                when()
                if (position := _take(descriptor)) >= len(self.shards):
                    return
                yield self.shards[position]
        finally:
            os.close(descriptor)


@contextmanager
def dealing(shards: Sequence[ShardName]) -> Iterator[Dealer]:
    """A dealer for as long as this lasts, or this process."""
    with tempfile.TemporaryFile(
        dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None, buffering=0
    ) as file:
        file.write(_NEXT.pack(0))
        yield Dealer(f"/proc/{os.getpid()}/fd/{file.fileno()}", tuple(shards))


def _take(descriptor: int) -> int:
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        position: int = _NEXT.unpack(os.pread(descriptor, _NEXT.size, 0))[0]
        os.pwrite(descriptor, _NEXT.pack(position + 1), 0)
        return position
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
