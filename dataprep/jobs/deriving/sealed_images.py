"""The images of finished data sets, as a job reads them: from their shards, copied or changed."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
import xxhash

from dataprep.errors import ImageError, SinkError, SourceError
from dataprep.formats import DatasetInfo, ShardName, ShardReader
from dataprep.formats.example import Example, pixels_of
from dataprep.images import Prepared, Recipe, prepare
from dataprep.images.decode import raw_to_png
from dataprep.images.fingerprint import Fingerprint
from dataprep.jobs.running.job import SAMPLE, Job, Made, Rejected, map_in_order
from dataprep.sealed.set import SealedSet, first_rows
from dataprep.sealed.split import FinishedSplit
from dataprep.system.messages import printable, unreadable
from dataprep.system.throttle import pay
from dataprep.tables.order import shard_tables
from dataprep.tables.records import KEPT_COLUMNS
from dataprep.tables.selection import RECORDED_COLUMNS, renumbered
from dataprep_schemas.fields import BOX_LABELS, UNCERTAIN, Fields, Value, named, recorded
from dataprep_schemas.state import CommitRecord

_AHEAD: Final = 64  # images that are read together, and are in memory


class _Ordered(NamedTuple):
    """A row of the order: where an image is in its set, and what is known of it.

    Attributes:
        number: of its row of that set's table of records.
        stored_key: its key there, if it is to have another.
        stored_labels: its labels there, likewise.
        kept: `dataprep.tables.records.KEPT_COLUMNS`.
    """

    labels: tuple[int, ...]
    source: int
    number: int
    stored_key: str | None
    stored_labels: list[int] | None
    key: str
    container: str | None
    xxh3: str | None
    kept: tuple[Any, ...]
    fields: Mapping[str, Value]

    @property
    def rejected(self) -> str | None:
        """Why it is not in the set; None if it is."""
        _, status, reason, *_ = self.kept
        return (reason or "") if status == "rejected" else None

    def is_of(self, example: Example, fields: Fields) -> bool:
        """Whether an example is what the table says; its fields, as far as the format has them."""
        key = self.key if self.stored_key is None else self.stored_key
        labels = self.labels if self.stored_labels is None else tuple(self.stored_labels)
        found = example.key, example.labels, xxhash.xxh3_128_hexdigest(example.encoded)
        return found == (key, labels, self.xxh3) and all(
            field.rules.same(example.fields[field.name], self.fields.get(field.name))
            for field in fields
            # Who got other labels is certain of them.
            if field.name in example.fields and (field != UNCERTAIN or field.name in self.fields)
        )


_Changed: TypeAlias = tuple[_Ordered, Example | None, Prepared | None]


@dataclass(frozen=True, slots=True)
class SourceSet:
    """A finished data set that images are taken from."""

    out: Path
    manifest_sha256: str

    def read(self) -> SealedSet:
        """The set, which must be what it was.

        Raises:
            SourceError: it is not.
        """
        sealed = SealedSet.read(self.out)
        if sealed.manifest.sha256 != self.manifest_sha256:
            raise SourceError(
                f"{self.out} changed while it was read; nothing was sealed: leave it alone and run "
                "the same command again, with --overwrite if it says so"
            )
        return sealed


@dataclass(frozen=True, slots=True)
class SealedImages:
    """Images of finished data sets, by shard and position.

    Attributes:
        recipe: what is done to the images; None: they stay as they are.
        decoded: whether any are stored as files there and as pixels here, or the other way round.
        max_pixels: of an image that has to be decoded.
        renamed: what classes are called, by what the sets call them, where that differs.
    """

    sources: tuple[SourceSet, ...]
    recipe: Recipe | None
    decoded: bool
    max_pixels: int
    renamed: Mapping[str, str] = field(default_factory=dict)

    @property
    def works_on_images(self) -> bool:
        """Only if they are decoded or encoded; otherwise they are merely read."""
        return self.recipe is not None or self.decoded

    def items(
        self, job: Job, shard: ShardName, pool: Executor | None, window: int
    ) -> Iterator[Made | Rejected]:
        """Every image of the shard, compared with what is known of it, in the format's form."""
        try:
            with self._opened(job) as sets:
                found = sets.read(job, shard)
                for row, example, image in map_in_order(pool, self._change(job), found, window):
                    if example is None:
                        reason = row.rejected or ""
                        yield Rejected(row.key, row.container or "", row.labels, reason, row.fields)
                    else:
                        yield _made(row, example, image)
        except OSError as error:
            raise unreadable(str(self.sources[0].out), error) from error

    def size_ratio(self, job: Job, shard: ShardName) -> float:
        """As a few images of the shard become; arrays as PNG are taken for as large."""
        if self.recipe is None:
            return 1.0
        change, source, made = self._change(job), 0, 0
        with self._opened(job) as sets:
            for row, example in islice(sets.read(job, shard), SAMPLE):
                _, changed, _ = change((row, example))
                if example is not None and changed is not None:
                    source += len(example.encoded)
                    made += len(changed.encoded)
        return made / source if source else 1.0

    def _opened(self, job: Job) -> _OpenSets:
        return _OpenSets(self.sources, job.info, self.renamed)

    def check_rejected(self, job: Job, records: Iterable[CommitRecord]) -> None:
        """Nothing else can have become of them."""

    def _change(self, job: Job) -> Callable[[tuple[_Ordered, Example | None]], _Changed]:
        """What is done to each example; pickled into other processes."""
        made = (job.sink.pixels, job.info.colorspace, job.fields)
        return partial(_changed, self.recipe, *made, self.max_pixels)


