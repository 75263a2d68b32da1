"""The plug: what a format must be able to do. A sink never knows which data set it writes.

Two sinks may share a name only if each reads what the other wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar, Literal, Protocol

from dataprep.example import Example

Layout = Literal["split", "flat"]


@dataclass(frozen=True, slots=True)
class ShardName:
    """Which shard of which split; what file names are made of."""

    split: str
    number: int
    count: int

    def __str__(self) -> str:
        """The TPU script's name, ``train-00000-of-01024``: zero-based, no extension."""
        return f"{self.split}-{self.number:05d}-of-{self.count:05d}"


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """What a finished file must be, for ever."""

    bytes: int
    sha256: str


class ShardWriter(Protocol):
    """Appends examples to one shard; used by one thread."""

    def write(self, example: Example) -> None:
        """Append one example, in deck order."""

    def close(self) -> Sequence[WrittenFile]:
        """Finish the files, flush them to the disk, and describe them in `Sink.paths` order."""

    def abandon(self) -> None:
        """Release the file handles and write nothing more; called instead of `close`."""


class Sink(Protocol):
    """A format.

    A sink is given paths, not handles, because some formats (LMDB, HDF5) must open their own
    files. The paths are temporary; publishing them under their final names is not its job.
    """

    name: ClassVar[str]

    def config(self) -> Mapping[str, object]:
        """The options that shape the bytes, as JSON; kept in the manifest."""

    def paths(self, shard: ShardName, layout: Layout) -> Sequence[PurePosixPath]:
        """The shard's files relative to the output directory: the data first, then sidecars."""

    def overhead(self) -> int:
        """Bytes that the format adds to one image, roughly; for the free-space estimate."""

    def open(self, paths: Sequence[Path]) -> ShardWriter:
        """Start a shard in these files, which do not exist yet but whose directories do."""

    def read(self, paths: Sequence[Path]) -> Iterator[Example]:
        """The examples of a shard in order, checking whatever the format lets one check.

        Raises:
            SinkError: the files are damaged, naming the record and the byte offset.
        """
