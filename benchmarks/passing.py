"""How much of the machine does passing images through use, and how much of the time goes elsewhere?

``dataprep imagenet`` with ``--check header`` and with the default check, from the page cache,
against the number of cores times a bare loop that reads, hashes and writes the same images. The
loop's rate is that of its processor time, as if the disk never kept it waiting. On all cores at
once, by the clock, it shows what this machine's memory and disk allow.
"""

from __future__ import annotations

import json
import sys

from benchmarks import jobs, raw_set
from benchmarks.measure import Usage, run
from benchmarks.results import Row, Target, compared
from benchmarks.setting import Setting
from benchmarks.speed import alternate, steadies, two_sizes

_CASES = {
    "--check header": (("--check", "header"), (), Target(">=", 0.75)),
    "default check": ((), ("scan",), Target(">=", 0.95)),
}


def measure(setting: Setting) -> list[Row]:
    """Ours at two sizes, the bare loop on one core and on all; the whole command, too."""
    return [row for name in _CASES for row in _measure(setting, name)]


def _measure(setting: Setting, name: str) -> list[Row]:
    small, large = setting.size((8_000, 32_000), (100, 400))
    options, scan, target = _CASES[name]

    def ours(images: int) -> Usage:
        return jobs.imagenet(setting, images, *options, program="benchmarks.large_job")

    def whole() -> float:
        return large / jobs.imagenet(setting, large, *options).seconds

    def bare(processes: int) -> tuple[float, float]:
        raw = raw_set.tree(setting, small)
        with jobs.fresh(setting.work / "loop") as out:
            loop = [sys.executable, "-m", "benchmarks.passing_loop", raw, out, str(processes)]
            said = json.loads(run([*loop, *scan], flush=True).output.splitlines()[-1])
        return said["per_cpu"], said["wall"]

    pairs = alternate(
        setting,
        f"passing, {name}",
        lambda: (two_sizes(ours, small, large), whole()),
        lambda: (bare(1)[0], bare(setting.cores)[1]),
        warm_up=[lambda: ours(small), lambda: bare(1)],
    )
    our_speeds, their_speeds = zip(*pairs, strict=True)
    steady, wholes = zip(*our_speeds, strict=True)
    single, together = zip(*their_speeds, strict=True)
    per_cpu = [speed.steady_per_cpu for speed in steady]
    what = f"{name}, against cores x a bare loop's processor time"
    cores = setting.cores
    return [
        compared(f"{what}; steady", steadies(steady), single, target=target, factor=cores),
        compared(f"{what}; whole command, {large:,} images", wholes, single, factor=cores),
        compared(f"{name}, against the bare loop on all cores; steady", steadies(steady), together),
        compared(f"{name}, a second of processor time of both; steady", per_cpu, single),
    ]
