"""What a data set of raw images would be: `dataprep.jobs.prepare` up to the plan, elsewhere.

The index goes to a temporary directory, so that OUT is neither needed nor touched.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from dataprep.errors import ImageError, UsageError
from dataprep.images import Recipe, kind_of, prepare
from dataprep.jobs.engine import Engine, Reporter
from dataprep.jobs.job import Job
from dataprep.jobs.prepare import RawData, check_places, found, plan, scan
from dataprep.jobs.raw_images import RawImages
from dataprep.jobs.request import MaxBad, Request, absolute
from dataprep.jobs.summary import open_images, report_summary, summarize
from dataprep.jobs.workspace import Workspace
from dataprep.rows import Row
from dataprep.system.messages import counted, printable, sized
from dataprep_schemas.state import ScanSummary

_SAMPLE: Final = 200  # images that are read
_SECONDS: Final = 10.0  # after which no more are
_SHOWN: Final = 5  # rejected images, and classes
Range = tuple[int, int, int]
"""Least, median and most."""


@dataclass(frozen=True, slots=True)
class PlannedSplit:
    """A split as it would be.

    Attributes:
        images: before any is rejected.
        bytes: of the images as they are in the raw data.
        official: how many images it has in the complete data set, if that is known.
        class_images: images by the identifier of the class, of classes that have any.
        images_per_shard: smallest and largest.
        shard_bytes: about how many a shard would have.
    """

    images: int
    bytes: int
    official: int | None
    class_images: Mapping[str, int]
    shuffle: str
    shards: int
    images_per_shard: tuple[int, int]
    shard_bytes: int


@dataclass(frozen=True, slots=True)
class Sampled:
    """A few images, read and made into what would be stored; not stored.

    Attributes:
        images: how many.
        formats: how many are of each, as they are in the raw data.
        widths: least, median and most, in pixels, as they are in the raw data; None: of none known.
        heights: likewise.
        rejected: how many would be, and a line each on the first few.
        repaired: how many would be stored in another form, since not every reader takes theirs.
        warned: how many would be stored although their decoder complained.
        images_per_second: of one core.
    """

    images: int
    formats: Mapping[str, int]
    widths: Range | None
    heights: Range | None
    rejected: int
    rejects: tuple[str, ...]
    repaired: int
    warned: int
    images_per_second: float


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be made of raw data; nothing was written.

    Attributes:
        dataset: ``imagenet`` or another.
        rule: why it was taken for that; empty if the caller said so.
        found: lines on what was found, how its labels are read, and what would be left out.
        classes: identifier and name, by number.
        ignored: files that are no images.
        excluded: images that a list leaves out.
        missing: images that are listed but not there.
        unlisted: images that are there but not listed.
        refused: why a run would end before it writes; empty if nothing is known to end it.
        needed: about how many bytes the shards would have.
        free: bytes that are free where OUT would be; None if no place was named.
        cores: that the estimate is for.
        seconds: an estimate, from the sample: reading and making the images, not writing them.
    """

    raw: Path
    dataset: str
    sink: str
    rule: str
    found: tuple[str, ...]
    splits: Mapping[str, PlannedSplit]
    classes: tuple[tuple[str, str], ...]
    ignored: int
    excluded: int
    missing: int
    unlisted: int
    refused: str
    sample: Sampled
    needed: int
    free: int | None
    cores: int
    seconds: float

    def __str__(self) -> str:
        """A few lines, and a few a split."""
        return "\n".join(map(printable, self._lines()))

    def _lines(self) -> Iterator[str]:
        yield f"{self.raw}: {self.dataset}{f', {self.rule}' if self.rule else ''}"
        yield from self.found
        for name, split in self.splits.items():
            of = "" if split.official in (None, split.images) else f" of {split.official:,}"
            yield f"{name}: {counted(split.images, 'image')}{of}, {sized(split.bytes)}"
            yield f"  {_classes(split.class_images, len(self.classes))}"
            sizes = " to ".join(f"{size:,}" for size in sorted({*split.images_per_shard}))
            yield (
                f"  {counted(split.shards, 'shard')} of {sizes} images, about "
                f"{sized(split.shard_bytes)} each, {self.sink}, shuffle {split.shuffle}"
            )
        yield from self._of_sample()
        room = "" if self.free is None else f", {sized(self.free)} free"
        short = self.free is not None and self.needed > self.free
        yield f"about {sized(self.needed)} needed{room}{': too little' if short else ''}"
        rate = self.sample.images_per_second * self.cores
        yield (
            f"estimate: {self.seconds:,.0f} seconds on {counted(self.cores, 'core')}, at "
            f"{rate:,.0f} images/s as in the sample, without writing"
        )
        if self.refused:
            yield f"a run would end without writing: {self.refused}"
        yield "nothing was written"

    def _of_sample(self) -> Iterator[str]:
        sample = self.sample
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in sample.formats.items())
        text = f"sample of {counted(sample.images, 'image')}: {kinds or 'no known format'}"
        if sample.widths and sample.heights:
            across, down = (
                f"{least} to {most}, median {middle}"
                for least, middle, most in (sample.widths, sample.heights)
            )
            text += f"; width {across}; height {down}"
        yield text
        yield (
            f"  {sample.rejected:,} would be rejected, {sample.repaired:,} repaired, "
            f"{sample.warned:,} warned"
        )
        yield from (f"  rejected: {text}" for text in sample.rejects)