class _OpenSets(ExitStack):
    """The sets while a shard is made of them.

    Args:
        info: what is true of the examples that are made.
        renamed: see `SealedImages`.
    """

    def __init__(
        self, sources: Sequence[SourceSet], info: DatasetInfo, renamed: Mapping[str, str]
    ) -> None:
        super().__init__()
        self._sets = [source.read() for source in sources]
        self._info = info
        classes = [each.manifest.classes for each in self._sets]
        self._same = [info.classes[: len(own)] == own for own in classes]
        self._numbers = [renumbered(own, info.classes, renamed) for own in classes]
        self._splits = [[*_finished(each)] for each in self._sets]
        for _, _, split in chain.from_iterable(self._splits):
            self.callback(split.close)

    def read(self, job: Job, shard: ShardName) -> Iterator[tuple[_Ordered, Example | None]]:
        """Rows of the shard, and their examples, of which each is read when it is asked for."""
        for table in shard_tables(job.workspace.order, shard.split, shard.number):
            rows = _rows(table, job.fields)
            examples = self._examples([row for row in rows if row.rejected is None])
            for row in rows:
                if row.rejected is not None:
                    yield row, None
                    continue
                example = next(examples, None)  # a forged shard may hold fewer
                if example is None or not row.is_of(example, job.fields):
                    split, number = self._place(row)
                    raise SinkError(
                        f"{split.out}: record {number} of {split.split}, {printable(row.key)}, is "
                        "not what records.parquet has there; `dataprep verify --level records` "
                        "names bad files"
                    )
                pay(len(example.encoded))
                yield self._renamed(row, example, job.fields)

    def _place(self, row: _Ordered) -> tuple[FinishedSplit, int]:
        """The split that an image is in, and its number there."""
        splits = self._splits[row.source]
        at = bisect_right(splits, row.number, key=lambda each: each[0])
        if at == len(splits):
            raise SinkError(f"{self._sets[row.source].out}: no record is in row {row.number}")
        _, first, split = splits[at]
        return split, row.number - first

    def _examples(self, rows: Sequence[_Ordered]) -> Iterator[Example]:
        """Those examples; a run of them is read from end to end."""
        if rows and [row.number for row in rows] == [*range(rows[0].number, rows[-1].number + 1)]:
            (split, start), (last, stop) = self._place(rows[0]), self._place(rows[-1])
            if split is last:
                return split.take(range(start, stop + 1))
        return chain.from_iterable(
            self._together(rows[at : at + _AHEAD]) for at in range(0, len(rows), _AHEAD)
        )

    def _together(self, rows: Sequence[_Ordered]) -> Iterator[Example]:
        """Those examples, which are read in the order of the files."""
        places: defaultdict[FinishedSplit, list[int]] = defaultdict(list)
        for split, number in map(self._place, rows):
            places[split].append(number)
        found = {
            split: iter(split.read(numbers, ShardReader.__getitem__))
            for split, numbers in places.items()
        }
        return (next(found[self._place(row)[0]]) for row in rows)

    def _renamed(self, row: _Ordered, example: Example, fields: Fields) -> tuple[_Ordered, Example]:
        """With the key, the labels and the fields that it is to have."""
        info, numbers = self._info, self._numbers[row.source]
        # The table has all digits of a number; not so those of boxes.
        kept = {
            field.name: (row if field.rules.plain else example).fields[field.name]
            for field in fields
            if field.name in example.fields and field.name in row.fields
        }
        same = row.stored_key is None and row.stored_labels is None and self._same[row.source]
        if same and kept == example.fields:
            return row, example
        known = dict(row.fields)
        for values in (kept, known) if numbers else ():
            for name in named(fields, BOX_LABELS.kind):
                if name in values:
                    values[name] = tuple(numbers.get(label, label) for label in values[name])
        return row._replace(fields=known), replace(
            example,
            key=row.key,
            fields=kept,
            labels=row.labels,
            synset=info.identifiers(row.labels),
            class_name=info.names(row.labels),
        )


