"""What the Dask engine itself takes: shards without work, and shards that only wait.

The former are done at once, so what a run of them costs is the engine: the launcher's, the
scheduler's and the workers' processor time for a task. The latter take a stated time on workers of
different speed, and show who was given how many; the cores of this machine do not matter.
"""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.dask_cluster import Cluster, cluster, cpu_seconds, resident_bytes
from benchmarks.results import Row, Target
from benchmarks.setting import Setting

if TYPE_CHECKING:
    import apache_beam as beam
    from distributed import Client

    from dataprep.jobs.lock import Lease
    from dataprep.sinks import ShardName

_BOUND = Target("<=", 1.2)
_SHARDS = 8
_SPEEDS = (3, 7)  # of one worker; the other's is 1. Whole shards can then be shared out fairly
_FEW_THREADS, _MANY_THREADS = (1, 1), (32, 32)
_MS = 1e3
_MIB = 1 << 20


def measure(setting: Setting) -> list[Row]:
    """Both kinds."""
    # Beam warns of functions without results, Dask of whatever ends while it is being ended.
    logging.disable(logging.WARNING)
    try:
        return [*_uneven(setting), *_empty(setting)]
    finally:
        logging.disable(logging.NOTSET)


def _uneven(setting: Setting) -> list[Row]:
    from distributed import Client

    from benchmarks.timed_shards import SPEED

    rows = []
    for fast in _SPEEDS:
        setting.say(f"engines: workers of speeds 1 and {fast}")
        speeds = [{SPEED: "1"}, {SPEED: str(fast)}]
        work = setting.size(2.0, 0.5) * (1 + fast)  # seconds of the slow one: 8 shards' work
        ours, theirs = [], []
        with (
            cluster(setting.work / "dask", (1, 1), environments=speeds) as found,
            Client(found.address, set_as_default=False) as client,
        ):
            _warm(client, found)
            for _ in range(setting.repeat):
                shard = work / _SHARDS
                ours.append(_shared_out(setting, found, partial(_run_timed, client, shard)))
                theirs.append(_shared_out(setting, found, partial(_map_timed, client, shard)))
        ideal = work / (1 + fast)
        what = f"{_SHARDS} shards that wait, workers of speeds 1 and {fast}"
        rows += [
            Row(
                f"{what}: time against ideal ({_given(ours)} shards)",
                f"{median(seconds for seconds, _ in ours):.2f} s",
                f"{ideal:.2f} s",
                tuple(seconds / ideal for seconds, _ in ours),
                target=_BOUND,
            ),
            Row(
                f"{what}: if Dask is given all at once ({_given(theirs)} shards)",
                f"{median(seconds for seconds, _ in theirs):.2f} s",
                f"{ideal:.2f} s",
                tuple(seconds / ideal for seconds, _ in theirs),
            ),
        ]
    return rows


def _given(runs: Sequence[tuple[float, tuple[int, ...]]]) -> str:
    """How many shards the workers were given, in all the ways that there were."""
    return " or ".join(f"{slow} and {fast}" for slow, fast in sorted({given for _, given in runs}))


def _run_timed(client: Client, seconds: float, notes: Path) -> None:
    from benchmarks.timed_shards import TimedShards

    _run(client, range(_SHARDS), TimedShards(seconds, notes))


def _map_timed(client: Client, seconds: float, notes: Path) -> None:
    from benchmarks.timed_shards import wait

    client.gather(
        client.map(partial(wait, seconds=seconds, notes=notes), range(_SHARDS), pure=False)
    )


def _shared_out(
    setting: Setting, found: Cluster, run: Callable[[Path], None]
) -> tuple[float, tuple[int, ...]]:
    """Seconds from the first start to the last end, and how many each worker was given."""
    notes = setting.work / "notes"
    shutil.rmtree(notes, ignore_errors=True)
    notes.mkdir()
    run(notes)
    lines = [path.read_text().split() for path in notes.iterdir()]
    given = Counter(int(process) for process, _, _ in lines)
    seconds = max(float(end) for *_, end in lines) - min(float(start) for _, start, _ in lines)
    return seconds, tuple(given[worker] for worker in found.workers)


