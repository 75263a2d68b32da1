"""How much of the machine does preparing use, and how much of the time goes elsewhere?

``dataprep imagenet`` from the page cache, against the number of cores times a bare loop of what
cannot be left out (`bare_loop`): with ``--check header`` and the default check it reads, hashes and
writes the same images, and decodes them as the check does; with ``--resize 256`` it decodes,
resizes and encodes them in memory. The loop's rate on one core is of its processor time, as if the
disk never kept it waiting; on all cores at once, by the clock, it shows what this machine allows.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

from benchmarks import raw_sets
from benchmarks.measure import Setting, Usage, fresh, prepared, rounds, run, two_sizes
from benchmarks.tables import Row, Target, compared

# As a large job works, with as many processes, on fewer images, which leave the page cache room.
_AS_LARGE = (
    "import sys; from dataprep.cli import main; from dataprep_pipelines.runners import local; "
    "local.LARGE = 1; sys.exit(main())"
)
_SHARD = 1000  # images


@dataclass(frozen=True)
class _Case:
    """What is done: our options, the loop's name for it, and how many images."""

    options: tuple[str, ...]
    loop: str
    sizes: tuple[int, int]
    target: Target


_CASES = (
    _Case(("--check", "header"), "header", (8_000, 32_000), Target(">=", 0.8)),
    _Case((), "bitstream", (8_000, 32_000), Target(">=", 0.93)),
    _Case(("--resize", "256"), "resize", (1_000, 8_000), Target(">=", 0.93)),
)


def measure(setting: Setting) -> list[Row]:
    """Ours at two sizes, the bare loop on one core and on all; the whole command, too."""
    return [row for case in _CASES for row in _measure(setting, case)]


def _measure(setting: Setting, case: _Case) -> list[Row]:
    small, large = setting.size(case.sizes, (100, 400))
    name = " ".join(case.options) or "default check"

    def ours(images: int, *program: str) -> Usage:
        shards = ("--splits", "train", "--num_shards", str(max(images // _SHARD, 1)))
        raw = raw_sets.tree(setting, images)
        return prepared(setting, raw, *shards, *case.options, program=program)

    def loop(rate: str, processes: int) -> float:
        with fresh(setting.work / "loop") as out:
            words = (case.loop, raw_sets.tree(setting, small), out, str(processes))
            said = run([sys.executable, "-m", "benchmarks.bare_loop", *words], flush=True).lines
        return float(json.loads(said[-1][1])[rate])

    steady, whole, one, all_ = "steady", "whole command", "loop, one core", "loop, all cores"
    found = rounds(
        setting,
        name,
        {
            steady: lambda: two_sizes(lambda it: ours(it, "-c", _AS_LARGE), small, large).steady,
            whole: lambda: large / ours(large, "-m", "dataprep").seconds,
            one: lambda: loop("per_cpu", 1),
            all_: lambda: loop("wall", setting.cores),
        },
        warm_up=[lambda: ours(small, "-m", "dataprep"), lambda: loop("wall", 1)],
    )
    what = f"{name}, against cores x a bare loop's processor time"
    cores = setting.cores
    return [
        compared(f"{what}; {steady}", found[steady], found[one], target=case.target, factor=cores),
        compared(
            f"{what}; {whole}, {large:,} images",
            *(found[whole], found[one]),
            target=case.target,
            factor=cores,
        ),
        compared(
            f"{name}, against the bare loop on all cores at once; {steady}",
            *(found[steady], found[all_]),
        ),
    ]
