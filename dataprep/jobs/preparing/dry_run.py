"""What a data set of raw images would be: what `prepare` does up to the plan, elsewhere.

The index goes to a temporary directory, so that OUT is neither needed nor touched.
"""

from __future__ import annotations

import math
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from dataprep.errors import ImageError, UsageError
from dataprep.images import Recipe, kind_of, prepare
from dataprep.jobs.preparing.found import RawData, check_places, found, ready, scan
from dataprep.jobs.preparing.prepare import plan
from dataprep.jobs.preparing.raw_images import RawImages
from dataprep.jobs.preparing.summary import open_images, summarize
from dataprep.jobs.request import MaxBad, Request
from dataprep.jobs.running.engine import Engine, Reporter
from dataprep.jobs.running.job import SplitJob
from dataprep.remote.store import address_of
from dataprep.rows import Row
from dataprep.system.messages import counted, printable, sized
from dataprep_schemas.state import ScanSummary

_SAMPLE: Final = 200  # images that are read
_SECONDS: Final = 10.0  # after which no more are
_MOST_COPIED: Final = 1 << 30  # bytes of images that cannot be read where they lie
_SHOWN: Final = 5  # rejected images, and classes


@dataclass(frozen=True, slots=True)
class PlannedSplit:
    """A split as it would be.

    Attributes:
        images: before any is rejected.
        bytes: of the images as they are in the raw data.
        official: how many images it has in the complete data set, if that is known.
        class_images: images by the identifier of the class, of classes that have any.
        shuffle: ``stratified``, ``global`` or ``none``.
        shards: how many.
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

    def lines(self, name: str, classes: int, sink: str) -> Iterator[str]:
        """For a person."""
        of = "" if self.official in (None, self.images) else f" of {self.official:,}"
        yield f"{name}: {counted(self.images, 'image')}{of}, {sized(self.bytes)}"
        yield f"  {_classes(self.class_images, classes)}"
        sizes = " to ".join(f"{size:,}" for size in sorted({*self.images_per_shard}))
        yield (
            f"  {counted(self.shards, 'shard')} of {sizes} images, about {sized(self.shard_bytes)} "
            f"a shard, {sink}, shuffle {self.shuffle}"
        )


@dataclass(frozen=True, slots=True)
class Sampled:
    """A few images, read and made into what would be stored; not stored.

    Attributes:
        images: how many.
        formats: how many are of each, as they are in the raw data.
        widths: least, median and most, in pixels, as they are there; empty if none is known.
        heights: likewise.
        statuses: how many would be ``stored``, ``repaired``, ``warned`` and ``rejected``.
        rejects: a line each on the first few that would be rejected.
        images_per_second: of one core.
    """

    images: int
    formats: Mapping[str, int]
    widths: tuple[int, ...]
    heights: tuple[int, ...]
    statuses: Mapping[str, int]
    rejects: tuple[str, ...]
    images_per_second: float

    def lines(self) -> Iterator[str]:
        """For a person."""
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in self.formats.items())
        text = f"sample of {counted(self.images, 'image')}: {kinds or 'no known format'}"
        for side, sizes in {"width": self.widths, "height": self.heights}.items():
            if sizes:
                text += f"; {side} {sizes[0]:,} to {sizes[2]:,}, median {sizes[1]:,}"
        yield text
        yield "  " + ", ".join(f"{number:,} {status}" for status, number in self.statuses.items())
        yield from (f"  rejected: {text}" for text in self.rejects)


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be made of raw data; nothing was written.

    Attributes:
        raw: the raw data, or its address.
        dataset: ``imagenet`` or another.
        sink: the format.
        rule: why it was taken for this data set; empty if the caller said so.
        found: lines on what was found, how labels are read, and what would be left out.
        splits: each as it would be, by name.
        classes: identifier and name, by number.
        left_out: how many files or names are ``ignored``, ``excluded``, ``missing`` (listed, but
            not there) and ``unlisted``.
        refused: why a run would end before it writes, as far as that is known.
        sample: what was found of a few images.
        needed: about how many bytes the shards would have.
        free: bytes that are free where OUT would be; None if no place was named.
        cores: that the estimate is for.
        seconds: an estimate, from the sample: reading and making the images, not writing them.
    """

    raw: Path | str
    dataset: str
    sink: str
    rule: str
    found: tuple[str, ...]
    splits: Mapping[str, PlannedSplit]
    classes: tuple[tuple[str, str], ...]
    left_out: Mapping[str, int]
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
            yield from split.lines(name, len(self.classes), self.sink)
        yield from self.sample.lines()
        room = "" if self.free is None else f", {sized(self.free)} free"
        short = self.free is not None and self.needed > self.free
        yield f"about {sized(self.needed)} needed{room}{': too little' if short else ''}"
        yield (
            f"estimate from the sample: {counted(math.ceil(self.seconds), 'second')} on "
            f"{counted(self.cores, 'core')}, and what writing takes"
        )
        if self.refused:
            yield f"a run would end without writing: {self.refused}"
        yield "nothing was written"


