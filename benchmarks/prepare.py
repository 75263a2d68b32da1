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
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks import raw_sets
from benchmarks.measure import Setting, Speed, Usage, fresh, prepared, rounds, run, two_sizes
from benchmarks.tables import Row, Target, compared

_SHARD = 1000  # images


@dataclass(frozen=True)
class _Case:
    """What is done: our options, the loop's name for it, and how many images."""

    options: tuple[str, ...]
    loop: str
    sizes: tuple[int, int]
    target: Target


_CASES = (
    _Case(("--check", "header"), "header", (8_000, 72_000), Target(">=", 0.8)),
    _Case((), "bitstream", (8_000, 72_000), Target(">=", 0.93)),
    _Case(("--resize", "256"), "resize", (4_000, 14_400), Target(">=", 0.93)),
)


def measure(setting: Setting) -> list[Row]:
    """Ours at two sizes, the bare loop on one core and on all; the whole command, too."""
    return [row for case in _CASES for row in _measure(setting, case)]


def _measure(setting: Setting, case: _Case) -> list[Row]:
    small, large = setting.size(case.sizes, (100, 400))
    name = " ".join(case.options) or "default check"

    def ours(images: int) -> Usage:
        shards = ("--splits", "train", "--num_shards", str(max(images // _SHARD, 1)))
        return prepared(setting, raw_sets.tree(setting, images), *shards, *case.options)

    def loop(processes: int) -> Speed:
        with fresh(setting.work / "loop") as out:
            words = (case.loop, raw_sets.tree(setting, large), out, str(processes))
            said = run([sys.executable, "-m", "benchmarks.bare_loop", *words], flush=True).lines
        rates = json.loads(said[-1][1])
        return Speed(*[rates["wall"]] * 2, *[rates["per_cpu"]] * 2)

    programs = {
        "ours": partial(two_sizes, ours, small, large),
        "loop, one core": partial(loop, 1),
        "loop, all cores": partial(loop, setting.cores),
    }
    warm_up: list[Callable[[], object]] = [lambda: ours(small), partial(loop, 1)]
    found, one, all_ = rounds(setting, name, programs, warm_up=warm_up).values()
    steady, whole = [it.steady for it in found], [it.whole for it in found]
    together, alone = [it.whole for it in all_], [it.whole_per_cpu for it in one]
    job = f"whole command, {large:,} images"
    at_once = f"{name}, against the bare loop on all cores at once"
    one_core = f"{name}, against cores x a bare loop's processor time; {job}"
    return [
        compared(f"{at_once}; steady", steady, together),
        compared(f"{at_once}; {job}", whole, together, target=case.target),
        compared(one_core, whole, alone, factor=setting.cores),
    ]
