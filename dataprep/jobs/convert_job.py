"""The job of a finished data set that is to be had in another format too."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import replace as with_options
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec.structs import replace

from dataprep.errors import ImageError, SinkError, SourceError, UsageError
from dataprep.images import Prepared, Recipe, prepare
from dataprep.images.decode import raw_to_png
from dataprep.images.fingerprint import Fingerprint
from dataprep.jobs.identity import identity_of
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
from dataprep.jobs.request import ConvertRequest, absolute, check_splits, fit_recipe
from dataprep.sealed.set import SealedSet, first_rows
from dataprep.sealed.split import FinishedSplit
from dataprep.sinks import DatasetInfo, ShardName
from dataprep.sinks.example import Example, pixels_of
from dataprep.system.messages import counted, printable, sized, unreadable
from dataprep.system.throttle import pay
from dataprep.tables import Value
from dataprep.tables.order import shard_bounds
from dataprep.tables.records import NAME as RECORDS
from dataprep.tables.records import RecordsTable
from dataprep_schemas.manifest import Ancestor, Identity, Manifest, Statistics

if TYPE_CHECKING:
    import pyarrow as pa

Times: TypeAlias = Mapping[str, int]
"""When files of a data set were written, in ns, by their paths in it."""

# Of a row of the source; the last four are a `Fingerprint`, or none of them is there.
KEPT_COLUMNS: Final = (
    *("channels", "status", "reason", "boxes"),
    *("phash", "brightness", "contrast", "flat"),
)
_SECOND_LOSS: Final = (
    "JPEGs are decoded and encoded again, which loses a little of each; made from the raw data "
    "they would be better"
)


def fit_conversion(request: ConvertRequest) -> tuple[ConvertRequest, SealedSet, Times]:
    """Refuse, before anything is made, what can only go wrong.

    Returns:
        The request, with absolute paths and the recipe that the source and the format need; the
        data set that is to be converted; and when its files were written, to be asked before they
        are verified.

    Raises:
        UsageError: the format cannot hold what the data set has.
        DatasetError: there is no intact manifest, or only a part of the data set.
    """
    sealed = SealedSet.read(request.source)
    sealed.require_whole("converted")
    sink = request.load_sink()
    source, out = request.source.resolve(), request.out.resolve()
    if source == out or source in out.parents:
        raise UsageError(
            f"--to {request.out} is in what is to be converted; choose another directory"
        )
    request = with_options(absolute(request), recipe=_recipe(request, sealed))
    sink.check(_info(sealed, request.recipe))
    if sink.needs_mean:
        raise UsageError("a mean image is made with the data set: make it with --stats mean")
    check_splits(request.num_shards, sealed.splits)
    shards = sealed.manifest.shards()
    names = [RECORDS, *(file.path for shard in shards for file in shard.files)]
    return request, sealed, _times(request.source, names)


def _times(source: Path, names: Sequence[str]) -> Times:
    """When files were written; without those that are not there, which verifying finds out."""
    found = {}
    for name in names:
        with suppress(OSError):
            found[name] = (source / name).stat().st_mtime_ns
    return found


def plan_conversion(
    request: ConvertRequest,
    sealed: SealedSet,
    times: Times,
    lease: Lease,
    report: Callable[[str], None],
) -> tuple[ConvertJob, Identity]:
    """Decide the shards; the arguments are those that `fit_conversion` gives.

    Returns:
        The job, and its identity: what the raw data was stays; the format is another, and what was
        done to the images may be.

    Raises:
        UsageError: the shard counts do not fit.
    """
    manifest, recipe = sealed.manifest, request.recipe
    with RecordsTable(request.source, manifest.records_table) as table:
        attributes = table.attributes
    info = kept_info(_info(sealed, recipe), request.load_sink(), report)
    splits = tuple(_split(manifest, name, request, info) for name in manifest.splits)
    for split in splits:
        report(
            f"{split.name}: {counted(split.images, 'record')}, {sized(split.source_bytes)}, "
            f"in {counted(split.shards, 'shard')}, in the same order"
        )
    max_pixels = manifest.image.max_pixels
    job = ConvertJob(request, info, attributes, splits, lease, manifest.sha256, times, max_pixels)
    made_anew = None if recipe is None else manifest.image
    ancestor = Ancestor(manifest.sha256, manifest.sink, manifest.versions, made_anew)
    if recipe is not None and not sealed.sink.pixels and recipe.target("JPEG") == "JPEG":
        report(_SECOND_LOSS)
    return job, replace(
        identity_of(manifest),
        image=manifest.image if recipe is None else recipe.config(),
        lineage=(ancestor, *manifest.lineage),
        **job.output_identity(),
    )


def _recipe(request: ConvertRequest, sealed: SealedSet) -> Recipe | None:
    """What is asked to be done to the images, as far as the source and the format allow it.

    Raises:
        UsageError: the format does not store such images.
    """
    recipe, before = request.recipe, sealed.manifest.image
    if recipe is None:
        return None
    sink = request.load_sink()
    if sink.pixels and recipe.color == "keep" and sealed.info.channels == 1:
        recipe = with_options(recipe, color="gray")
    recipe = fit_recipe(recipe, sink)
    deep = recipe.encoding in ("keep", "png")
    return with_options(
        recipe,
        depth=before.depth if deep else "8",
        max_pixels=before.max_pixels,
        statistics="off" if before.statistics == "off" else "on",
    )


def _info(sealed: SealedSet, recipe: Recipe | None) -> DatasetInfo:
    """What is true of every example after the conversion."""
    info = sealed.info
    if recipe is None:
        return info
    if recipe.resize is not None or recipe.center_crop is not None:
        info = with_options(info, size=recipe.fixed_size)
    if recipe.color != "keep":
        info = with_options(info, colorspace="Grayscale" if recipe.color == "gray" else "RGB")
    return info


def statistics_of(job: ConvertJob, sealed: SealedSet) -> Mapping[str, Statistics | None]:
    """Those of the data set that is converted, by split; none if images are stored otherwise."""
    splits = {} if job.works_on_images else sealed.manifest.splits
    return {name: split.statistics for name, split in splits.items()}


def unstored_rows(sealed: SealedSet, *, rejected: bool = True) -> Iterator[pa.Table]:
    """The rows of images that are not in the data set, without the shards they were to be in."""
    import pyarrow.compute as pc

    with RecordsTable(sealed.out, sealed.manifest.records_table) as table:
        for rows in table.between(sealed.records):
            chosen = rows if rejected else rows.filter(pc.not_equal(rows["status"], "rejected"))
            yield chosen.drop_columns(["shard"])


def _split(manifest: Manifest, name: str, request: ConvertRequest, info: DatasetInfo) -> SplitJob:
    split = manifest.splits[name]
    same, usual = len(split.shards), request.load_sink().usual_shards
    like = same if 1 < same <= (usual or same) else None
    return SplitJob(
        name=name,
        shards=choose_shard_count(name, split.records, request, info, like=like),
        shuffle=manifest.shuffle[name],
        images=split.records,
        source_bytes=split.bytes,
    )


@dataclass(frozen=True, slots=True)
class ConvertJob(Job):
    """Makes shards of consecutive examples of a finished data set.

    Attributes:
        manifest_sha256: of its manifest.
        times: when its files were written, as of before they were verified.
        max_pixels: of an image that has to be decoded.
    """

    request: ConvertRequest
    manifest_sha256: str
    times: Times
    max_pixels: int

    @property
    def works_on_images(self) -> bool:
        """Only if they are decoded or encoded; otherwise they are merely read."""
        source = SealedSet.read(self.request.source).sink
        return self.request.recipe is not None or source.pixels != self.sink.pixels

    def items(
        self, shard: ShardName, pool: Executor | None, window: int
    ) -> Iterator[Made | Rejected]:
        """The shard's run of examples, in the form that the format stores."""
        source, own = self.request.source, [name for name, _ in self.attributes]
        try:
            sealed = SealedSet.read(source)
            records, manifest = FinishedSplit(sealed, shard.split), sealed.manifest
            with RecordsTable(source, manifest.records_table) as table:
                if manifest.sha256 != self.manifest_sha256:
                    raise _exchanged(source)
                start, stop = run_of(shard, records.ends)
                first = first_rows(manifest)[shard.split][0]
                rows = table.rows(first + start, first + stop, (*KEPT_COLUMNS, *own))
                run = _paid(records.between(start, stop))
                made = map_in_order(pool, self._change(), run, window)
                for (example, image), row in zip(made, rows, strict=True):
                    yield _with_image(copied(example, row, own), image)
                # Before the shard is committed: what was verified is what was read.
                used = slice(bisect_right(records.ends, start), bisect_left(records.ends, stop) + 1)
                names = [RECORDS, *chain.from_iterable(records.files[used])]
                if _times(source, names) != {name: self.times.get(name) for name in names}:
                    raise _exchanged(source)
        except OSError as error:
            raise unreadable(str(source), error) from error

    def size_ratio(self, shard: ShardName) -> float:
        """As a few images of the shard become; arrays as PNG are taken for as large."""
        if self.request.recipe is None:
            return 1.0
        sealed, change = SealedSet.read(self.request.source), self._change()
        records = FinishedSplit(sealed, shard.split)
        sample = list(islice(records.between(*run_of(shard, records.ends)), SAMPLE))
        made = sum(len(change(example)[0].encoded) for example in sample)
        return made / sum(len(example.encoded) for example in sample)

    def _change(self) -> Callable[[Example], tuple[Example, Prepared | None]]:
        """What is done to each example; to be pickled."""
        if self.request.recipe is not None:
            colorspace = self.info.colorspace
            return partial(_prepared, recipe=self.request.recipe, colorspace=colorspace)
        return partial(_changed, pixels=self.sink.pixels, most=self.max_pixels)


