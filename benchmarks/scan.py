"""How long until the first image of a full ImageNet can be written, and in how much memory?

Finding, scanning and ordering 1,281,167 members in 1000 nested archives, on two cores, in a program
of its own whose start-up counts; then the same again, when the index is there and is only checked.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks import jobs, nested_tars
from benchmarks.measure import CommandFailedError, Usage, run
from benchmarks.results import Row, Target
from benchmarks.setting import Setting

_CORES = 2  # what the target is stated for
_SECONDS = Target("<=", 20, " s")
_MEMORY = Target("<=", 0.5, " GiB")
_AGAIN = Target("<=", 1.5, " s")
_REUSED = Target("<=", 0, text="0")
_GIB = 1 << 30


@dataclass(frozen=True)
class _Run:
    usage: Usage
    parts: int
    steps: dict[str, float]


def measure(setting: Setting) -> list[Row]:
    """A first and a second run, as often as asked."""
    classes, images = setting.size((1000, 1_281_167), (20, 2_000))
    raw = setting.work / f"nested-{images}"
    setting.say(f"making {classes} nested archives of {images:,} members")
    nested_tars.write(raw, classes, images)
    cores = min(_CORES, setting.cores)
    first, second = [], []
    for number in range(1, setting.repeat + 1):
        setting.say(f"scan: run {number} of {setting.repeat}")
        with jobs.fresh(setting.work / "out") as out:
            first.append(_once(raw, out, cores, images))
            second.append(_once(raw, out, cores, images))
    what = f"find, scan, order {images:,} members in nested tars, {cores} cores"
    peaks = tuple(one.usage.peak_bytes / _GIB for one in first)
    anew = tuple(float(one.parts) for one in second)
    return [
        _seconds_row(what, first, _SECONDS),
        _plain_row(f"{what}: largest process", f"{median(peaks):.2f} GiB", peaks, _MEMORY),
        _seconds_row(f"{what}: second run", second, _AGAIN),
        _plain_row(
            f"{what}: second run, parts scanned anew",
            f"{median(anew):,.0f} of {first[0].parts:,}",
            anew,
            _REUSED,
        ),
    ]


def _once(raw: Path, out: Path, cores: int, images: int) -> _Run:
    job = [sys.executable, "-m", "benchmarks.scan_job", "imagenet", "{}"]
    usage = run([*job, str(raw), str(out), str(cores)], watched=True)
    said = json.loads(usage.output.splitlines()[-1])
    if said["images"] != images:
        raise CommandFailedError(f"{said['images']:,} of {images:,} members were found", "")
    return _Run(usage, said["parts"], said["steps"])


def _seconds_row(what: str, runs: list[_Run], target: Target) -> Row:
    steps = ", ".join(
        f"{step} {median(one.steps[step] for one in runs):.1f}" for step in runs[0].steps
    )
    seconds = tuple(one.usage.seconds for one in runs)
    return _plain_row(what, f"{median(seconds):.1f} s ({steps})", seconds, target)


def _plain_row(what: str, ours: str, values: tuple[float, ...], target: Target) -> Row:
    return Row(what, ours, values=values, is_ratio=False, target=target)
