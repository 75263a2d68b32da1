"""What is built, and how: everything a worker needs to make any one shard."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from dataprep import __version__
from dataprep.build.lock import Lease
from dataprep.build.manifest import describe_info
from dataprep.build.request import EVERY_SPLIT, OutputRequest
from dataprep.build.workspace import Workspace
from dataprep.errors import UsageError
from dataprep.images import Measured, codec_versions
from dataprep.index import Value
from dataprep.plugins import load_sink
from dataprep.sinks import DatasetInfo, Layout, ShardName, Sink
from dataprep.sinks.example import Example
from dataprep.system.messages import counted, some_of

if TYPE_CHECKING:
    from dataprep_schemas.tables import Kind

Item = TypeVar("Item")
Result = TypeVar("Result")

# The counts of Google's imagenet_to_gcs, which tensorflow/models' reader insists on.
_PREFERRED = {"train": 1024}
_OTHERS = 128


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
    """What a worker is to make. Pickled, so it holds only small, plain values."""

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

    def output_identity(self) -> dict[str, object]:
        """What shapes the bytes of the output besides the examples; nothing of this machine."""
        sink, info = self.output.load_sink(), self.output.info
        return {
            "num_shards": {split.name: split.shards for split in self.splits},
            "sink": {"name": sink.name, "config": dict(sink.config())},
            "examples": describe_info(info),
            "layout": self.output.layout,
            "versions": {"dataprep": __version__, **codec_versions(), **sink.versions()},
        }

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

    # A job without raw data rejects nothing.

    def check_rejected(self, shard: ShardName, keys: Collection[str]) -> None:  # noqa: B027
        """Make sure that what images of a shard were rejected for is still so.

        Raises:
            SourceError: the raw data changed since; perhaps somebody has repaired it.
        """

    def read_rejected(
        self,
        shard: ShardName,  # noqa: ARG002
        keys: Collection[str],  # noqa: ARG002
    ) -> Iterable[tuple[str, bytes]]:
        """Key and bytes of rejected images of a shard.

        Raises:
            SourceError: they cannot be read any more.
        """
        return ()


def map_in_order(
    pool: Executor | None,
    function: Callable[[Item], Result],
    items: Iterable[Item],
    window: int,
) -> Iterator[Result]:
    """``map``, in order, with at most ``window`` calls submitted and not yet consumed."""
    if pool is None:
        yield from map(function, items)
        return
    pending: deque[Future[Result]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) >= window:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()


def plan_output(
    request: OutputRequest,
    info: DatasetInfo,
    attributes: tuple[tuple[str, Kind], ...],
    report: Callable[[str], None],
) -> Output:
    """Where the shards go, with what their format can hold of the examples.

    Args:
        request: what the user asked for.
        info: what is true of every example.
        attributes: name and kind of what else is known of images.
        report: told what the format has no place for.

    Raises:
        UsageError: the format cannot hold such a data set.
    """
    sink = load_sink(request.sink, request.sink_options)
    sink.check(info)
    kept, lines = dropped_fields(info, sink)
    for line in lines:
        report(line)
    return Output(
        workspace=Workspace(request.out.absolute()),
        sink=request.sink,
        sink_options=request.sink_options,
        layout=request.layout,
        info=kept,
        attributes=attributes,
        build_dir=request.build_dir and request.build_dir.absolute(),
    )


def dropped_fields(info: DatasetInfo, sink: Sink) -> tuple[DatasetInfo, tuple[str, ...]]:
    """What is true of the examples once the format holds them.

    Args:
        info: what is true of them before.
        sink: the format.

    Returns:
        The same without what is lost, and a line for the user on each kind of it.
    """
    lines = []
    if info.boxes and not sink.keeps_boxes:
        info = replace(info, boxes=False)
        lines.append(_dropped(sink, "bounding boxes"))
    if info.attributes and not sink.keeps_attributes:
        lines.append(_dropped(sink, some_of([name for name, _ in info.attributes])))
        info = replace(info, attributes=())
    return info, tuple(lines)


def _dropped(sink: Sink, what: str) -> str:
    return f"sink {sink.name} has no place for {what}: they are left out"


def choose_shard_count(
    split: str,
    images: int,
    wanted: Mapping[str, int] | None,
    output: Output,
    *,
    like: int | None = None,
) -> int:
    """The count that was asked for, or the one that the format's users expect.

    Args:
        split: its name.
        images: how many it has.
        wanted: what the user asked for, if anything.
        output: the format, and what is true of every example.
        like: the count to take if none was asked for and the format allows it.

    Raises:
        UsageError: it does not fit the number of images, or the format's limits.
    """
    sink = output.load_sink()
    most = sink.most_images(output.info)
    if most == 0:
        raise UsageError(f"one such image is more than a file of {sink.name} can hold")
    least = 1 if most is None else math.ceil(images / most)
    asked = _asked(split, wanted)
    if asked is None:
        return max(like or default_shard_count(images, _preferred(split, sink)), least)
    check_shard_count(images, asked, split)
    if asked < least:
        raise UsageError(
            f"--num_shards {split}={asked}: a shard of {sink.name} holds at most {most:,} such "
            f"images, so {split} needs at least {least} shards"
        )
    return asked


def explain_shard_count(
    split: str, shards: int, wanted: Mapping[str, int] | None, output: Output
) -> str:
    """Why there are fewer shards than the readers of the field expect, if so."""
    preferred = _preferred(split, output.load_sink())
    if shards >= preferred or _asked(split, wanted) is not None:
        return ""
    return f" (fewer than the default {preferred}, so that each holds at least 100)"


def check_shard_count(count: int, shards: int, split: str) -> None:
    """Refuse a shard count that would leave a shard empty.

    Raises:
        UsageError: with the count that would work in its text.
    """
    if shards < 1:
        raise UsageError(f"--num_shards {split}={shards}: a split needs at least 1 shard")
    if shards > count:
        raise UsageError(
            f"--num_shards {split}={shards}: {split} has {counted(count, 'image')}, so "
            f"{counted(shards - count, 'shard')} would be empty; use at most {split}={count}"
        )


def default_shard_count(count: int, preferred: int, *, smallest: int = 100) -> int:
    """The shard count to use where the user gave none.

    ``preferred`` where that gives at least ``smallest`` examples a shard, else the largest
    power of two that does, and never less than 1.
    """
    if count >= preferred * smallest:
        return preferred
    fitting = max(count // smallest, 1)
    return int(1 << (fitting.bit_length() - 1))


def _asked(split: str, wanted: Mapping[str, int] | None) -> int | None:
    return None if wanted is None else wanted.get(split, wanted.get(EVERY_SPLIT))


def _preferred(split: str, sink: Sink) -> int:
    preferred = _PREFERRED.get(split, _OTHERS)
    return preferred if sink.usual_shards is None else min(preferred, sink.usual_shards)