def copied(example: Example, row: Sequence[Any], own: Sequence[str]) -> Made:
    """An example as it is stored, and what is known of it besides.

    Args:
        row: its `KEPT_COLUMNS` of the table of records, then the data set's own.
    """
    channels, status, reason, boxes, *seen = row[: len(KEPT_COLUMNS)]
    looks = None if seen[0] is None else Fingerprint(*seen)
    known = kept_attributes(row, own)
    return Made(example, channels, status, reason, known, boxes or (), None, looks)


def kept_attributes(row: Sequence[Any], own: Sequence[str]) -> dict[str, Value]:
    """What the data set's own columns say, given a row as `copied` has it."""
    known = zip(own, row[len(KEPT_COLUMNS) :], strict=True)
    return {name: value for name, value in known if value is not None}


def _with_image(made: Made, image: Prepared | None) -> Made:
    """The same of an example that was changed, perhaps by decoding and encoding it."""
    if image is not None:
        return with_options(
            made,
            channels=image.channels,
            boxes=image.moved(made.boxes, ())[0],
            measured=image.measured,
            fingerprint=image.fingerprint,
        )
    return (
        with_options(made, channels=made.example.channels) if made.example.format == "RAW" else made
    )


def _exchanged(source: Path) -> SourceError:
    return SourceError(
        f"{source} changed while it was converted; nothing was sealed: leave it alone and run "
        "again with --overwrite"
    )


