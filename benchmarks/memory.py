"""Does the memory of any process grow with the data set?

Peak resident memory of the largest process of ``dataprep imagenet --resize 256`` on N and on 8 N
images in shards of the same size: with the default number of workers, and with so many that they
are processes of their own.
"""

from __future__ import annotations

from benchmarks import raw_sets
from benchmarks.measure import Setting, prepared
from benchmarks.tables import Row, Target, compared

_TIMES = 8
_PROCESSES = ("--workers", "8")  # two of four threads
# Allocators keep what the largest images in flight needed, and which those are is luck.
_TARGET = Target("<=", 1.1)
_MIB = 1 << 20


def measure(setting: Setting) -> list[Row]:
    """Both sizes, for each number of workers."""
    images, shard = setting.size((1_000, 250), (50, 25))

    def peak(count: int, options: tuple[str, ...]) -> float:
        shards = ("--splits", "train", "--num_shards", str(count // shard))
        raw = raw_sets.tree(setting, count)
        return prepared(setting, raw, "--resize", "256", *shards, *options).peak_bytes / _MIB

    rows = []
    for name, options in {"default workers": (), " ".join(_PROCESSES): _PROCESSES}.items():
        setting.say(f"memory: {name}, {images:,} and {_TIMES * images:,} images")
        what = f"largest process, {name}: {_TIMES * images:,} images against {images:,}"
        sides = [peak(_TIMES * images, options)], [peak(images, options)]
        rows.append(compared(what, *sides, target=_TARGET, unit="MiB"))
    return rows
