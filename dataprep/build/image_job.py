"""The job of a raw data set: read the rows of the order, check and convert the images."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from dataprep.archives.reading import require_unchanged
from dataprep.build.in_order import map_in_order
from dataprep.build.job import Job, Made, Rejected
from dataprep.datasets import read_image
from dataprep.errors import ImageError, SourceError
from dataprep.images import Prepared, Recipe, prepare
from dataprep.images.pixels import cropped
from dataprep.index import Row
from dataprep.index.order import read_shard
from dataprep.sinks import DatasetInfo, ShardName
from dataprep.sinks.example import Example

_SAMPLE = 32  # images converted to learn how much smaller they become


@dataclass(frozen=True, slots=True)
class ImageJob(Job):
    """Makes shards of a raw data set.

    Attributes:
        raw: where it is.
        index: where the restart points of its gzip archives are.
        recipe: what is done to every image.
    """

    raw: Path
    index: Path
    recipe: Recipe

    @property
    def works_on_images(self) -> bool:
        """They are read, checked, and perhaps decoded and encoded."""
        return True

    def items(
        self, shard: ShardName, pool: Executor | None, window: int
    ) -> Iterator[Made | Rejected]:
        """Every row of the shard, read and converted."""
        convert = partial(_convert, self.raw, self.index, self.recipe)
        archives: dict[str, Row] = {}
        for row, result in map_in_order(pool, convert, self._rows(shard), window):
            if row.offset:
                archives[row.container] = row
            if isinstance(result, ImageError):
                yield Rejected(row.key, row.container, row.labels, str(result), row.attributes)
            else:
                yield _made(row, result, self.output.info)
        # Before the shard is committed; a file of its own was looked at when it was read.
        require_unchanged(self.raw, archives)

    def estimate_bytes(self, pending: Sequence[ShardName]) -> int:
        """Exact to about 1 % where images pass through or become arrays.

        Where they are converted, estimated from a sample of the first pending shard.
        """
        images = source = 0.0
        for split in self.splits:
            part = sum(shard.split == split.name for shard in pending) / split.shards
            images += split.images * part
            source += split.source_bytes * part
        overhead, each = self.output.load_sink().overhead(), self.output.array_bytes()
        if each is not None:
            return int(images * (each + overhead))
        ratio = self._measured_ratio(pending[0]) if _changes_size(self.recipe) else 1.0
        return int(source * ratio + images * overhead)

    def _measured_ratio(self, shard: ShardName) -> float:
        source = made = 0
        for row in islice(self._rows(shard), _SAMPLE):
            _, result = _convert(self.raw, self.index, self.recipe, row)
            if not isinstance(result, ImageError):
                made += len(result.data)
                source += row.size
        return made / source if source else 1.0

    def keep_rejected(
        self,
        rejected: Iterable[tuple[ShardName, Collection[str]]],
        keep: Callable[[str, str, bytes], None],
    ) -> None:
        """Read them from the raw data once more."""
        for shard, keys in rejected:
            wanted = set(keys)
            for row in self._rows(shard):
                if row.key not in wanted:
                    continue
                try:
                    data = read_image(self.raw, row, self.index)
                except SourceError as error:
                    raise SourceError(f"--keep_rejected: {error}") from error
                keep(shard.split, row.key, data)

    def check_rejected(self, rejected: Iterable[tuple[ShardName, Collection[str]]]) -> None:
        """One look at each file that a rejected image is in."""
        for shard, keys in rejected:
            wanted = set(keys)
            files = {row.container: row for row in self._rows(shard) if row.key in wanted}
            require_unchanged(self.raw, files)

    def _rows(self, shard: ShardName) -> Iterator[Row]:
        return read_shard(self.workspace.order, shard.split, shard.number)


def _convert(raw: Path, index: Path, recipe: Recipe, row: Row) -> tuple[Row, Prepared | ImageError]:
    # Only what is wrong with the bytes rejects an image. A file that cannot be read stops the
    # run instead: it may be readable again tomorrow, and a commit record is for ever.
    data = read_image(raw, row, index)
    try:
        return row, prepare(data, recipe)
    except ImageError as error:
        return row, error


def _made(row: Row, image: Prepared, info: DatasetInfo) -> Made:
    kinds = {note.kind for note in image.notes}
    return Made(
        _example(row, image, info),
        image.channels,
        status="repaired" if "repaired" in kinds else "warned" if kinds else "stored",
        reason="; ".join(note.text for note in image.notes) or None,
        attributes=row.attributes,
        measured=image.measured,
    )


def _example(row: Row, image: Prepared, info: DatasetInfo) -> Example:
    boxes, box_labels = cropped(row.boxes, row.box_labels, image.part) if info.boxes else ((), ())
    return Example(
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
        boxes=boxes,
        box_labels=box_labels,
        attributes=row.attributes if info.attributes else {},
    )


def _changes_size(recipe: Recipe) -> bool:
    plain = Recipe()
    return (recipe.resize, recipe.center_crop, recipe.encoding, recipe.color) != (
        plain.resize,
        plain.center_crop,
        plain.encoding,
        plain.color,
    )