def _classes(sizes: Mapping[str, int], known: int) -> str:
    """How many there are, and how large they are: all if they are few."""
    text = counted(known, "class", "classes")
    if empty := known - len(sizes):
        text += f" ({empty:,} without images)"
    if len(sizes) <= _SHOWN:
        return f"{text}: {', '.join(f'{name} {size:,}' for name, size in sizes.items())}"
    least, most = min(sizes, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
    return f"{text}: from {least} with {sizes[least]:,} to {most} with {sizes[most]:,}"


def dry_run(
    request: Request, engine: Engine, reporter: Reporter, cores: int, rule: str | None = None
) -> Plan:
    """Find out what a run would make.

    Args:
        engine: of this machine, since no other sees the temporary directory.
        cores: that it has.
        rule: why the raw data is taken for this data set; None: somebody asked for it, and for OUT.

    Raises:
        DataprepError: what a run would raise before it writes, but for images that are missing.
    """
    asked = absolute(request)
    with TemporaryDirectory(prefix="dataprep-") as name:
        scratch = Path(name)
        if scratch.resolve().is_relative_to(asked.raw.resolve()):
            raise UsageError(
                f"the directory of temporary files {scratch.parent} is in the raw data, where its "
                "files would be taken for images; set TMPDIR to another"
            )
        elsewhere = replace(
            asked, out=scratch, index_dir=None, build_dir=None, overwrite=False, append=False
        )
        with found(elsewhere, engine, reporter) as raw:
            if rule is None:
                check_places(asked, raw.found)
            lines = [*raw.found.description]
            made = _planned(replace(raw, report=lines.append), lines, cores)
    place = next(path for path in (asked.out, *asked.out.parents) if path.exists())
    free = shutil.disk_usage(place).free if rule is None else None
    return replace(made, rule=rule or "", free=free)


def _planned(raw: RawData, lines: Sequence[str], cores: int) -> Plan:
    request, dataset = raw.request, raw.dataset
    index = Workspace(request.out).index
    parts = scan(raw, index, trust=True)
    with open_images(parts, dataset, request, None) as images:
        from dataprep.tables.order import sampled

        summary = summarize(request, dataset, raw.found, parts, images, None)
        report_summary(summary, raw.report, stratified=dataset.cut is not None)
        source = RawImages(request.raw, index, request.recipe, dataset.names_files)
        job, _ = plan(raw, request, summary, source)
        sizes = images.class_sizes()
        sample, ratio = _look(source, sampled(images, _SAMPLE, request.seed))
        total = sum(split.images for split in job.splits)
        return Plan(
            raw=request.raw,
            dataset=request.dataset,
            sink=request.sink,
            rule="",
            found=tuple(lines),
            splits=_splits(job, sizes, raw.found.official_counts, ratio),
            classes=tuple(summary.classes),
            ignored=summary.ignored[0],
            excluded=(summary.excluded.images if summary.excluded else 0)
            + images.statuses.get("excluded", 0),
            missing=summary.unmatched.missing,
            unlisted=summary.unmatched.unlisted,
            refused=_refused(summary, request.max_bad),
            sample=sample,
            needed=job.estimate_bytes(job.shard_names(), ratio),
            free=None,
            cores=cores,
            seconds=total / (sample.images_per_second * cores),
        )


def _splits(
    job: Job, sizes: Mapping[str, Mapping[str, int]], official: Mapping[str, int], ratio: float
) -> dict[str, PlannedSplit]:
    return {
        split.name: PlannedSplit(
            images=split.images,
            bytes=split.source_bytes,
            official=official.get(split.name),
            class_images=sizes.get(split.name, {}),
            shuffle=split.shuffle,
            shards=split.shards,
            images_per_shard=(split.images // split.shards, -(-split.images // split.shards)),
            shard_bytes=job.estimate_bytes(split.shard_names(), ratio) // split.shards,
        )
        for split in job.splits
    }


def _refused(summary: ScanSummary, max_bad: MaxBad) -> str:
    images = sum(split.images for split in summary.input.values())
    if max_bad.allows(summary.bad, images + summary.unmatched.missing):
        return ""
    return (
        f"{counted(summary.bad, 'image')} missing, not listed, or unknown in --exclude; "
        f"--max_bad allows {max_bad}"
    )


def _look(source: RawImages, rows: Sequence[Row]) -> tuple[Sampled, float]:
    """Make a few images; and how many bytes are stored for one of theirs."""
    source.convert(rows[0])  # what is loaded for the first is not the images' time
    # As they are: whatever the recipe does, and no further than it takes to know their sizes.
    plain = Recipe(check="header", passes=("JPEG", "PNG"), exif="ignore")
    window, most = source.recipe.dicom_window, source.recipe.max_pixels
    plain = replace(plain, dicom_window=window, max_pixels=most)
    kinds: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    sizes: list[tuple[int, int]] = []
    rejects: list[str] = []
    seconds, seen, before, after = 0.0, 0, 0, 0
    for row in rows:
        began = time.perf_counter()
        _, made = source.convert(row)
        seconds += time.perf_counter() - began
        seen += 1
        if isinstance(made, ImageError):
            rejects.append(f"{row.key}: {made}")
        else:
            before, after = before + row.size, after + len(made.data)
            kind = {note.kind for note in made.notes}
            notes["repaired" if "repaired" in kind else "warned" if kind else ""] += 1
            data = source.read(row)
            kinds[kind_of(data)] += 1
            stored = prepare(data, plain)
            sizes.append((stored.width, stored.height))
        if seconds > _SECONDS:
            break
    widths, heights = (_range([size[at] for size in sizes]) for at in (0, 1))
    sample = Sampled(
        images=seen,
        formats=dict(kinds.most_common()),
        widths=widths,
        heights=heights,
        rejected=len(rejects),
        rejects=tuple(map(printable, rejects[:_SHOWN])),
        repaired=notes["repaired"],
        warned=notes["warned"],
        images_per_second=seen / max(seconds, 1e-6),
    )
    return sample, 1.0 if source.recipe.keeps_bytes or not before else after / before


def _range(sides: Sequence[int]) -> Range | None:
    return (min(sides), int(median(sides)), max(sides)) if sides else None