def _classes(sizes: Mapping[str, int], known: int) -> str:
    """How many there are, and how large they are: all if they are few."""
    shown = sorted(sizes, key=sizes.__getitem__, reverse=True)
    if len(shown) > _SHOWN:
        shown = [shown[0], shown[-1]]
    empty = f" ({known - len(sizes):,} without images)" if known > len(sizes) else ""
    named = f"{', ' if len(sizes) <= _SHOWN else ' to '}".join(
        f"{name} {sizes[name]:,}" for name in shown
    )
    return f"{counted(known, 'class', 'classes')}{empty}: {named or 'no image has one'}"


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
    with TemporaryDirectory(prefix="dataprep-") as name:
        elsewhere = replace(
            request, out=Path(name), index_dir=None, build_dir=None, overwrite=False
        )
        with found(ready(elsewhere), engine, reporter) as raw:
            if rule is None:
                check_places(request, raw.found)
            if raw.found.copied > _MOST_COPIED:
                raise UsageError(
                    f"{sized(raw.found.copied)} of images in compressed files would have to be "
                    "copied to look at them; look at fewer, such as dataprep shards --dry_run "
                    "--files"
                )
            lines = [*raw.found.description]
            made = _planned(replace(raw, report=lines.append), lines, cores)
    above = (request.out, *request.out.parents)
    # Unlike a path's own method, it takes what may not be looked at for absent.
    place = next(path for path in above if os.path.exists(path))  # noqa: PTH110
    free = shutil.disk_usage(place).free if rule is None else None
    shown = address_of(request.raw) or request.raw
    return replace(made, raw=shown, rule=rule or "", free=free)


def _planned(raw: RawData, lines: Sequence[str], cores: int) -> Plan:
    request = raw.request
    parts = scan(raw, trust=True)
    with open_images(raw, request, parts, None) as images:
        from dataprep.tables.order import sampled

        summary = summarize(raw, request, parts, images, None)
        source = raw.images(request, parts)
        job, _ = plan(raw, request, summary, source)
        sizes = images.class_sizes()
        sample, ratio = _look(source, sampled(images, _SAMPLE, request.seed))
        total, left = sum(split.images for split in job.splits), summary.excluded
        return Plan(
            raw=request.raw,
            dataset=request.dataset,
            sink=request.sink,
            rule="",
            found=tuple(lines),
            splits={
                split.name: _planned_split(
                    split,
                    raw.found.official_counts.get(split.name),
                    sizes.get(split.name, {}),
                    job.estimate_bytes(split.shard_names(), ratio),
                )
                for split in job.splits
            },
            classes=tuple(summary.classes),
            left_out={
                "ignored": summary.ignored[0],
                "excluded": (left.images if left else 0) + images.statuses.get("excluded", 0),
                "missing": summary.unmatched.missing,
                "unlisted": summary.unmatched.unlisted,
            },
            refused=_refused(summary, request.max_bad),
            sample=sample,
            needed=job.estimate_bytes(job.shard_names(), ratio),
            free=None,
            cores=cores,
            seconds=total / (sample.images_per_second * cores),
        )


def _planned_split(
    split: SplitJob, official: int | None, class_images: Mapping[str, int], size: int
) -> PlannedSplit:
    return PlannedSplit(
        images=split.images,
        bytes=split.source_bytes,
        official=official,
        class_images=class_images,
        shuffle=split.shuffle,
        shards=split.shards,
        images_per_shard=(split.images // split.shards, -(-split.images // split.shards)),
        shard_bytes=size // split.shards,
    )


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
    statuses = dict.fromkeys(("stored", "repaired", "warned", "rejected"), 0)
    sizes: list[tuple[int, int]] = []
    rejects: list[str] = []
    seconds, before, after = 0.0, 0, 0
    for row in rows:
        began = time.perf_counter()
        _, made, _ = source.convert(row)
        seconds += time.perf_counter() - began
        if isinstance(made, ImageError):
            statuses["rejected"] += 1
            rejects.append(printable(f"{row.key}: {made}"))
        else:
            noted = sorted(note.kind for note in made.notes)  # repaired before warned
            statuses[noted[0] if noted else "stored"] += 1
            before, after = before + row.size // (*row.frame, 1, 1)[1], after + len(made.data)
            data = source.read(row)
            kinds[kind_of(data)] += 1
            whole = prepare(data, plain, row.frame)
            sizes.append((whole.width, whole.height))
        if seconds > _SECONDS:
            break
    seen = sum(statuses.values())
    widths, heights = (_range(sorted(size[at] for size in sizes)) for at in (0, 1))
    shown, speed = tuple(rejects[:_SHOWN]), seen / max(seconds, 1e-6)
    sample = Sampled(seen, dict(kinds.most_common()), widths, heights, statuses, shown, speed)
    return sample, 1.0 if source.recipe.keeps_bytes or not before else after / before


def _range(sides: Sequence[int]) -> tuple[int, ...]:
    return (sides[0], sides[len(sides) // 2], sides[-1]) if sides else ()
