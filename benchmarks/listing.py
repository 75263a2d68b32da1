"""How long, in how much memory and on how much disk, until a long listing's first image is written?

``dataprep folder --listing`` up to the first write, in a program of its own: as many images and
classes as ImageNet-22K has; a tenth of them, which tells what a further image takes from what a
process takes anyway; and a tenth with any number of labels. Each is run again with the index in
place. Sizes are listed, so there are no files to look for.

``DATAPREP_LISTING_ROWS`` is another number of images.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks import jobs, listing_file
from benchmarks.measure import CommandFailedError, Usage, run
from benchmarks.results import Row
from benchmarks.setting import CannotRunError, Setting

VARIABLE = "DATAPREP_LISTING_ROWS"

_ROWS, _QUICK_ROWS = 14_200_000, 30_000
_FRACTION = 10
_CORES = 2  # as in scan
_MIB = 1 << 20


@dataclass(frozen=True)
class _Run:
    usage: Usage
    steps: Mapping[str, float]
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class _Case:
    """A listing, and the runs on it: first ones, and second ones that find the index.

    Attributes:
        name: of its file.
        what: is measured.
        images: how many it lists.
        write: makes the file.
        options: of ``dataprep folder``, besides the listing.
    """

    name: str
    what: str
    images: int
    write: Callable[[Path, int], None]
    options: Mapping[str, str] = field(default_factory=dict)
    first: list[_Run] = field(default_factory=list)
    second: list[_Run] = field(default_factory=list)


def measure(setting: Setting) -> list[Row]:
    """Three listings, each twice, as often as asked."""
    images = _images(setting)
    cores = min(_CORES, setting.cores)
    large, small, labels = cases = [
        _case(images, cores, "classes", "one label", listing_file.write_classes),
        _case(images // _FRACTION, cores, "classes", "one label", listing_file.write_classes),
        _case(
            images // _FRACTION,
            cores,
            "findings",
            f"{listing_file.LABEL_SETS} label sets",
            listing_file.write_findings,
            {"label_separator": listing_file.SEPARATOR},
        ),
    ]
    for number in range(1, setting.repeat + 1):
        for case in cases:
            setting.say(f"listing: run {number} of {setting.repeat}: {case.what}")
            with jobs.fresh(setting.work / "out") as out:
                case.first.append(_once(setting, case, out, cores))
                case.second.append(_once(setting, case, out, cores))
    return [*_rows(large), _slope(large, small), *_rows(labels)]


def _images(setting: Setting) -> int:
    text = os.environ.get(VARIABLE)
    if text is None:
        return setting.size(_ROWS, _QUICK_ROWS)
    if not text.isdecimal() or int(text) < _FRACTION * listing_file.LABEL_SETS:
        least = _FRACTION * listing_file.LABEL_SETS
        raise CannotRunError(f"{VARIABLE}={text}: expected a number of images, {least:,} or more")
    return int(text)


def _case(
    images: int,
    cores: int,
    name: str,
    labels: str,
    write: Callable[[Path, int], None],
    options: Mapping[str, str] | None = None,
) -> _Case:
    what = f"find, scan, order a listing of {images:,} images, {labels}, {cores} cores"
    return _Case(f"{name}-{images}.csv", what, images, write, options or {})


def _once(setting: Setting, case: _Case, out: Path, cores: int) -> _Run:
    raw = setting.work / "listing-raw"
    raw.mkdir(exist_ok=True)  # and empty: listings lie beside it, and no file is looked for
    listing = setting.work / case.name
    case.write(listing, case.images)
    options = json.dumps({"listing": str(listing), **case.options})
    job = [sys.executable, "-m", "benchmarks.scan_job", "folder", options]
    usage = run([*job, str(raw), str(out), str(cores)], watched=True)
    said = json.loads(usage.output.splitlines()[-1])
    if said["images"] != case.images:
        raise CommandFailedError(f"{said['images']:,} of {case.images:,} images were found", "")
    return _Run(usage, said["steps"], said["sizes"])


def _rows(case: _Case) -> list[Row]:
    peaks = [one.usage.peak_bytes for one in case.first]
    again = [one.usage.peak_bytes for one in case.second]
    sizes = case.first[0].sizes
    disk = ", ".join(f"{name} {size / case.images:,.0f}" for name, size in sizes.items())
    return [
        _seconds(case.what, case.first, case.images),
        _bytes(f"{case.what}: largest process", peaks, case.images),
        _seconds(f"{case.what}: second run", case.second, case.images),
        _bytes(f"{case.what}: second run, largest process", again, case.images),
        Row(f"{case.what}: disk, bytes an image", disk),
    ]


def _seconds(what: str, runs: Sequence[_Run], images: int) -> Row:
    seconds = tuple(one.usage.seconds for one in runs)
    middle = median(seconds)
    steps = ", ".join(
        f"{step} {median(one.steps[step] for one in runs):.1f}" for step in runs[0].steps
    )
    ours = f"{middle:.1f} s ({steps}), {images / middle:,.0f} images/s"
    return Row(what, ours, values=seconds, is_ratio=False)


def _bytes(what: str, peaks: Sequence[int], images: int) -> Row:
    middle = median(peaks)
    ours = f"{middle / _MIB:,.0f} MiB, {middle / images:,.0f} bytes an image"
    return Row(what, ours, values=tuple(peak / _MIB for peak in peaks), is_ratio=False)


def _slope(large: _Case, small: _Case) -> Row:
    """What each image more adds to the largest process."""
    slopes = tuple(
        (much.usage.peak_bytes - little.usage.peak_bytes) / (large.images - small.images)
        for much, little in zip(large.first, small.first, strict=True)
    )
    what = f"listing of {large.images:,} images against {small.images:,}: each further image"
    return Row(what, f"{median(slopes):,.0f} bytes", values=slopes, is_ratio=False)
