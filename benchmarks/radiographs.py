"""What do archives cost beside folders, and how fast is the loop that everybody writes?

``dataprep chestxray14`` on radiographs of the real size, 8-bit grey PNGs of 1024 x 1024: the same
images in folders, tars, gzipped tars and zips, all in the same rounds; kept, and resized to JPEGs.
Then the gzipped tars, as they are published, against a loop over unpacked folders, which is one
process by design: alone, and with the time that ``tar`` takes to unpack them before.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from benchmarks import jobs, loops, radiograph_set
from benchmarks.measure import CommandFailedError, Usage, run
from benchmarks.radiograph_set import LAYOUTS, radiographs
from benchmarks.results import Row
from benchmarks.setting import CannotRunError, Setting
from benchmarks.speed import Speed, beside, rounds, two_sizes
from dataprep.synthesize.chestxray14 import ChestXray14Layout

_SHARDS = 4
_BASE: ChestXray14Layout = "folders"
_PUBLISHED: ChestXray14Layout = "tar.gz"
_LOOP = "the usual loop over unpacked folders"
_UNPACKING = "tar -xzf and then that loop"


@dataclass(frozen=True)
class _Variant:
    """One way of preparing.

    Attributes:
        name: what rows call it.
        options: of ``dataprep chestxray14``.
        size: what the loop resizes to; 0: it keeps images.
    """

    name: str
    options: tuple[str, ...]
    size: int


_VARIANTS = (
    _Variant("kept, default check", (), 0),
    _Variant("--resize 256 --encoding jpeg", ("--resize", "256", "--encoding", "jpeg"), 256),
)


@dataclass(frozen=True)
class _Sets:
    """A small and a large set: how many patients there are in that of so many images."""

    setting: Setting
    patients: Mapping[int, int]

    def speed(self, job: Callable[[int], Usage]) -> Speed:
        """What a program does a second, given what it does with so many patients' images."""
        small, large = sorted(self.patients)
        return two_sizes(lambda images: job(self.patients[images]), small, large)


def measure(setting: Setting) -> list[Row]:
    """Every layout and the loop, kept and resized, in the same rounds."""
    sets, missing = _make(setting), []
    try:
        loops.check_tensorflow()
    except CannotRunError as error:
        missing.append(Row(f"radiographs: {_LOOP}", problem=str(error)))
    rows = []
    for variant in _VARIANTS:
        jobs_by_name: dict[str, Callable[[int], Usage]] = {
            layout: partial(_prepare, setting, variant, layout) for layout in LAYOUTS
        }
        if not missing:
            jobs_by_name[_LOOP] = partial(_loop, setting, variant)
            jobs_by_name[_UNPACKING] = partial(_unpack_and_loop, setting, variant)
        setting.say(f"radiographs: {variant.name}: warming up")
        for job in jobs_by_name.values():
            job(min(sets.patients.values()))
        programs = {name: partial(sets.speed, job) for name, job in jobs_by_name.items()}
        rows += _rows(variant, sets, rounds(setting, f"radiographs: {variant.name}", programs))
    return [*rows, *missing]


def _make(setting: Setting) -> _Sets:
    patients = setting.size((40, 240), (10, 30))
    sets = {radiograph_set.count(radiographs(setting, each, _BASE)): each for each in patients}
    for each in patients:
        for layout in LAYOUTS:
            radiographs(setting, each, layout)
    return _Sets(setting, sets)


def _prepare(
    setting: Setting, variant: _Variant, layout: ChestXray14Layout, patients: int
) -> Usage:
    with jobs.fresh(setting.work / "out") as out:
        return run(
            [
                *(sys.executable, "-m", "dataprep", "chestxray14"),
                *("--raw_data_dir", radiographs(setting, patients, layout)),
                *("--local_scratch_dir", out, "--num_shards", str(_SHARDS)),
                # Of so few patients perhaps none would be for validation.
                *("--validation_fraction", "0", *variant.options),
            ],
            flush=True,
        )


def _loop(setting: Setting, variant: _Variant, patients: int) -> Usage:
    folders = radiographs(setting, patients, _BASE)
    job = [sys.executable, "-m", "benchmarks.radiograph_script", folders]
    with jobs.fresh(setting.work / "loop") as out:
        usage = run([*job, out, str(variant.size), str(_SHARDS)], flush=True)
    said = json.loads(usage.output.splitlines()[-1])
    if said["images"] != (there := radiograph_set.count(folders)):
        raise CommandFailedError(f"{said['images']:,} of {there:,} images were written", "")
    return replace(usage, seconds=said["seconds"], cpu_seconds=said["cpu_seconds"])


def _unpack_and_loop(setting: Setting, variant: _Variant, patients: int) -> Usage:
    with jobs.fresh(setting.work / "unpacked") as directory:
        directory.mkdir()
        unpacking = radiograph_set.unpack(radiographs(setting, patients, _PUBLISHED), directory)
    loop = _loop(setting, variant, patients)
    return replace(
        loop,
        seconds=unpacking.seconds + loop.seconds,
        cpu_seconds=unpacking.cpu_seconds + loop.cpu_seconds,
    )


def _rows(variant: _Variant, sets: _Sets, speeds: Mapping[str, Sequence[Speed]]) -> list[Row]:
    size = f"{max(sets.patients):,} images"
    rows = []
    for layout in LAYOUTS:
        if layout != _BASE:
            what = f"radiographs, {variant.name}: {layout} against {_BASE}"
            rows += beside(what, speeds[layout], speeds[_BASE], whole=size)
    for peer in (_LOOP, _UNPACKING):
        if peer in speeds:
            what = f"radiographs, {variant.name}: {_PUBLISHED} against {peer}"
            whole = f"{size}; theirs without start-up"
            rows += beside(what, speeds[_PUBLISHED], speeds[peer], whole=whole)
    return rows
