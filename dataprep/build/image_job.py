"""The job of a raw data set: plan its shards, order its images, read, check and convert them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dataprep.archives.reading import require_unchanged
from dataprep.build.index_parts import ScanSummary
from dataprep.build.job import (
    Job,
    Made,
    Rejected,
    SplitJob,
    choose_shard_count,
    explain_shard_count,
    map_in_order,
    plan_output,
)
from dataprep.build.lock import Lease
from dataprep.build.request import Request, describe_examples
from dataprep.datasets import Dataset, read_image
from dataprep.errors import ImageError, SourceError
from dataprep.images import Prepared, Recipe, prepare
from dataprep.images.pixels import cropped
from dataprep.index import Row
from dataprep.index.order import read_shard
from dataprep.sinks import DatasetInfo, ShardName
from dataprep.sinks.example import Example
from dataprep.system.messages import counted, sized
from dataprep.system.state_files import to_json

if TYPE_CHECKING:  # they load a database, which a run that has nothing to order need not
    from dataprep.index.images import Images
    from dataprep.index.order import Shuffle

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

    def check_rejected(self, shard: ShardName, keys: Collection[str]) -> None:
        """One look at each file that a rejected image is in."""
        files = {row.container: row for row in self._rows(shard) if row.key in keys}
        require_unchanged(self.raw, files)

    def read_rejected(self, shard: ShardName, keys: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """Read them from the raw data once more."""
        for row in self._rows(shard):
            if row.key in keys:
                try:
                    yield row.key, read_image(self.raw, row, self.index)
                except SourceError as error:
                    raise SourceError(f"--keep_rejected: {error}") from error

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


def plan_images(
    request: Request,
    dataset: Dataset,
    summary: ScanSummary,
    index: Path,
    lease: Lease,
    report: Callable[[str], None],
) -> tuple[ImageJob, Mapping[str, object]]:
    """Decide the shards.

    Args:
        request: what the user asked for.
        dataset: what is prepared.
        summary: what its index says as a whole.
        index: where that is.
        lease: what workers need to go on.
        report: told what the format has no place for.

    Returns:
        The job, and its identity: everything that shapes the bytes of the output, the same for
        every raw layout.

    Raises:
        UsageError: the shard counts do not fit, or the format cannot hold such a data set.
    """
    info = describe_examples(summary.classes, request.recipe, dataset)
    output = plan_output(request, info, info.attributes, report)
    splits = tuple(
        SplitJob(
            name=name,
            shards=choose_shard_count(name, found.images, request.num_shards, output),
            shuffle=request.shuffle or ("stratified" if name == "train" else "none"),
            images=found.images,
            source_bytes=found.source_bytes,
            digest=found.digest,
        )
        for name, found in ((name, summary.images[name]) for name in summary.splits)
    )
    job = ImageJob(output, splits, lease, request.raw.absolute(), index, request.recipe)
    return job, {
        "dataset": request.dataset,
        "dataset_config": dict(dataset.config()),
        "seed": request.seed,
        "limit": request.limit,
        "shuffle": {split.name: split.shuffle for split in splits},
        "image": request.recipe.config(),
        "classes_sha256": hashlib.sha256(to_json(output.info.classes)).hexdigest(),
        "unmatched": asdict(summary.unmatched),
        "counts": dict(summary.counts),
        "input": {
            split.name: {
                "images": split.images,
                "bytes": split.source_bytes,
                "digest": split.digest,
            }
            for split in splits
        },
        **job.output_identity(),
    }


def describe_splits(
    job: Job, wanted: Mapping[str, int] | None, official: Mapping[str, int]
) -> Iterator[str]:
    """A line for the user on each split.

    Args:
        job: what is to be built.
        wanted: the shard counts that the user asked for.
        official: how many images each split of the complete data set has, where known.
    """
    for split in job.splits:
        text = f"{split.name}: {counted(split.images, 'image')}"
        complete = official.get(split.name, split.images)
        if complete != split.images:
            text += f" of the official {complete:,}"
        text += f", {sized(split.source_bytes)}, in {counted(split.shards, 'shard')}"
        text += explain_shard_count(split.name, split.shards, wanted, job.output)
        yield f"{text}, shuffle {split.shuffle}"


def order_images(
    job: ImageJob, images: Images, made_of: object, *, seed: int, limit: int | None
) -> None:
    """Put the images of those splits in order whose order is not there.

    Args:
        job: what is to be built.
        images: of its index.
        made_of: what shapes the order, as JSON: the job's identity, which is the same for every
            raw layout, and what the index was made from, since the order says where the bytes are.
        seed: of the shuffle.
        limit: how many images of each split there are at most.
    """
    # Imported late: a run that is resumed has nothing to order.
    from dataprep.index.order import order_is_current, write_order

    order, info = job.workspace.order, job.output.info
    token = hashlib.sha256(to_json(made_of)).hexdigest()
    stale = [split for split in job.splits if not order_is_current(order, split.name, token)]
    if stale and not images.has_chosen:
        splits = [split.name for split in job.splits]
        images.number_labels(splits, [name for name, _ in info.classes], multilabel=info.multilabel)
        images.choose(splits, seed=seed, limit=limit)
    for split in stale:
        write_order(
            order,
            images,
            split=split.name,
            images=split.images,
            shards=split.shards,
            shuffle=cast("Shuffle", split.shuffle),
            seed=seed,
            token=token,
        )
