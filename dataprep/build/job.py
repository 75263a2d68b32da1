"""What is built, and how: everything a worker needs to make any one shard."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dataprep.build.lock import Lease
from dataprep.build.workspace import Workspace
from dataprep.images import Measured
from dataprep.index import Value
from dataprep.plugins import load_sink
from dataprep.sinks import DatasetInfo, Layout, ShardName, Sink
from dataprep.sinks.example import Example

if TYPE_CHECKING:
    from dataprep_schemas.tables import Kind


@dataclass(frozen=True, slots=True)
class SplitJob:
    """One split's share of the job.

    Attributes:
        shuffle: how the images are ordered, as the manifest says it.
        images: how many there are, before any is rejected.
        source_bytes: their size in the raw data.
        digest: of the raw images; see `dataprep.build.summary.SplitSummary`.
    """

    name: str
    shards: int
    shuffle: str
    images: int
    source_bytes: int
    digest: str

    def shard_names(self) -> list[ShardName]:
        """Every shard of the split."""
        return [ShardName(self.name, number, self.shards) for number in range(self.shards)]


@dataclass(frozen=True, slots=True)
class Output:
    """Where the shards go, and in which format.

    Attributes:
        sink: the format's name.
        sink_options: the format's options.
        info: what is true of every example.
        build_dir: where formats that are not written from front to back are built, if the user
            said so; otherwise each worker decides.
        attributes: name and kind of what else is known of images, whether or not the format has a
            place for it.
    """

    workspace: Workspace
    sink: str
    sink_options: Mapping[str, str]
    layout: Layout
    info: DatasetInfo
    build_dir: Path | None = None
    attributes: tuple[tuple[str, Kind], ...] = ()

    def load_sink(self) -> Sink:
        """The format."""
        return load_sink(self.sink, self.sink_options)

    def array_bytes(self) -> int | None:
        """What every image takes in a format that stores pixels; None in the others."""
        sink, info = self.load_sink(), self.info
        if not sink.pixels or info.size is None:
            return None
        return info.size[0] * info.size[1] * info.channels * sink.value_bytes


@dataclass(frozen=True, slots=True)
class Made:
    """An example that is to be written, and what is known of it besides.

    Attributes:
        channels: of the image as it is stored.
        status: ``repaired`` if it is stored in another form than it came in, since not every
            reader takes that; ``warned`` if its decoder complained.
        reason: why, if it is not just stored.
        attributes: what else is known of it, whether or not the format has a place for it.
        measured: for the data set's statistics.
    """

    example: Example
    channels: int
    status: Literal["stored", "repaired", "warned"] = "stored"
    reason: str | None = None
    attributes: Mapping[str, Value] = field(default_factory=dict)
    measured: Measured | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """An image that is not in the data set, and why."""

    key: str
    container: str
    labels: tuple[int, ...]
    reason: str
    attributes: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Job(ABC):
    """A worker's orders. Pickled, so it holds only small, plain values."""

    output: Output
    splits: tuple[SplitJob, ...]
    lease: Lease

    @property
    def workspace(self) -> Workspace:
        """The output directory."""
        return self.output.workspace

    def shard_names(self) -> list[ShardName]:
        """Every shard of every split."""
        return [shard for split in self.splits for shard in split.shard_names()]

    @property
    @abstractmethod
    def works_on_images(self) -> bool:
        """Whether other threads or processes can do most of the work of a shard."""

    @abstractmethod
    def items(
        self, shard: ShardName, pool: Executor | None, window: int
    ) -> Iterator[Made | Rejected]:
        """What becomes of every image of a shard, in writing order.

        Args:
            shard: which shard.
            pool: threads or processes that may do the work; None: the calling thread does.
            window: how many images may be in flight in the pool.

        Raises:
            SourceError: an image cannot be read or has changed since it was indexed.
        """

    @abstractmethod
    def estimate_bytes(self, pending: Sequence[ShardName]) -> int:
        """The size of these shards together, roughly."""

    def check_rejected(  # noqa: B027  # a job without raw data has none
        self, rejected: Iterable[tuple[ShardName, Collection[str]]]
    ) -> None:
        """Make sure that what images were rejected for is still so.

        Args:
            rejected: shards, and the keys of their rejected images.

        Raises:
            SourceError: the raw data changed since; perhaps somebody has repaired it.
        """

    @abstractmethod
    def keep_rejected(
        self,
        rejected: Iterable[tuple[ShardName, Collection[str]]],
        keep: Callable[[str, str, bytes], None],
    ) -> None:
        """Hand over the bytes of rejected images, given by key: ``keep(split, key, bytes)``.

        Raises:
            SourceError: they cannot be read any more.
        """
