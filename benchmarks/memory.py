"""Does the memory of any process grow with the data set?

Peak resident memory, by role, of ``dataprep imagenet --resize 256`` on N and on 8 N images in
shards of the same size: with the default number of workers, and with so many that they are
processes of their own.
"""

from __future__ import annotations

from benchmarks import jobs
from benchmarks.measure import Usage
from benchmarks.results import Row, Target
from benchmarks.setting import Setting
from dataprep_pipelines.runners.local import THREADS_PER_PROCESS

_TIMES = 8
# Allocators keep what the largest images in flight needed, and which those are is luck.
_TARGET = Target("<=", 1.1)
_MIB = 1 << 20


def measure(setting: Setting) -> list[Row]:
    """Both sizes, for each number of workers."""
    images = setting.size(1_000, 50)
    shard = setting.size(250, 25)
    many = 2 * THREADS_PER_PROCESS
    default: tuple[str, ...] = ()
    counts = {"default workers": default}
    if setting.cores <= THREADS_PER_PROCESS:
        counts[f"--workers {many}"] = ("--workers", str(many))
    rows = []
    for name, options in counts.items():
        setting.say(f"memory: {name}, {images:,} and {_TIMES * images:,} images")
        small, large = (
            jobs.imagenet(setting, size, "--resize", "256", *options, shard=shard, watched=True)
            for size in (images, _TIMES * images)
        )
        rows += _rows(f"peak memory, {name}", images, small, large)
    return rows


def _rows(what: str, images: int, small: Usage, large: Usage) -> list[Row]:
    return [
        Row(
            f"{what}: largest {role}, {_TIMES * images:,} images against {images:,}",
            f"{large.peaks[role] / _MIB:,.0f} MiB",
            f"{small.peaks[role] / _MIB:,.0f} MiB",
            (large.peaks[role] / small.peaks[role],),
            target=_TARGET,
        )
        for role in ("launcher", "worker")
        if role in large.peaks and role in small.peaks
    ]
