"""Is preparing without decoding nearly as fast as copying the files?

``dataprep imagenet --check header`` against ``cp -r`` of the same tree, each followed by ``sync``,
each into a fresh directory, from the page cache.
"""

from __future__ import annotations

from benchmarks import jobs, raw_set
from benchmarks.measure import Usage, run
from benchmarks.results import Row, Target, compared
from benchmarks.setting import Setting
from benchmarks.speed import alternate, steadies, two_sizes, wholes

_TARGET = Target(">=", 0.8)


def measure(setting: Setting) -> list[Row]:
    """Both sides at two sizes each."""
    small, large = setting.size((4_000, 32_000), (100, 400))

    def ours(images: int) -> Usage:
        return jobs.imagenet(setting, images, "--check", "header")

    def theirs(images: int) -> Usage:
        tree = raw_set.tree(setting, images)
        with jobs.fresh(setting.work / "copy") as copy:
            return run(["cp", "-r", tree, copy], flush=True)

    pairs = alternate(
        setting,
        "header_copy",
        lambda: two_sizes(ours, small, large),
        lambda: two_sizes(theirs, small, large),
        warm_up=[lambda: ours(small), lambda: theirs(small)],
    )
    our_speeds, their_speeds = zip(*pairs, strict=True)
    what = "--check header, against cp -r, both with sync"
    return [
        compared(f"{what}; steady", steadies(our_speeds), steadies(their_speeds), target=_TARGET),
        compared(
            f"{what}; whole command, {large:,} images",
            wholes(our_speeds),
            wholes(their_speeds),
            target=_TARGET,
        ),
    ]
