"""The images of a finished data set, as a job reads them: from its shards, copied or changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import xxhash

from dataprep.errors import ImageError, SinkError, SourceError
from dataprep.images import Prepared, Recipe, prepare
from dataprep.images.decode import raw_to_png
from dataprep.images.fingerprint import Fingerprint
from dataprep.jobs.job import SAMPLE, Job, Made, Rejected, map_in_order
from dataprep.sealed.records import Records
from dataprep.sealed.set import SealedSet, first_rows
from dataprep.sinks import ShardName
from dataprep.sinks.example import Example, pixels_of
from dataprep.system.messages import printable, unreadable
from dataprep.system.throttle import pay
from dataprep.tables import Value
from dataprep.tables.order import RECORDED_COLUMNS, shard_tables
from dataprep.tables.records import KEPT_COLUMNS
from dataprep_schemas.state import CommitRecord


class _Row(NamedTuple):
    """A row of the order: where an image is in the set, and what is known of it.

    Attributes:
        number: of its row of the set's table of records.
        kept: `dataprep.tables.records.KEPT_COLUMNS`.
        own: the data set's own columns.
    """

    labels: tuple[int, ...]
    number: int
    key: str
    container: str | None
    xxh3: str | None
    kept: tuple[Any, ...]
    own: dict[str, Value]

    @property
    def rejected(self) -> str | None:
        """Why it is not in the set; None if it is."""
        _, status, reason, *_ = self.kept
        return (reason or "") if status == "rejected" else None

    def is_of(self, example: Example) -> bool:
        """Whether an example is what the table says of it; its boxes, where the format has any."""
        found = example.key, example.labels, xxhash.xxh3_128_hexdigest(example.encoded)
        if found != (self.key, self.labels, self.xxh3):
            return False
        boxes = self.kept[KEPT_COLUMNS.index("boxes")] or ()
        return not example.boxes or np.asarray(example.boxes, np.float32).tolist() == boxes


@dataclass(frozen=True, slots=True)
class SealedImages:
    """Images of a finished data set, by shard and position.

    Attributes:
        out: its directory.
        manifest_sha256: of its manifest.
        recipe: what is done to the images; None: they stay as they are.
        decoded: whether they are stored as files there and as pixels here, or the other way round.
        max_pixels: of an image that has to be decoded.
    """

    out: Path
    manifest_sha256: str
    recipe: Recipe | None
    decoded: bool
    max_pixels: int

    @property
    def works_on_images(self) -> bool:
        """Only if they are decoded or encoded; otherwise they are merely read."""
        return self.recipe is not None or self.decoded

    def items(
        self, job: Job, shard: ShardName, pool: Executor | None, window: int
    ) -> Iterator[Made | Rejected]:
        """Every image of the shard, compared with what is known of it, in the format's form."""
        change = _Change(self.recipe, job.sink.pixels, job.info.colorspace, self.max_pixels)
        try:
            sealed = self._sealed()
            with Records(sealed, shard.split) as records:
                found = _read(job, shard, sealed, records)
                for row, example, image in map_in_order(pool, change, found, window):
                    if example is None:
                        reason = row.rejected or ""
                        yield Rejected(row.key, row.container or "", row.labels, reason, row.own)
                    else:
                        yield _made(row, example, image)
        except OSError as error:
            raise unreadable(str(self.out), error) from error

    def size_ratio(self, job: Job, shard: ShardName) -> float:
        """As a few images of the shard become; arrays as PNG are taken for as large."""
        if self.recipe is None:
            return 1.0
        change = _Change(self.recipe, job.sink.pixels, job.info.colorspace, self.max_pixels)
        source = made = 0
        sealed = self._sealed()
        with Records(sealed, shard.split) as records:
            for row, example in islice(_read(job, shard, sealed, records), SAMPLE):
                _, changed, _ = change((row, example))
                if example is not None and changed is not None:
                    source += len(example.encoded)
                    made += len(changed.encoded)
        return made / source if source else 1.0

    def check_rejected(self, job: Job, records: Iterable[CommitRecord]) -> None:
        """Nothing else can have become of them."""

    def _sealed(self) -> SealedSet:
        sealed = SealedSet.read(self.out)
        if sealed.manifest.sha256 != self.manifest_sha256:
            raise SourceError(
                f"{self.out} changed while it was read; nothing was sealed: leave it alone and run "
                "the same command again, with --overwrite if it says so"
            )
        return sealed


