"""What is built, and how: everything a worker needs to make any one shard."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import msgspec

from dataprep.errors import UsageError
from dataprep.formats import DatasetInfo, ShardName, Sink
from dataprep.formats.example import Example
from dataprep.images import Measured, codec_versions
from dataprep.images.fingerprint import Fingerprint
from dataprep.images.pixels import Pixels
from dataprep.jobs.output.lock import Lease
from dataprep.jobs.output.workspace import Workspace
from dataprep.jobs.request import OutputRequest
from dataprep.options import EVERY_SPLIT
from dataprep.sealed.set import examples_of
from dataprep.system.messages import counted, sized, some_of
from dataprep.version import __version__
from dataprep_schemas.fields import Fields, Value
from dataprep_schemas.manifest import Input, Shuffle, SinkConfig, SplitName
from dataprep_schemas.state import CommitRecord

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from dataprep.tables.database import Database
    from dataprep.tables.order_parts import Sort

Item = TypeVar("Item")
Result = TypeVar("Result")

# The counts of Google's imagenet_to_gcs, which tensorflow/models' reader insists on.
_PREFERRED = {"train": 1024}
_OTHERS = 128

SAMPLE = 32
"""How many images are converted to learn how much smaller they become."""


def layout_versions(sink: Sink) -> dict[str, str]:
    """Versions of what lays the files out; pyarrow does so with the table of records."""
    return {"dataprep": __version__, "pyarrow": version("pyarrow"), **sink.versions()}


@dataclass(frozen=True, slots=True)
class SplitJob:
    """One split's share of the job.

    Attributes:
        shuffle: how the images are ordered, as the manifest says it.
        images: how many there are, before any is rejected.
        source_bytes: their size in the raw data.
    """

    name: str
    shards: int
    shuffle: Shuffle
    images: int
    source_bytes: int

    def shard_names(self) -> list[ShardName]:
        """Every shard of the split."""
        return [ShardName(self.name, number, self.shards) for number in range(self.shards)]


class Made(msgspec.Struct, frozen=True):
    """An example that is to be written, and what is known of it besides.

    Attributes:
        channels: of the image as it is stored.
        status: ``repaired`` if it is stored in another form than it came in, since not every
            reader takes that; ``warned`` if its decoder complained.
        reason: why, if it is not just stored.
        fields: what else is said of it, whether or not the format has a place for it.
        looks: a small grey version of what was decoded, or the fingerprint of it.
        extras: that had a part in it (`dataprep.images.prepare.EXTRAS`).
    """

    example: Example
    channels: int
    status: Literal["stored", "repaired", "warned"] = "stored"
    reason: str | None = None
    fields: Mapping[str, Value] = msgspec.field(default_factory=dict)
    measured: Measured | None = None
    looks: Pixels | Fingerprint | None = None
    extras: tuple[str, ...] = ()


class Rejected(msgspec.Struct, frozen=True):
    """An image that is not in the data set, and why."""

    key: str
    container: str
    labels: tuple[int, ...]
    reason: str
    fields: Mapping[str, Value] = msgspec.field(default_factory=dict)
    extras: tuple[str, ...] = ()


class Source(Protocol):
    """Where the images of a job are, and how they are read; pickled with the job."""

    @property
    def works_on_images(self) -> bool:
        """Whether other threads or processes can do most of the work of a shard."""

    def items(
        self, job: Job, shard: ShardName, pool: Executor | None, window: int
    ) -> Iterator[Made | Rejected]:
        """What becomes of every image of a shard, in the order that the job's table says.

        Args:
            pool: threads or processes that may do the work; None: the calling thread does.
            window: how many images may be in flight in the pool.

        Raises:
            SourceError: an image cannot be read or has changed since it was ordered.
        """

    def size_ratio(self, job: Job, shard: ShardName) -> float:
        """How many bytes are stored for one of the source, roughly, as in this shard."""

    def check_rejected(self, job: Job, records: Iterable[CommitRecord]) -> None:
        """Make sure that what images of these shards were rejected for is still so.

        Raises:
            SourceError: the raw data changed since; perhaps somebody has repaired it.
        """


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker is to make: an order table, a way to get the images' bytes, and a format.

    The order is in the output directory, a table a split (`dataprep.tables.order`). Pickled, so
    this holds only small, plain values.

    Attributes:
        request: what the user asked for, with absolute paths.
        info: what is true of every example.
        fields: what else is said of images, whether or not the format has a place for it.
        splits: how many shards and images each has.
        lease: what workers need to go on.
        remedy: what to do where there is no room for it.
    """

    request: OutputRequest
    info: DatasetInfo
    fields: Fields
    splits: tuple[SplitJob, ...]
    lease: Lease
    source: Source
    remedy: str = (
        "free some space, choose another output directory, or shrink the images (--resize)"
    )

    @property
    def workspace(self) -> Workspace:
        """The output directory."""
        return Workspace(self.request.out)

    @property
    def sink(self) -> Sink:
        """The format."""
        return self.request.load_sink()

    def shard_names(self) -> list[ShardName]:
        """Every shard of every split."""
        return [shard for split in self.splits for shard in split.shard_names()]

    def output_identity(self) -> dict[str, Any]:
        """What of `Identity` shapes the bytes of the output besides the examples."""
        sink = self.sink
        return {
            "num_shards": {split.name: split.shards for split in self.splits},
            "sink": SinkConfig(sink.name, dict(sink.config())),
            "examples": examples_of(self.info),
            "layout": self.request.layout,
            "versions": {**codec_versions(), **layout_versions(sink)},
        }

    def estimate_bytes(self, pending: Sequence[ShardName], ratio: float | None = None) -> int:
        """The size of these shards together.

        Exact to about 1 % where images stay as they are or become arrays.

        Args:
            ratio: how many bytes are stored for one of the source; None: as in the first of them.
        """
        images = size = 0.0
        for split in self.splits:
            part = sum(shard.split == split.name for shard in pending) / split.shards
            images += split.images * part
            size += split.source_bytes * part
        if self.sink.pixels and self.info.size is not None:
            height, width = self.info.size
            size = images * height * width * self.info.channels * self.sink.value_bytes
        else:
            size *= self.source.size_ratio(self, pending[0]) if ratio is None else ratio
        return int(size + images * self.sink.overhead)

    def is_ordered(self, token: str) -> bool:
        """Whether the images of all splits are in order; see `put_in_order`."""
        from dataprep.tables.order import order_is_current

        order = self.workspace.order
        return all(order_is_current(order, split.name, token) for split in self.splits)

    def put_in_order(self, token: str, ordered: Callable[[SplitJob], Iterable[pa.Table]]) -> None:
        """Put the images of the splits in order that are not yet.

        Args:
            token: identifies what the order is made from.
            ordered: the images of a split, as `dataprep.tables.order.write_order` takes them.
        """
        # Imported late: it loads Arrow.
        from dataprep.tables.order import order_is_current, write_order

        order = self.workspace.order
        for split in self.splits:
            if not order_is_current(order, split.name, token):
                write_order(order, ordered(split), split.name, split.images, split.shards, token)

    def shuffle(
        self,
        token: str,
        database: Database,
        columns: str,
        seed: int,
        *,
        index: Sequence[Path] = (),
        sort: Callable[[Sort], None] | None = None,
    ) -> None:
        """Put the images in order as each split is shuffled.

        Args:
            database: the images, as `dataprep.tables.order.shuffled` takes them.
            columns: what is kept of them, as SQL.
            index: where all of them are; empty if more than one table says which they are.
            sort: has workers do a step of putting very many in order.
        """
        from dataprep.tables.order import shuffled

        if index and sort is not None:
            self._sort_in_parts(token, database, columns, seed, index, sort)
        self.put_in_order(
            token,
            lambda it: shuffled(database, it.name, it.images, it.shards, it.shuffle, seed, columns),
        )

    def _sort_in_parts(
        self,
        token: str,
        database: Database,
        columns: str,
        seed: int,
        index: Sequence[Path],
        sort: Callable[[Sort], None],
    ) -> None:
        """Have workers put the splits in order that have very many images."""
        from dataprep.tables import order_parts as parts
        from dataprep.tables.order import order_is_current

        large = [it for it in self.splits if it.images >= parts.LARGE]
        slices = parts.slices_of(index) if large else ()
        order = self.workspace.order
        for it in large:
            ranges = parts.ranges_for(it.images, it.shards, len(slices))
            if ranges and not order_is_current(order, it.name, token):
                about = (it.name, it.images, it.shards, it.shuffle, seed, token, columns)
                first = parts.Sort(self.workspace.private, *about, slices, ranges)
                parts.write_order_in_parts(database, order, first, sort)


