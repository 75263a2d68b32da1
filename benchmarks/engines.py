"""What does a Dask cluster cost, against this machine's own engine, and how well is it used?

``dataprep imagenet --resize 256`` on two Dask workers against one, and on a cluster against the
direct engine, all on the same cores, which the scheduler and the launcher share with the workers.
What the engine itself costs is in `engine_overhead`, and what follows for larger machines in
`engine_simulation`.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from benchmarks import engine_overhead, engine_simulation, jobs
from benchmarks.dask_cluster import cluster
from benchmarks.measure import Usage
from benchmarks.results import Row, Target, compared
from benchmarks.setting import CannotRunError, Setting
from benchmarks.speed import Speed, rounds, steadies, two_sizes, wholes

_TWICE = Target(">=", 1.85)
_AS_FAST = Target(">=", 0.9)
_SHARD = 250  # images: half a second's work, less than anybody's shard, so that tasks weigh more
_TWO, _ONE, _THREADS, _DIRECT = "2 workers", "1 worker", "1 worker of 2 threads", "direct"
_CLUSTERS = {_TWO: (1, 1), _ONE: (1,), _THREADS: (2,)}  # threads of each worker


def measure(setting: Setting) -> list[Row]:
    """Whole jobs, the engine by itself, and the simulation."""
    if importlib.util.find_spec("distributed") is None:
        raise CannotRunError("Dask is not installed; install the extra: dask")
    return [
        *_whole_jobs(setting),
        *engine_overhead.measure(setting),
        *engine_simulation.rows(),
    ]


def _whole_jobs(setting: Setting) -> list[Row]:
    first, small, large = setting.size((250, 1_000, 4_000), (50, 100, 400))
    shard = setting.size(_SHARD, 25)

    def job(images: int, *options: str) -> Usage:
        return jobs.imagenet(setting, images, "--resize", "256", *options, shard=shard)

    def on(threads: Sequence[int]) -> Callable[[], Speed]:
        def measured() -> Speed:
            with cluster(setting.work / "dask", threads) as found:
                where = ("--runner", "dask", "--dask_client_address", found.address)
                job(first, *where)  # workers load their libraries with the first shard
                return two_sizes(lambda images: job(images, *where), small, large)

        return measured

    job(first)
    found = rounds(
        setting,
        "engines",
        {
            **{name: on(threads) for name, threads in _CLUSTERS.items()},
            _DIRECT: lambda: two_sizes(lambda images: job(images, "--workers", "2"), small, large),
        },
    )
    start = {name: median(_start(speed, large) for speed in found[name]) for name in found}
    return [
        *_pair("2 Dask workers against 1", found, _TWO, _ONE, _TWICE, large),
        *_pair(f"Dask, {_TWO}, against the direct engine", found, _TWO, _DIRECT, _AS_FAST, large),
        *_pair(
            f"Dask, {_THREADS}, against the direct engine",
            found,
            _THREADS,
            _DIRECT,
            _AS_FAST,
            large,
        ),
        Row(
            "start and end of a command: Dask, cluster and libraries being there, against direct",
            _seconds(start[_TWO]),
            _seconds(start[_DIRECT]),
        ),
    ]


def _pair(
    what: str,
    found: Mapping[str, Sequence[Speed]],
    ours: str,
    theirs: str,
    target: Target,
    images: int,
) -> list[Row]:
    sides = found[ours], found[theirs]
    what = f"--resize 256, {what}"
    return [
        compared(f"{what}; steady", *map(steadies, sides), target=target),
        compared(f"{what}; whole command, {images:,} images", *map(wholes, sides), target=target),
    ]


def _start(speed: Speed, images: int) -> float:
    """What is left of the command if it had no images."""
    return images / speed.whole - images / speed.steady


def _seconds(value: float) -> str:
    return "?" if math.isnan(value) else f"{value:.1f} s"