def _finished(sealed: SealedSet) -> Iterator[tuple[int, int, FinishedSplit]]:
    """In the order of the rows, of each split the row behind its last, its first, and itself."""
    for name, (first, *_) in sorted(first_rows(sealed.manifest).items()):
        split = FinishedSplit(sealed, name)
        yield first + len(split), first, split


def _rows(table: pa.Table, fields: Fields) -> list[_Ordered]:
    names = ("labels", *RECORDED_COLUMNS, *(field.name for field in fields))
    columns = (table.column(name).to_pylist() for name in names)
    rows = []
    known = len(RECORDED_COLUMNS) - len(KEPT_COLUMNS)
    for labels, *values in zip(*columns, strict=True):
        source, number, stored_key, stored_labels, key, container, xxh3 = values[:known]
        said = zip(fields, values[len(RECORDED_COLUMNS) :], strict=True)
        rows.append(
            _Ordered(
                *(tuple(labels or ()), source, number, stored_key, stored_labels),
                *(key or "", container, xxh3, tuple(values[known : len(RECORDED_COLUMNS)])),
                {it.name: it.rules.of_cell(cell) for it, cell in said if cell is not None},
            )
        )
    return rows


def _changed(
    recipe: Recipe | None,
    pixels: bool,
    colorspace: str,
    fields: Fields,
    max_pixels: int,
    found: tuple[_Ordered, Example | None],
) -> _Changed:
    """The example as it is stored, and, of a recipe, what was made of its image.

    Args:
        pixels: whether the format stores arrays of pixels.
        colorspace: of what a recipe makes.
        fields: of the images.
    """
    row, example = found
    if example is None:
        return row, None, None
    if recipe is None:
        if pixels and example.format != "RAW":
            encoded = pixels_of(example, max_pixels).tobytes()
            return row, replace(example, encoded=encoded, format="RAW"), None
        return row, example if pixels else _as_file(example), None
    try:
        image = prepare(_as_file(example).encoded, recipe)
    except ImageError as error:
        raise SinkError(f"{printable(example.key)} cannot be converted: {error}") from error
    said = image.moved({**row.fields, **example.fields}, fields)
    changed = replace(
        example,
        encoded=image.data,
        format=image.format,
        height=image.height,
        width=image.width,
        colorspace=colorspace,
        fields={name: value for name, value in said.items() if name in example.fields},
    )
    return row._replace(fields=recorded(said, fields)), changed, image


def _as_file(example: Example) -> Example:
    """An array of pixels as PNG, which loses nothing."""
    if example.format != "RAW":
        return example
    png = raw_to_png(example.encoded, example.height, example.width)
    return replace(example, encoded=png, format="PNG")


def _made(row: _Ordered, example: Example, image: Prepared | None) -> Made:
    """An example as it is stored, and what is known of it besides."""
    channels, status, reason, *seen = row.kept
    if image is not None:
        return Made(example, image.channels, status, reason, row.fields, image.measured, image.grey)
    channels = example.channels if example.format == "RAW" else channels
    looks = None if seen[0] is None else Fingerprint(*seen)
    return Made(example, channels, status, reason, row.fields, None, looks)
