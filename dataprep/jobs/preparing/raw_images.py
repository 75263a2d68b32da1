"""The images of raw data, as a job reads them: in place, checked, and perhaps converted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias

from msgspec.structs import replace

from dataprep.archives.open_files import is_in_bucket
from dataprep.datasets import read_image
from dataprep.datasets.masks import read_mask
from dataprep.datasets.raw_directory import leads_out
from dataprep.datasets.reading import require_unchanged
from dataprep.errors import DataprepError, ImageError
from dataprep.formats import ShardName
from dataprep.formats.example import Example
from dataprep.images import Note, Prepared, Recipe, kind_of, prepare
from dataprep.images.masks import renumbered
from dataprep.images.pixels import turned_back, upright
from dataprep.images.prepare import EXTRAS
from dataprep.jobs.output.commit import rejected_images
from dataprep.jobs.running.job import SAMPLE, Job, Made, Rejected, map_in_order
from dataprep.rows import Row
from dataprep.system.messages import counted
from dataprep.tables.order import read_shard
from dataprep_schemas.fields import MASK, Fields, recorded
from dataprep_schemas.state import CommitRecord

STORED_WITH_8_BITS: Final = "of 16 bits a sample: stored with 8 (--depth keep: 16)"
_LOOKED_AT: Final = 8  # images, before the first is made
_REQUESTS: Final = 16  # of one shard to a bucket, under way at a time
_Fetched: TypeAlias = tuple[Row, bytes | ImageError]


@dataclass(frozen=True, slots=True)
class RawImages:
    """Images of raw data, by container and offset: read, checked, and perhaps converted.

    Attributes:
        index: where the restart points of its gzip archives are.
        named: whether the files of those that are rejected may be named.
        fields: of the data set.
        mask_values: `Found.mask_values`.
    """

    raw: Path
    index: Path
    recipe: Recipe
    named: bool = True
    fields: Fields = ()
    mask_values: tuple[tuple[int, int], ...] = ()

    @property
    def works_on_images(self) -> bool:
        """They are read, checked, and perhaps decoded and encoded."""
        return True

    def items(
        self, job: Job, shard: ShardName, pool: Executor | None, window: int
    ) -> Iterator[Made | Rejected]:
        """Every row of the shard, read and converted."""
        archives: dict[str, Row] = {}
        with self._ahead(_rows(job, shard)) as rows:
            for row, result, extras in map_in_order(pool, self.convert, rows, window):
                if row.offset:
                    archives[row.container] = row
                if isinstance(result, ImageError):
                    place = row.container if self.named else ""
                    yield Rejected(row.key, place, row.labels, str(result), row.fields, extras)
                else:
                    yield _made(row, result, job, extras)
        # Before the shard is committed; a file of its own was looked at when it was read.
        require_unchanged(self.raw, archives)

    def size_ratio(self, job: Job, shard: ShardName) -> float:
        """As a few images of the shard become, where they are converted."""
        if self.recipe.keeps_bytes:
            return 1.0
        source = made = 0
        for row in islice(_rows(job, shard), SAMPLE):
            _, result, _ = self.convert(row)
            if not isinstance(result, ImageError):
                made += len(result.data)
                source += row.size
        return made / source if source else 1.0

    def check_rejected(self, job: Job, records: Iterable[CommitRecord]) -> None:
        """One look at each file that a rejected image is in."""
        for record in records:
            keys = {key for _, key, *_ in rejected_images(job.workspace, [record])}
            rows = _rows(job, record.shard) if keys else ()
            files = {row.container: row for row in rows if row.key in keys}
            require_unchanged(self.raw, files)

    def describe_depth(self, job: Job) -> Iterator[str]:
        """A line if, of the first images, PNGs have 16 bits a sample and will get 8."""
        first = islice(_rows(job, job.shard_names()[0]), _LOOKED_AT)
        shallow = self.recipe.depth == "8"
        rows = [row for row in first if shallow and row.key.lower().endswith(".png")]
        with suppress(DataprepError):  # which is told when the image is made
            files = [self.read(row) for row in rows]
            if deep := sum(file[24:25] == b"\x10" for file in files):  # as in the header, IHDR
                yield f"{deep} of the first {counted(len(rows), 'PNG')} {STORED_WITH_8_BITS}"

    def read(self, row: Row) -> bytes:
        """The image as it is in the raw data."""
        return read_image(self.raw, row, self.index, most=self.recipe.max_image_bytes)

    @contextmanager
    def _ahead(self, rows: Iterable[Row]) -> Iterator[Iterable[Row | _Fetched]]:
        """The rows; where a request takes long, as of a bucket, with bytes that were asked for."""
        if not is_in_bucket(self.raw):
            yield rows
            return
        with ThreadPoolExecutor(_REQUESTS, "request") as requesting:
            yield map_in_order(requesting, self._fetch, rows, 2 * _REQUESTS)

    def _fetch(self, row: Row) -> _Fetched:
        try:
            return row, self.read(row)
        except ImageError as error:
            return row, error

    def convert(self, item: Row | _Fetched) -> tuple[Row, Prepared | ImageError, tuple[str, ...]]:
        """What becomes of the image, between its row and the extras that had a part in it.

        The row then has the fields as they are of what was made.
        """
        row, data = (item, None) if isinstance(item, Row) else item
        extras: tuple[str, ...] = ()
        # Only what is wrong with its bytes, or their number, rejects an image. A file that cannot
        # be read stops the run instead: it may be readable again tomorrow, and a commit record is
        # for ever.
        try:
            if isinstance(data, ImageError):
                raise data
            data = self.read(row) if data is None else data
            extras = EXTRAS.get(kind_of(data), ())
            made = prepare(data, self.recipe, row.frame)
            made = _turned_back(row, made) if row.drawn_on else made
            return *self._with_fields(row, made), extras
        except ImageError as error:
            what, quoting, _ = str(error).partition(" starting with ")
            if quoting and leads_out(self.raw, row.container):
                error = ImageError(f"{what}, in a link that leads out of the raw directory")
            return row, error, extras

    def _with_fields(self, row: Row, image: Prepared) -> tuple[Row, Prepared]:
        """The row with its fields as they are of the image that was made, and its mask."""
        if not row.fields:
            return row, image
        text = row.fields.get(MASK.name)
        if not text:
            return replace(row, fields=image.moved(row.fields, self.fields)), image
        levels = read_mask(
            *(self.raw, text, self.index),
            size=image.came[1::-1],
            most=self.recipe.max_image_bytes,
            max_pixels=self.recipe.max_pixels,
        )
        levels = renumbered(levels, self.mask_values)
        turn, doubt = turned_back(levels.shape[::-1], image.came, "the numbers of its mask")
        mask = image.mask(upright(levels, turn))
        others = {name: it for name, it in row.fields.items() if name != MASK.name}
        notes = () if doubt is None else (Note("warned", doubt),)
        image = replace(image, notes=(*image.notes, *notes))
        fields = {**image.moved(others, self.fields), MASK.name: mask}
        return replace(row, fields=fields), image


def _rows(job: Job, shard: ShardName) -> Iterator[Row]:
    return read_shard(job.workspace.order, shard.split, shard.number)


def _turned_back(row: Row, image: Prepared) -> Prepared:
    """With how its fields lie on the pixels as they came."""
    back, doubt = turned_back(row.drawn_on, image.came)
    notes = () if doubt is None else (Note("warned", doubt),)
    return replace(image, back=back, notes=(*image.notes, *notes))


def _made(row: Row, image: Prepared, job: Job, extras: tuple[str, ...]) -> Made:
    info = job.info
    example = Example(
        key=row.key,
        encoded=image.data,
        format=image.format,
        height=image.height,
        width=image.width,
        # The TPU script says RGB and 3 channels of grey JPEGs too: what readers decode to.
        colorspace=info.colorspace,
        labels=row.labels,
        synset=info.identifiers(row.labels),
        class_name=info.names(row.labels),
        fields=row.fields,
    )
    kinds = {note.kind for note in image.notes}
    return Made(
        example,
        image.channels,
        status="repaired" if "repaired" in kinds else "warned" if kinds else "stored",
        reason="; ".join(note.text for note in image.notes) or None,
        fields=recorded(row.fields, job.fields),
        measured=image.measured,
        looks=image.grey,
        extras=extras,
    )
