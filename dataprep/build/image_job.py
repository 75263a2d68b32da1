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

from dataprep import __version__
from dataprep.archives.reading import require_unchanged
from dataprep.build.claim import claim
from dataprep.build.index_parts import IndexParts, ScanSummary, SplitSummary
from dataprep.build.job import (
    Job,
    Made,
    Output,
    Rejected,
    SplitJob,
    choose_shard_count,
    dropped_fields,
    explain_shard_count,
    map_in_order,
)
from dataprep.build.lock import Lease
from dataprep.build.manifest import describe_info
from dataprep.build.request import Request, describe_examples
from dataprep.build.workspace import Workspace
from dataprep.datasets import Dataset, Found, read_image
from dataprep.errors import ImageError, SourceError
from dataprep.images import Prepared, Recipe, codec_versions, prepare
from dataprep.images.pixels import cropped
from dataprep.index import Row
from dataprep.index.order import read_shard
from dataprep.plugins import load_sink
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
    found: Found,
    parts: IndexParts,
    summary: ScanSummary,
    images: Images,
    lease: Lease,
    report: Callable[[str], None],
) -> tuple[ImageJob, Mapping[str, object]]:
    """Decide the shards, check that the directory is this job's, and order the images.

    Args:
        request: what the user asked for.
        dataset: what is prepared.
        found: what there is of it.
        parts: its index.
        summary: what the index says as a whole.
        images: the index's images.
        lease: what workers need to go on.
        report: takes one line for the user.

    Returns:
        The job, and its identity: everything that shapes the bytes of the output.

    Raises:
        UsageError: the shard counts do not fit, or the format cannot hold such a data set.
        DatasetError: the directory is being made in another way, or holds foreign shards.
    """
    output = _output(request, describe_examples(summary.classes, request.recipe, dataset), report)
    splits = tuple(
        _plan_split(request, name, summary.images[name], output) for name in summary.splits
    )
    for split in splits:
        report(_describe(request, split, found.official_counts.get(split.name), output))
    identity = _identity(request, dataset, summary, splits, output)
    raw = request.raw.absolute()
    job = ImageJob(output, splits, lease, raw, parts.directory, request.recipe)
    # Only now, when nothing that was asked for can be refused any more.
    claim(job, identity, parts.digests(), overwrite=request.overwrite)
    # The identity is the same for every raw layout; the order says where the bytes are.
    token = hashlib.sha256(to_json([identity, parts.digests()])).hexdigest()
    _order(job, summary, images, token, request)
    return job, identity


def _order(
    job: ImageJob,
    summary: ScanSummary,
    images: Images,
    token: str,
    request: Request,
) -> None:
    """Put the images of those splits in order whose order is not there."""
    # Imported late: a run that is resumed has nothing to order.
    from dataprep.index.order import order_is_current, write_order

    order = job.workspace.order
    stale = [split for split in job.splits if not order_is_current(order, split.name, token)]
    if stale and not images.has_chosen:
        identifiers = [identifier for identifier, _ in summary.classes]
        images.number_labels(summary.splits, identifiers, multilabel=job.output.info.multilabel)
        images.choose(summary.splits, seed=request.seed, limit=request.limit)
    for split in stale:
        write_order(
            order,
            images,
            split=split.name,
            images=split.images,
            shards=split.shards,
            shuffle=cast("Shuffle", split.shuffle),
            seed=request.seed,
            token=token,
        )


def _output(request: Request, info: DatasetInfo, report: Callable[[str], None]) -> Output:
    sink = load_sink(request.sink, request.sink_options)
    sink.check(info)
    kept, lines = dropped_fields(info, sink)
    for line in lines:
        report(line)
    return Output(
        workspace=Workspace(request.out.absolute()),
        sink=request.sink,
        sink_options=request.sink_options,
        layout=request.layout,
        info=kept,
        attributes=info.attributes,
        build_dir=request.build_dir and request.build_dir.absolute(),
    )


def _plan_split(request: Request, name: str, summary: SplitSummary, output: Output) -> SplitJob:
    return SplitJob(
        name=name,
        shards=choose_shard_count(name, summary.images, request.num_shards, output),
        shuffle=request.shuffle or ("stratified" if name == "train" else "none"),
        images=summary.images,
        source_bytes=summary.source_bytes,
        digest=summary.digest,
    )


def _describe(request: Request, split: SplitJob, official: int | None, output: Output) -> str:
    text = f"{split.name}: {counted(split.images, 'image')}"
    if official is not None and official != split.images:
        text += f" of the official {official:,}"
    text += f", {sized(split.source_bytes)}, in {counted(split.shards, 'shard')}"
    text += explain_shard_count(split.name, split.shards, request.num_shards, output)
    return f"{text}, shuffle {split.shuffle}"


def _identity(
    request: Request,
    dataset: Dataset,
    summary: ScanSummary,
    splits: Sequence[SplitJob],
    output: Output,
) -> dict[str, object]:
    """Everything that shapes the bytes of the output, and nothing of this machine."""
    sink = output.load_sink()
    return {
        "dataset": request.dataset,
        "dataset_config": dict(dataset.config()),
        "seed": request.seed,
        "limit": request.limit,
        "shuffle": {split.name: split.shuffle for split in splits},
        "num_shards": {split.name: split.shards for split in splits},
        "image": request.recipe.config(),
        "sink": {"name": sink.name, "config": dict(sink.config())},
        "examples": describe_info(output.info),
        "classes_sha256": hashlib.sha256(to_json(output.info.classes)).hexdigest(),
        "layout": request.layout,
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
        "versions": {"dataprep": __version__, **codec_versions(), **sink.versions()},
    }
