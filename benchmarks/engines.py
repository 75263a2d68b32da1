"""What does a Dask cluster cost, against this machine's own engine?

``dataprep imagenet --resize 256`` on two Dask workers against one, and on a cluster against the
direct engine, all on the same cores, which the scheduler and the launcher share with the workers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

from benchmarks import raw_sets
from benchmarks.measure import CannotRunError, Setting, Speed, Usage, prepared, rounds, two_sizes
from benchmarks.tables import Row, Target, compared

_SHARD = 250  # images: half a second's work, less than anybody's shard, so that tasks weigh more
_TWO, _ONE, _THREADS, _DIRECT = "2 workers", "1 worker", "1 worker of 2 threads", "direct"
_CLUSTERS = {_TWO: (2, 1), _ONE: (1, 1), _THREADS: (1, 2)}  # processes, and threads of each
_PAIRS = (
    (f"Dask, {_TWO} against 1", _TWO, _ONE, Target(">=", 1.85)),
    (f"Dask, {_TWO}, against the direct engine", _TWO, _DIRECT, Target(">=", 0.9)),
    (f"Dask, {_THREADS}, against the direct engine", _THREADS, _DIRECT, Target(">=", 0.9)),
)


def measure(setting: Setting) -> list[Row]:
    """Whole jobs on every cluster and without one."""
    if find_spec("distributed") is None:
        raise CannotRunError('Dask is not installed: pip install ".[dask]"')
    first, small, large = setting.size((250, 1_000, 4_000), (50, 100, 400))
    shard = setting.size(_SHARD, 25)

    def job(images: int, *options: str) -> Usage:
        shards = ("--splits", "train", "--num_shards", str(images // shard))
        raw = raw_sets.tree(setting, images)
        return prepared(setting, raw, "--resize", "256", *shards, *options)

    def on_dask(processes: int, threads: int) -> Speed:
        from distributed import LocalCluster

        with LocalCluster(
            n_workers=processes, threads_per_worker=threads, dashboard_address=None
        ) as cluster:
            where = ("--runner", "dask", "--dask_client_address", cluster.scheduler_address)
            job(first, *where)  # workers load their libraries with the first shard
            return two_sizes(lambda images: job(images, *where), small, large)

    programs: dict[str, Callable[[], Speed]] = {
        name: partial(on_dask, *counts) for name, counts in _CLUSTERS.items()
    }
    programs[_DIRECT] = lambda: two_sizes(lambda it: job(it, "--workers", "2"), small, large)
    found = rounds(setting, "engines", programs, warm_up=[partial(job, first)])
    steady = {name: [speed.steady for speed in speeds] for name, speeds in found.items()}
    whole = {name: [speed.whole for speed in speeds] for name, speeds in found.items()}
    rows = []
    for what, ours, theirs, target in _PAIRS:
        for kind, speeds in (("steady", steady), (f"whole command, {large:,} images", whole)):
            what_ = f"--resize 256, {what}; {kind}"
            rows.append(compared(what_, speeds[ours], speeds[theirs], target=target))
    return rows