def _read(
    job: Job, shard: ShardName, sealed: SealedSet, records: Records
) -> Iterator[tuple[_Row, Example | None]]:
    """Rows of the shard, and their examples, of which each is read when it is asked for."""
    first = first_rows(sealed.manifest)[shard.split][0]
    for table in shard_tables(job.workspace.order, shard.split, shard.number):
        rows = _rows(table, [name for name, _ in job.attributes])
        numbers = [row.number - first for row in rows if row.rejected is None]
        examples = _examples(records, numbers)
        for row in rows:
            if row.rejected is not None:
                yield row, None
                continue
            example = next(examples, None)  # a forged shard may hold fewer
            if example is None or not row.is_of(example):
                raise SinkError(
                    f"{sealed.out}: record {row.number - first} of {shard.split}, "
                    f"{printable(row.key)}, is not what records.parquet has there; "
                    "`dataprep verify --level records` names bad files"
                )
            pay(len(example.encoded))
            yield row, example


def _rows(table: pa.Table, own: list[str]) -> list[_Row]:
    columns = (table.column(name).to_pylist() for name in ("labels", *RECORDED_COLUMNS, *own))
    rows = []
    for labels, *values in zip(*columns, strict=True):
        number, key, container, xxh3, *kept = values[: len(RECORDED_COLUMNS)]
        known = zip(own, values[len(RECORDED_COLUMNS) :], strict=True)
        attributes = {name: value for name, value in known if value is not None}
        rows.append(
            _Row(tuple(labels or ()), number, key or "", container, xxh3, tuple(kept), attributes)
        )
    return rows


def _examples(records: Records, numbers: list[int]) -> Iterator[Example]:
    """Those examples; a run of them is read from end to end."""
    start, stop = (numbers[0], numbers[-1] + 1) if numbers else (0, 0)
    if numbers == list(range(start, stop)):
        return iter(records[start:stop])
    return map(records.__getitem__, numbers)


@dataclass(frozen=True, slots=True)
class _Change:
    """What is done to each example; pickled into other processes.

    Attributes:
        pixels: whether the format stores arrays of pixels.
        colorspace: of what a recipe makes.
    """

    recipe: Recipe | None
    pixels: bool
    colorspace: str
    max_pixels: int

    def __call__(
        self, found: tuple[_Row, Example | None]
    ) -> tuple[_Row, Example | None, Prepared | None]:
        """The example as it is stored, and, of a recipe, what was made of its image."""
        row, example = found
        if example is None:
            return row, None, None
        if self.recipe is not None:
            return row, *self._prepared(example, self.recipe)
        if self.pixels and example.format != "RAW":
            encoded = pixels_of(example, self.max_pixels).tobytes()
            return row, replace(example, encoded=encoded, format="RAW"), None
        return row, example if self.pixels else _as_file(example), None

    def _prepared(self, example: Example, recipe: Recipe) -> tuple[Example, Prepared]:
        try:
            image = prepare(_as_file(example).encoded, recipe)
        except ImageError as error:
            raise SinkError(f"{printable(example.key)} cannot be converted: {error}") from error
        boxes, box_labels = image.moved(example.boxes, example.box_labels)
        changed = replace(
            example,
            encoded=image.data,
            format=image.format,
            height=image.height,
            width=image.width,
            colorspace=self.colorspace,
            boxes=boxes,
            box_labels=box_labels,
        )
        return changed, image


def _as_file(example: Example) -> Example:
    """An array of pixels as PNG, which loses nothing."""
    if example.format != "RAW":
        return example
    png = raw_to_png(example.encoded, example.height, example.width)
    return replace(example, encoded=png, format="PNG")


def _made(row: _Row, example: Example, image: Prepared | None) -> Made:
    """An example as it is stored, and what is known of it besides."""
    channels, status, reason, boxes, *seen = row.kept
    boxes = boxes or ()
    if image is not None:
        return Made(
            example,
            image.channels,
            status,
            reason,
            row.own,
            image.moved(boxes, ())[0],
            image.measured,
            image.grey,
        )
    channels = example.channels if example.format == "RAW" else channels
    looks = None if seen[0] is None else Fingerprint(*seen)
    return Made(example, channels, status, reason, row.own, boxes, None, looks)
