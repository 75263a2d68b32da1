"""How long, and in how much memory, until the first image of a very large set can be written?

``dataprep imagenet`` on 1,281,167 members in 1,000 nested archives, and ``dataprep folder`` on a
list of 14.2 million images, both ended when they begin to write; then the
same again, when the index is there and is only checked. ``DATAPREP_LISTING_ROWS`` is another
length of the list. And the largest process of a whole job, ``--resize 256``, whose images are eight
times as many, in shards of the same size, with the default number of workers and with processes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import raw_sets
from benchmarks.measure import Setting, Usage, fresh, prepared, run
from benchmarks.tables import Row, Target, compared, figure

_ROWS = int(os.environ.get("DATAPREP_LISTING_ROWS", "14_200_000"))
_BEGUN = "write: "  # of the line that is printed when everything is ordered
_GIB = 1 << 30


@dataclass(frozen=True)
class _Case:
    what: str
    raw: Path
    words: Sequence[str | Path]
    seconds: Target | None = None
    memory: Target | None = None
    again: Target | None = None


def measure(setting: Setting) -> list[Row]:
    """A first and a second run of both, as often as asked."""
    images, classes = setting.size((1_281_167, 1_000), (2_000, 20))
    tars = raw_sets.nested_tars(setting, classes, images)
    rows = setting.size(_ROWS, 30_000)
    listed = raw_sets.listing(setting, rows)
    listing = ("folder", "--listing", listed / "listing.csv")
    limits = Target("<=", 20, " s"), Target("<=", 0.5, " GiB"), Target("<=", 1.5, " s")
    cases = [
        _Case(f"{images:,} members in nested tars", tars, ("imagenet",), *limits),
        _Case(f"a list of {rows:,} images", listed, listing, again=limits[2]),
    ]
    grown = [_grown(setting, *options) for options in ((), ("--workers", "8"))]
    return [*(row for case in cases for row in _measure(setting, case)), *grown]


def _grown(setting: Setting, *options: str) -> Row:
    images, shard = setting.size((1_000, 250), (50, 25))
    peaks = []
    for count in (8 * images, images):
        setting.say(f"scan: memory: {count:,} images")
        words = ("--resize", "256", "--splits", "train", "--num_shards", str(count // shard))
        usage = prepared(setting, raw_sets.tree(setting, count), *words, *options)
        peaks.append([usage.peak_bytes / _GIB * 1024])
    what = f"largest process, {' '.join(options) or 'default workers'}: 8 x {images:,} images"
    return compared(what, *peaks, target=Target("<=", 1.1), unit="MiB")


def _measure(setting: Setting, case: _Case) -> list[Row]:
    first, second = [], []
    for number in range(1, setting.repeat + 1):
        setting.say(f"scan: {case.what}: {number} of {setting.repeat}")
        with fresh(setting.work / "out") as out:
            first.append(_once(case, out))
            second.append(_once(case, out))
    what = f"find, scan, order {case.what}, {setting.cores} cores"
    peaks = [usage.peak_bytes / _GIB for usage in first]
    return [
        figure(what, [usage.seconds for usage in first], "s", case.seconds),
        figure(f"{what}: largest process", peaks, "GiB", case.memory),
        figure(f"{what}: second run", [usage.seconds for usage in second], "s", case.again),
    ]


def _once(case: _Case, out: Path) -> Usage:
    places = ("--raw_data_dir", case.raw, "--local_scratch_dir", out, "--splits", "train")
    command, *options = case.words
    job = [sys.executable, "-m", "dataprep", command, *places, *options]
    return run(job, until=_BEGUN)