@dataclass(frozen=True)
class _Cost:
    """Milliseconds a task, and the bytes that the two processes which see every task grew by."""

    wall: float
    launcher: float
    scheduler: float
    workers: float
    launcher_bytes: int
    scheduler_bytes: int


def _empty(setting: Setting) -> list[Row]:
    from distributed import Client

    few, many = setting.size((1_000, 10_000), (50, 200))
    rows = []
    for threads, counts in ((_FEW_THREADS, (few,)), (_MANY_THREADS, (few, many))):
        setting.say(f"engines: {counts[-1]:,} empty shards, {sum(threads)} threads")
        with (
            cluster(setting.work / "dask", threads) as found,
            Client(found.address, set_as_default=False) as client,
        ):
            _warm(client, found)
            costs = {count: _cost(client, found, count) for count in counts}
        what = f"empty shards, {sum(threads)} threads"
        rows += [_cost_row(f"{what}, {count:,} tasks", cost) for count, cost in costs.items()]
        if many in costs:
            grown = costs[many].launcher_bytes, costs[many].scheduler_bytes
            rows.append(
                Row(
                    f"{what}: launcher and scheduler grow by, {many:,} tasks",
                    f"{grown[0] / _MIB:.0f} and {grown[1] / _MIB:.0f} MiB",
                )
            )
    return [*rows, Row("a shard's task on the wire, whatever the data set", f"{_task_bytes():,} B")]


def _cost_row(what: str, cost: _Cost) -> Row:
    return Row(
        what,
        f"{cost.wall:.1f} ms a task; processor: launcher {cost.launcher:.1f}, "
        f"scheduler {cost.scheduler:.1f}, workers {cost.workers:.1f} ms",
    )


def _cost(client: Client, found: Cluster, count: int) -> _Cost:
    launcher = os.getpid()

    def now() -> tuple[float, ...]:
        return time.perf_counter(), cpu_seconds(launcher), *found.cpu_seconds()

    def memory() -> tuple[int, int]:
        return resident_bytes(launcher), resident_bytes(found.scheduler)

    held, before = memory(), now()
    _run_empty(client, count)
    after, holds = now(), memory()
    wall, own, scheduling, working = (
        (end - start) / count * _MS for start, end in zip(before, after, strict=True)
    )
    grown = [end - start for start, end in zip(held, holds, strict=True)]
    return _Cost(wall, own, scheduling, working, *grown)


def _warm(client: Client, found: Cluster) -> None:
    """Every worker loads its libraries."""
    _run_empty(client, 20 * len(found.workers))


def _run_empty(client: Client, count: int) -> None:
    _run(client, _shards(count), _nothing())


def _run(client: Client, elements: Sequence[Any], work: beam.DoFn) -> None:
    from dataprep_pipelines.failures import FailureLog
    from dataprep_pipelines.runners import Parallelism
    from dataprep_pipelines.runners.dask import DaskEngine

    engine = DaskEngine(client, 60.0, lambda: False, lambda _: None)
    failures = FailureLog(_lease())
    engine.run(elements, work, Parallelism(), watch=lambda: None, failures=failures)


def _shards(count: int) -> list[ShardName]:
    from dataprep.sinks import ShardName

    return [ShardName("train", number, count) for number in range(count)]


def _lease() -> Lease:
    from dataprep.jobs.lock import Lease

    private = Path("/scratch/project/imagenet/.dataprep")  # only its name is sent
    return Lease(private / "lock", "m" * 200, private / "failure-0123456789abcdef.json")


def _nothing() -> beam.DoFn:
    from benchmarks.empty_shards import DoNothing
    from dataprep_pipelines.failures import FailureLog
    from dataprep_pipelines.runners import Parallelism
    from dataprep_pipelines.tasks import TaskSpec

    lease = _lease()
    spec = TaskSpec(lease.failure.with_name("task.pickle"), "0" * 64)
    return DoNothing(spec, Parallelism(), FailureLog(lease))


def _task_bytes() -> int:
    return len(pickle.dumps((pickle.dumps(_nothing()), _shards(1)[0])))
