"""The job of a finished data set that is to be had in another format too."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal

from dataprep.build.finished_split import FinishedSplit
from dataprep.build.in_order import map_in_order
from dataprep.build.job import Job, Made, Rejected
from dataprep.build.manifest import manifest_sink, read_manifest
from dataprep.errors import ImageError, SinkError, SourceError
from dataprep.images.decode import raw_to_png, to_pixels
from dataprep.index import Value
from dataprep.index.records import RecordsTable, first_rows
from dataprep.sinks import ShardName
from dataprep.sinks.example import Example
from dataprep.system.messages import printable, unreadable
from dataprep.system.throttle import pay

_KEPT: Final = ("channels", "status", "reason")  # of a row of the source


@dataclass(frozen=True, slots=True)
class ConvertJob(Job):
    """Makes shards of consecutive examples of a finished data set.

    Attributes:
        source: the directory that holds its manifest.
        manifest_sha256: of that manifest.
        max_pixels: of an image that has to be decoded.
    """

    source: Path
    manifest_sha256: str
    max_pixels: int

    @property
    def works_on_images(self) -> bool:
        """Only if they are decoded or encoded; otherwise they are merely read."""
        source = manifest_sink(read_manifest(self.source))
        return source.pixels != self.output.load_sink().pixels

    def items(
        self, shard: ShardName, pool: Executor | None, window: int
    ) -> Iterator[Made | Rejected]:
        """The shard's run of examples, in the form that the format stores."""
        change = partial(_changed, pixels=self.output.load_sink().pixels, most=self.max_pixels)
        try:
            records = FinishedSplit(self.source, shard.split)
            with RecordsTable(self.source) as table:
                if records.manifest["sha256"] != self.manifest_sha256:
                    raise changed_meanwhile(self.source)
                start, stop = run_of(shard, records.ends)
                first = first_rows(records.manifest)[shard.split][0]
                columns = (*_KEPT, *(name for name, _ in self.output.attributes))
                rows = table.rows(first + start, first + stop, columns)
                run = _paid(records.between(start, stop))
                made = map_in_order(pool, change, run, window)
                for example, row in zip(made, rows, strict=True):
                    yield self._made(example, *row)
        except OSError as error:
            raise unreadable(str(self.source), error) from error

    def estimate_bytes(self, pending: Sequence[ShardName]) -> int:
        """Exact to the format's overhead if the images stay as they are, or become arrays.

        Arrays that become PNG are taken for as large as they were.
        """
        overhead, each = self.output.load_sink().overhead(), self.output.array_bytes()
        total = 0
        for split in self.splits:
            numbers = [shard for shard in pending if shard.split == split.name]
            images = split.images * len(numbers) // split.shards
            size = split.source_bytes / split.images if each is None else each
            total += int(images * (size + overhead))
        return total

    def keep_rejected(
        self,
        rejected: Iterable[tuple[ShardName, Collection[str]]],
        keep: Callable[[str, str, bytes], None],
    ) -> None:
        """Nothing is ever rejected here."""

    def _made(
        self,
        example: Example,
        channels: int,
        status: Literal["stored", "repaired", "warned"],
        reason: str | None,
        *values: Value | None,
    ) -> Made:
        """With what the table of the source says of it."""
        named = zip((name for name, _ in self.output.attributes), values, strict=True)
        return Made(
            example,
            example.channels if example.format == "RAW" else channels,
            status,
            reason,
            {name: value for name, value in named if value is not None},
        )


def run_of(shard: ShardName, ends: Sequence[int]) -> tuple[int, int]:
    """The numbers of a shard's first example and of the one behind its last.

    Args:
        shard: one of the new shards.
        ends: of each shard that there is, the number behind its last example. As many new shards
            get the same examples; another number gets runs whose sizes differ by at most 1, the
            longer ones first, as they are dealt.
    """
    if shard.count == len(ends):
        return (ends[shard.number - 1] if shard.number else 0), ends[shard.number]
    size, longer = divmod(ends[-1], shard.count)
    start = shard.number * size + min(shard.number, longer)
    return start, start + size + (shard.number < longer)


def changed_meanwhile(source: Path) -> SourceError:
    """What to tell the user when the data set is another than at the beginning."""
    return SourceError(
        f"{source} changed while it was converted; nothing was sealed: leave it alone and run "
        "again with --overwrite"
    )


def _paid(examples: Iterator[Example]) -> Iterator[Example]:
    """The examples, of which each is read when it is asked for."""
    for example in examples:
        pay(len(example.encoded))
        yield example


def _changed(example: Example, *, pixels: bool, most: int) -> Example:
    if pixels == (example.format == "RAW"):
        return example
    if not pixels:  # losing nothing
        png = raw_to_png(example.encoded, example.height, example.width)
        return replace(example, encoded=png, format="PNG")
    try:
        found = to_pixels(
            example.encoded,
            example.format,
            example.height,
            example.width,
            "gray" if example.colorspace == "Grayscale" else "rgb",
            most,
        )
    except ImageError as error:
        raise SinkError(f"{printable(example.key)} cannot be decoded: {error}") from error
    return replace(example, encoded=found.tobytes(), format="RAW")
