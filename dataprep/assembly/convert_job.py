"""The job of a finished data set that is to be had in another format too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from dataprep.assembly.commit import Rejected
from dataprep.assembly.in_order import map_in_order
from dataprep.assembly.job import Job, Made
from dataprep.dataset import Records
from dataprep.errors import ImageError, SinkError
from dataprep.example import Example
from dataprep.images.decode import raw_to_png, to_pixels
from dataprep.manifest import manifest_sink, read_manifest
from dataprep.sinks import ShardName
from dataprep.wording import printable


@dataclass(frozen=True, slots=True)
class ConvertJob(Job):
    """Makes shards of consecutive examples of a finished data set.

    Attributes:
        source: the directory that holds its manifest.
        max_pixels: of an image that has to be decoded.
    """

    source: Path
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
        records = Records(self.source, shard.split)
        start, stop = run_of(shard, len(records))
        change = partial(_changed, pixels=self.output.load_sink().pixels, most=self.max_pixels)
        for example in map_in_order(pool, change, records.between(start, stop), window):
            yield Made(example)

    def estimate_bytes(self, pending: Sequence[ShardName]) -> int:
        """Exact to the format's overhead if the images stay as they are, or become arrays."""
        overhead, each = self.output.load_sink().overhead(), self.output.array_bytes()
        total = 0
        for split in self.splits:
            numbers = [shard for shard in pending if shard.split == split.name]
            images = sum(stop - start for start, stop in (run_of(n, split.images) for n in numbers))
            size = split.source_bytes / split.images if each is None else each
            total += int(images * (size + overhead))
        return total

    def keep_rejected(
        self, rejected: Sequence[tuple[str, Rejected]], keep: Callable[[str, str, bytes], None]
    ) -> None:
        """Nothing is ever rejected here."""


def run_of(shard: ShardName, records: int) -> tuple[int, int]:
    """The numbers of a shard's first example and of the one behind its last.

    Of ``records`` examples in consecutive runs whose sizes differ by at most 1.
    """
    return shard.number * records // shard.count, (shard.number + 1) * records // shard.count


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
