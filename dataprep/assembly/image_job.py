"""The job of a raw data set: read the rows of the deck, check and convert the images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from dataprep.assembly.commit import Noted, Rejected
from dataprep.assembly.deck import read_shard, read_slices
from dataprep.assembly.in_order import map_in_order
from dataprep.assembly.job import Job, Made
from dataprep.boxes import cropped
from dataprep.errors import ImageError, SourceError
from dataprep.example import Example
from dataprep.images import Prepared, Recipe, prepare
from dataprep.index import Row
from dataprep.sinks import DatasetInfo, ShardName
from dataprep.sources import read_image

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
        """Every row of the shard's part of the deck, read and converted."""
        rows = read_shard(self.workspace, shard)
        convert = partial(_convert, self.raw, self.index, self.recipe)
        for row, result in zip(rows, map_in_order(pool, convert, rows, window), strict=True):
            if isinstance(result, ImageError):
                reason = str(result)
                yield Rejected(row.key, row.container, row.offset, row.size, reason)
            else:
                noted = tuple(Noted(row.key, note.kind, note.text) for note in result.notes)
                yield Made(_example(row, result, self.output.info), noted, result.measured)

    def estimate_bytes(self, pending: Sequence[ShardName]) -> int:
        """Exact to about 1 % where images pass through or become arrays.

        Where they are converted, estimated from a sample of the first pending shard.
        """
        slices = {split.name: read_slices(self.workspace, split.name) for split in self.splits}
        images = sum(slices[shard.split].images[shard.number] for shard in pending)
        overhead, each = self.output.load_sink().overhead(), self.output.array_bytes()
        if each is not None:
            return images * (each + overhead)
        source = sum(slices[shard.split].source_bytes[shard.number] for shard in pending)
        ratio = self._measured_ratio(pending[0]) if _changes_size(self.recipe) else 1.0
        return int(source * ratio) + images * overhead

    def _measured_ratio(self, shard: ShardName) -> float:
        source = made = 0
        for row in islice(read_shard(self.workspace, shard), _SAMPLE):
            result = _convert(self.raw, self.index, self.recipe, row)
            if not isinstance(result, ImageError):
                made += len(result.data)
                source += row.size
        return made / source if source else 1.0

    def keep_rejected(
        self,
        rejected: Mapping[ShardName, Sequence[Rejected]],
        keep: Callable[[str, str, bytes], None],
    ) -> None:
        """Read them from the raw data once more."""
        for shard, images in rejected.items():
            rows = {row.key: row for row in read_shard(self.workspace, shard)}
            for image in images:
                try:
                    data = read_image(self.raw, rows[image.key], self.index)
                except SourceError as error:
                    raise SourceError(f"--keep_rejected: {error}") from error
                keep(shard.split, image.key, data)


def _convert(raw: Path, index: Path, recipe: Recipe, row: Row) -> Prepared | ImageError:
    # Only what is wrong with the bytes rejects an image. A file that cannot be read stops the
    # run instead: it may be readable again tomorrow, and a commit record is for ever.
    data = read_image(raw, row, index)
    try:
        return prepare(data, recipe)
    except ImageError as error:
        return error


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
