"""The job of a raw data set: plan its shards, order its images, read, check and convert them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dataprep.archives.reading import require_unchanged
from dataprep.datasets import Dataset, read_image
from dataprep.datasets.raw_directory import leads_out
from dataprep.errors import DataprepError, ImageError
from dataprep.images import Prepared, Recipe, prepare
from dataprep.jobs.commit import rejected_images
from dataprep.jobs.job import (
    SAMPLE,
    Job,
    Made,
    Rejected,
    SplitJob,
    choose_shard_count,
    kept_info,
    map_in_order,
)
from dataprep.jobs.lock import Lease
from dataprep.jobs.request import Request, describe_examples
from dataprep.sinks import DatasetInfo, ShardName
from dataprep.sinks.example import Example
from dataprep.system.messages import counted
from dataprep.system.state_files import digest_of
from dataprep.tables import Row
from dataprep.tables.order import read_shard
from dataprep_schemas.manifest import Excluded, Identity, Shuffle
from dataprep_schemas.state import CommitRecord, ScanSummary

STORED_WITH_8_BITS: Final = "of 16 bits a sample: stored with 8 (--depth keep: 16, of grey PNGs)"
_LOOKED_AT: Final = 8  # images, before the first is made


if TYPE_CHECKING:  # they load a database, which a run that has nothing to order need not
    from dataprep.tables.images import Images


@dataclass(frozen=True, slots=True)
class ImageJob(Job):
    """Makes shards of a raw data set.

    Attributes:
        index: where the restart points of its gzip archives are.
    """

    request: Request
    index: Path

    @property
    def works_on_images(self) -> bool:
        """They are read, checked, and perhaps decoded and encoded."""
        return True

    def items(
        self, shard: ShardName, pool: Executor | None, window: int
    ) -> Iterator[Made | Rejected]:
        """Every row of the shard, read and converted."""
        raw = self.request.raw
        convert = partial(_convert, raw, self.index, self.request.recipe)
        archives: dict[str, Row] = {}
        for row, result in map_in_order(pool, convert, self._rows(shard), window):
            if row.offset:
                archives[row.container] = row
            if isinstance(result, ImageError):
                yield Rejected(row.key, row.container, row.labels, str(result), row.attributes)
            else:
                yield _made(row, result, self.info)
        # Before the shard is committed; a file of its own was looked at when it was read.
        require_unchanged(raw, archives)

    def size_ratio(self, shard: ShardName) -> float:
        """As a few images of the shard become, where they are converted."""
        recipe = self.request.recipe
        if recipe.keeps_bytes:
            return 1.0
        source = made = 0
        for row in islice(self._rows(shard), SAMPLE):
            _, result = _convert(self.request.raw, self.index, recipe, row)
            if not isinstance(result, ImageError):
                made += len(result.data)
                source += row.size
        return made / source if source else 1.0

    def describe_depth(self) -> Iterator[str]:
        """A line if, of the first images, PNGs have 16 bits a sample and will get 8."""
        recipe, first = self.request.recipe, islice(self._rows(self.shard_names()[0]), _LOOKED_AT)
        rows = [row for row in first if recipe.depth == "8" and row.key.lower().endswith(".png")]
        with suppress(DataprepError):  # which is told when the image is made
            most = recipe.max_image_bytes
            files = [read_image(self.request.raw, row, self.index, most=most) for row in rows]
            if deep := sum(file[24:25] == b"\x10" for file in files):  # as in the header, IHDR
                yield f"{deep} of the first {counted(len(rows), 'PNG')} {STORED_WITH_8_BITS}"

    def check_rejected(self, records: Iterable[CommitRecord]) -> None:
        """One look at each file that a rejected image is in."""
        for record in records:
            keys = {key for _, key, *_ in rejected_images(self.workspace, [record])}
            rows = self._rows(record.shard) if keys else ()
            files = {row.container: row for row in rows if row.key in keys}
            require_unchanged(self.request.raw, files)

    def _rows(self, shard: ShardName) -> Iterator[Row]:
        return read_shard(self.workspace.order, shard.split, shard.number)


def _convert(raw: Path, index: Path, recipe: Recipe, row: Row) -> tuple[Row, Prepared | ImageError]:
    # Only what is wrong with its bytes, or their number, rejects an image. A file that cannot be
    # read stops the run instead: it may be readable again tomorrow, and a commit record is for
    # ever.
    try:
        data = read_image(raw, row, index, most=recipe.max_image_bytes)
        return row, prepare(data, recipe)
    except ImageError as error:
        what, quoting, _ = str(error).partition(" starting with ")
        if quoting and leads_out(raw, row.container):
            error = ImageError(f"{what}, in a link that leads out of the raw directory")
        return row, error


def _made(row: Row, image: Prepared, info: DatasetInfo) -> Made:
    boxes, box_labels = image.moved(row.boxes, row.box_labels)
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
        boxes=boxes if info.boxes else (),
        box_labels=box_labels if info.boxes else (),
        attributes=row.attributes if info.attributes else {},
    )
    kinds = {note.kind for note in image.notes}
    return Made(
        example,
        image.channels,
        status="repaired" if "repaired" in kinds else "warned" if kinds else "stored",
        reason="; ".join(note.text for note in image.notes) or None,
        attributes=row.attributes,
        boxes=boxes,
        measured=image.measured,
        fingerprint=image.fingerprint,
    )


def plan_images(
    request: Request,
    dataset: Dataset,
    summary: ScanSummary,
    index: Path,
    lease: Lease,
    report: Callable[[str], None],
) -> tuple[ImageJob, Identity]:
    """Decide the shards.

    Args:
        report: told what the format has no place for.

    Returns:
        The job, and its identity: everything that shapes the bytes of the output, the same for
        every raw layout.

    Raises:
        UsageError: the shard counts do not fit, or the format cannot hold such a data set.
    """
    info = describe_examples(summary.classes, request.recipe, dataset)
    kept = kept_info(info, request.load_sink(), report)
    splits = tuple(
        SplitJob(
            name=name,
            shards=choose_shard_count(name, summary.input[name].images, request, kept),
            shuffle=chosen_shuffle(name, request),
            images=summary.input[name].images,
            source_bytes=summary.input[name].bytes,
        )
        for name in summary.splits
    )
    job = ImageJob(request, kept, info.attributes, splits, lease, index)
    left_out = summary.excluded
    return job, Identity(
        dataset=request.dataset,
        dataset_config=dict(dataset.config()),
        seed=request.seed,
        limit=request.limit,
        shuffle={split.name: split.shuffle for split in splits},
        image=request.recipe.config(),
        classes_sha256=digest_of(info.classes),
        unmatched=summary.unmatched,
        counts=summary.counts,
        excluded=None if left_out is None else Excluded(left_out.images, left_out.digest),
        input=summary.input,
        **job.output_identity(),
    )


def chosen_shuffle(split: str, request: Request) -> Shuffle:
    """How the images of a split are ordered: as asked, or as is usual."""
    return request.shuffle or ("stratified" if split == "train" else "none")


def choose_images(job: Job, images: Images, *, seed: int, limit: int | str | None) -> None:
    """As `Images.choose`."""
    names = [split.name for split in job.splits]
    classes = [name for name, _ in job.info.classes]
    images.choose(names, classes, multilabel=job.info.multilabel, seed=seed, limit=limit)


def order_images(
    job: Job,
    images: Images,
    made_of: object,
    *,
    seed: int,
    limit: int | str | None = None,
    columns: str | None = None,
) -> None:
    """Put the images of those splits in order whose order is not there.

    Args:
        made_of: what shapes the order, as JSON: the job's identity, which is the same for every
            raw layout, and what the index was made from, since the order says where the bytes are.
        limit: how many images of each split are taken, or what share, ``10%``.
        columns: as `dataprep.tables.order.write_order` has it.
    """
    # Imported late: a run that is resumed has nothing to order.
    from dataprep.tables.order import order_is_current, write_order

    order = job.workspace.order
    token = digest_of(made_of)
    stale = [split for split in job.splits if not order_is_current(order, split.name, token)]
    if stale:
        choose_images(job, images, seed=seed, limit=limit)
    for split in stale:
        write_order(
            order,
            images,
            split=split.name,
            images=split.images,
            shards=split.shards,
            shuffle=split.shuffle,
            seed=seed,
            token=token,
            columns=columns,
        )