def map_in_order(
    pool: Executor | None, function: Callable[[Item], Result], items: Iterable[Item], window: int
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


def kept_info(info: DatasetInfo, sink: Sink, report: Callable[[str], None]) -> DatasetInfo:
    """What is true of the examples once the format holds them.

    Raises:
        UsageError: the format cannot hold such a data set.
    """
    sink.check(info)
    kept = tuple(field for field in info.fields if field.kind in sink.keeps)
    if lost := [field.name for field in info.fields if field not in kept]:
        report(f"sink {sink.name} has no place for {some_of(lost)}: left out")
    return replace(info, fields=kept)


def choose_shard_count(
    split: str, images: int, request: OutputRequest, info: DatasetInfo, *, like: int | None = None
) -> int:
    """The count that was asked for, or the one that the format's users expect.

    Args:
        like: the count to take if none was asked for and the format allows it.

    Raises:
        UsageError: it does not fit the number of images, or the format's limits.
    """
    sink = request.load_sink()
    most = sink.most_images(info)
    if most == 0:
        raise UsageError(
            f"one such image is more than a file of {sink.name} can hold; make images smaller "
            "(--resize, --center_crop), or choose another --sink"
        )
    least = 1 if most is None else math.ceil(images / most)
    asked = _asked(split, request)
    if asked is None:
        return max(like or default_shard_count(images, _preferred(split, sink)), least)
    if not least <= asked <= images or asked < 1:
        why = f" (a shard of {sink.name} holds at most {most:,} such images)" if least > 1 else ""
        raise UsageError(
            f"--num_shards {split}={asked}: {split} has {counted(images, 'image')}; expected "
            f"{least} to {images}{why}, so that no shard is empty"
        )
    return asked


def split_job(
    name: str, found: Input, shuffle: Shuffle, request: OutputRequest, info: DatasetInfo
) -> SplitJob:
    """A split of these images; `choose_shard_count` says what it raises."""
    shards = choose_shard_count(name, found.images, request, info)
    return SplitJob(name, shards, shuffle, found.images, found.bytes)


def describe_splits(job: Job, official: Mapping[str, int]) -> Iterator[str]:
    """A line for the user on each split.

    Args:
        official: how many images each split of the complete data set has, where known.
    """
    for split in job.splits:
        text = f"{split.name}: {counted(split.images, 'image')}"
        complete = official.get(split.name, split.images)
        if complete != split.images:
            text += f" of the official {complete:,}"
        text += f", {sized(split.source_bytes)}, in {counted(split.shards, 'shard')}"
        preferred = _preferred(split.name, job.sink)
        if split.shards < preferred and _asked(split.name, job.request) is None:
            text += f" (fewer than the default {preferred}, so that each holds at least 100)"
        yield f"{text}, shuffle {split.shuffle}"


def default_shard_count(count: int, preferred: int, *, smallest: int = 100) -> int:
    """The shard count to use where the user gave none.

    ``preferred`` where that gives at least ``smallest`` examples a shard, else the largest
    power of two that does, and never less than 1.
    """
    if count >= preferred * smallest:
        return preferred
    fitting = max(count // smallest, 1)
    return int(1 << (fitting.bit_length() - 1))


def _asked(split: str, request: OutputRequest) -> int | None:
    wanted = request.num_shards or {}
    return wanted.get(split, wanted.get(EVERY_SPLIT))


def _preferred(split: str, sink: Sink) -> int:
    preferred = _PREFERRED.get(split, _OTHERS)
    return preferred if sink.usual_shards is None else min(preferred, sink.usual_shards)


def is_split(name: str | None) -> bool:
    """Whether a split may be called so: files are named after it."""
    try:
        msgspec.convert(name, SplitName)
    except msgspec.ValidationError:
        return False
    return True
