"""How much faster than the TPU script's loop is preparing with the default check?

The loop is one process by design and dataprep uses every core, so the ratio grows with the cores.
The loop has no start-up in its time (see loops), so it is measured on fewer images; ours is
measured with its start-up and without.
"""

from __future__ import annotations

from benchmarks import jobs, loops
from benchmarks.measure import Usage
from benchmarks.results import Row, Target, compared
from benchmarks.setting import Setting
from benchmarks.speed import alternate, steadies, two_sizes, wholes

_TARGET = Target(">=", 6)


def measure(setting: Setting) -> list[Row]:
    """Ours at two sizes, the loop on a smaller tree."""
    loops.check_tensorflow()
    small, large = setting.size((4_000, 32_000), (100, 400))
    count = setting.size(2_000, 50)

    def ours(images: int) -> Usage:
        return jobs.imagenet(setting, images)

    def theirs() -> float:
        return count / loops.tpu(setting, count, shards=2).seconds

    pairs = alternate(
        setting,
        "tpu_loop",
        lambda: two_sizes(ours, small, large),
        theirs,
        warm_up=[lambda: ours(small), theirs],
    )
    our_speeds, their_speeds = zip(*pairs, strict=True)
    what = f"default check on {setting.cores} cores, against the TPU script's loop"
    return [
        compared(f"{what}; steady", steadies(our_speeds), their_speeds, target=_TARGET),
        compared(
            f"{what}; whole command, {large:,} images",
            wholes(our_speeds),
            their_speeds,
            target=_TARGET,
        ),
    ]