def run_of(shard: ShardName, ends: Sequence[int]) -> tuple[int, int]:
    """The numbers of a shard's first example and of the one behind its last.

    Args:
        ends: of each shard that there is, the number behind its last example. As many new shards
            get the same examples; another number gets runs whose sizes differ by at most 1, the
            longer ones first, as images are assigned to shards.
    """
    if shard.count == len(ends):
        return (ends[shard.number - 1] if shard.number else 0), ends[shard.number]
    return shard_bounds(ends[-1], shard.count, shard.number)


def _paid(examples: Iterator[Example]) -> Iterator[Example]:
    """The examples, of which each is read when it is asked for."""
    for example in examples:
        pay(len(example.encoded))
        yield example


def _changed(example: Example, *, pixels: bool, most: int) -> tuple[Example, None]:
    if pixels == (example.format == "RAW"):
        return example, None
    if not pixels:
        return _as_file(example), None
    return with_options(example, encoded=pixels_of(example, most).tobytes(), format="RAW"), None


def _as_file(example: Example) -> Example:
    """An array of pixels as PNG, which loses nothing."""
    if example.format != "RAW":
        return example
    png = raw_to_png(example.encoded, example.height, example.width)
    return with_options(example, encoded=png, format="PNG")


def _prepared(example: Example, *, recipe: Recipe, colorspace: str) -> tuple[Example, Prepared]:
    try:
        image = prepare(_as_file(example).encoded, recipe)
    except ImageError as error:
        raise SinkError(f"{printable(example.key)} cannot be converted: {error}") from error
    boxes, box_labels = image.moved(example.boxes, example.box_labels)
    changed = with_options(
        example,
        encoded=image.data,
        format=image.format,
        height=image.height,
        width=image.width,
        colorspace=colorspace,
        boxes=boxes,
        box_labels=box_labels,
    )
    return changed, image
