"""How much of the machine does resizing use, and how much of the time goes elsewhere?

``dataprep imagenet --resize 256`` against the number of cores times a bare loop of the same
decode, resize and encode calls on one core. A machine need not be able to do that: cores share
caches and power. So the bare loop also runs on all cores at once, which is the true ceiling.
"""

from __future__ import annotations

import json
import sys

from benchmarks import jobs, raw_set
from benchmarks.measure import Usage, run
from benchmarks.results import Row, Target, compared
from benchmarks.setting import Setting
from benchmarks.speed import alternate, steadies, two_sizes, wholes

_TARGET = Target(">=", 0.93)


def measure(setting: Setting) -> list[Row]:
    """Ours at two sizes, the bare loop on one core and on all."""
    small, large = setting.size((1_000, 8_000), (100, 400))

    def ours(images: int) -> Usage:
        return jobs.imagenet(setting, images, "--resize", "256")

    def bare(processes: int) -> float:
        raw = raw_set.tree(setting, small)
        loop = [sys.executable, "-m", "benchmarks.bare_loop"]
        said = run([*loop, str(raw), str(small), str(processes)]).output.splitlines()[-1]
        return float(json.loads(said)["rate"])

    pairs = alternate(
        setting,
        "resize",
        lambda: two_sizes(ours, small, large),
        lambda: (bare(1), bare(setting.cores)),
        warm_up=[lambda: ours(small), lambda: bare(1)],
    )
    our_speeds, their_speeds = zip(*pairs, strict=True)
    single, together = zip(*their_speeds, strict=True)
    what = "--resize 256, against cores x a bare loop on one core"
    return [
        compared(
            f"{what}; steady",
            steadies(our_speeds),
            single,
            target=_TARGET,
            factor=setting.cores,
        ),
        compared(
            f"{what}; whole command, {large:,} images",
            wholes(our_speeds),
            single,
            target=_TARGET,
            factor=setting.cores,
        ),
        compared(
            "--resize 256, against the bare loop on all cores at once; steady",
            steadies(our_speeds),
            together,
        ),
    ]
