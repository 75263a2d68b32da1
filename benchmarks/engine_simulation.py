"""How long would ImageNet, ImageNet-22K and a billion images take on 1 to 32,000 workers?

``python -m benchmarks.engine_simulation`` prints the tables of docs/performance.md. A worker is a
thread of a Dask worker. What one image, one task and one shard cost was measured (`engines`,
`listing` and `scan`, on a slow machine); what the file system does is assumed; nothing else is.

Shards are handed out as workers become free, by a launcher and a scheduler that do one thing at a
time each. So what is simulated is a queue; all of it is deterministic.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from benchmarks.results import Row

WORKERS = (1, 4, 16, 64, 256, 1000, 32_000)

_EXACT = 40  # shards a worker, at the end, that are followed one by one; before, all are busy
_SLOW = 10  # every so many shards is a slow one
_SLOWER = 1.3  # so many times, be it the images or the node
_CYCLE = (_SLOW - 1 + _SLOWER) / _SLOW  # so many times as long as others they take on average
_UNEVEN = 1.1  # times as long as shared evenly: it is the last shards that take the time


@dataclass(frozen=True)
class DataSet:
    """What is prepared, the images as they are, each decoded as a check.

    Attributes:
        name: what the table calls it.
        images: how many.
        shards: how many files.
        image_bytes: of an image on average; as many are read as are written.
    """

    name: str
    images: int
    shards: int
    image_bytes: int = 110_000


DATA_SETS = (
    DataSet("ImageNet-1K: 1,281,167 images in 1024 shards", 1_281_167, 1024),
    DataSet("ImageNet-22K: 14.2 million images in 11,360 shards", 14_200_000, 11_360),
    DataSet("1 billion images in 800,000 shards", 1_000_000_000, 800_000),
    DataSet("1 billion images in 100,000 shards", 1_000_000_000, 100_000),
)


@dataclass(frozen=True)
class Costs:
    """What was measured, in seconds, on this project's machine.

    Attributes:
        image: one core, to read, check and write one.
        start: until the cluster is connected, and at the end.
        scan: one core, for an image in a tar that is indexed.
        order: for an image that is given its place; two cores of the launcher, at any scale.
        launching: for a task, of the launcher's time, if many end at a time.
        scheduling: the same of the scheduler's.
        waiting: of a worker, from the end of one task to the start of the next.
        recorded: for a shard, of the launcher's time, to look after its files and its record;
            without that of the file system.
    """

    image: float = 0.0010
    start: float = 5.0
    scan: float = 14e-6
    order: float = 3.5e-6
    launching: float = 0.0010
    scheduling: float = 0.0004
    waiting: float = 0.015
    recorded: float = 0.0002


@dataclass(frozen=True)
class Site:
    """What is assumed of the machine.

    Attributes:
        bandwidth: bytes a second of the parallel file system, for all together, reading or writing.
        operations: of metadata, a second, for all together.
        latency: of one of them, in seconds, for who waits for it.
    """

    bandwidth: float = 100e9
    operations: float = 20_000.0
    latency: float = 0.0005


# Counted with strace, for TFRecord: every system call that names a file or asks for its state.
SHARD_OPERATIONS = 34  # by the worker that makes it
LAUNCHER_OPERATIONS = 14  # by the launcher, before and after: is it there, read its record, seal
LOOK_OPERATIONS = 4  # of a worker that sees whether the run still goes on
LOOKS_A_SECOND = 50.0  # of all workers together, at most
PARTS = 1000  # archives, each scanned by one worker


@dataclass(frozen=True)
class Estimate:
    """What a run takes.

    Attributes:
        seconds: of its phases, by their names, in their order.
        ideal: if all that is done for images were shared evenly, and there were nothing else.
        limit: what keeps the writing from being faster.
    """

    seconds: dict[str, float]
    ideal: float
    limit: str

    @property
    def total(self) -> float:
        """All phases together."""
        return sum(self.seconds.values())

    @property
    def efficiency(self) -> float:
        """Ideal over real."""
        return self.ideal / self.total


def estimate(
    data: DataSet, workers: int, costs: Costs | None = None, site: Site | None = None
) -> Estimate:
    """Simulate one run."""
    costs, site = costs or Costs(), site or Site()
    shard = data.images / data.shards * costs.image
    active = min(workers, data.shards)
    limits = {
        "workers": shard / active,
        "launcher": costs.launching,
        "scheduler": costs.scheduling,
        "bandwidth": 2 * data.images / data.shards * data.image_bytes / site.bandwidth,
        "metadata": SHARD_OPERATIONS / (site.operations - LOOKS_A_SECOND * LOOK_OPERATIONS),
    }
    limit = max(limits, key=lambda name: limits[name])
    # A file system that is shared makes every shard take longer; who hands out makes them wait.
    slowed = active * max(limits["bandwidth"], limits["metadata"])
    handing = max(costs.launching, costs.scheduling)
    write = write_seconds(data.shards, workers, max(shard, slowed) + costs.waiting, handing)
    if limit == "workers" and write > _UNEVEN * data.shards * shard * _CYCLE / workers:
        limit = "few shards"
    record = costs.recorded + LAUNCHER_OPERATIONS * site.latency
    seconds = {
        "start": costs.start,
        "scan": data.images * costs.scan / min(workers, PARTS),
        "order": data.images * costs.order,
        "write": write,
        "record": data.shards * record,
    }
    work = costs.scan + costs.order + costs.image * _CYCLE
    return Estimate(seconds, data.images * work / workers, limit)


def write_seconds(shards: int, workers: int, seconds: float, handing: float) -> float:
    """Until the last shard is done: handed out one at a time, to whoever is free first."""
    last = min(shards, _EXACT * workers)
    head = (shards - last) * max(seconds * _CYCLE / workers, handing)
    free = [0.0] * min(workers, last)
    handed = end = 0.0
    for number in range(last):
        handed = max(handed, free[0]) + handing
        done = handed + seconds * (_SLOWER if number % _SLOW == 0 else 1.0)
        heapq.heapreplace(free, done)
        end = max(end, done)
    return head + end


def rows() -> list[Row]:
    """A row for every data set and number of workers."""
    return [
        Row(
            f"simulated: {data.name}, {workers:,} workers",
            f"{_duration(one.total)}, {one.efficiency:.0%}, writing limited by {one.limit}",
        )
        for data in DATA_SETS
        for workers in WORKERS
        for one in [estimate(data, workers)]
    ]


def markdown() -> str:
    """A table for every data set."""
    lines = []
    for data in DATA_SETS:
        found = [(workers, estimate(data, workers)) for workers in WORKERS]
        phases = list(found[0][1].seconds)
        lines += [
            f"| {data.name} | total | efficiency | {' | '.join(phases)} | limit of writing |",
            "| --- |" + " --- |" * (len(phases) + 3),
        ]
        for workers, one in found:
            cells = " | ".join(_duration(one.seconds[phase]) for phase in phases)
            name = f"{workers:,} worker" + ("s" if workers > 1 else "")
            total = f"**{_duration(one.total)}** | {one.efficiency:.0%}"
            lines.append(f"| {name} | {total} | {cells} | {one.limit} |")
        lines.append("")
    return "\n".join(lines)


def _duration(seconds: float) -> str:
    """In a unit that needs three digits at most."""
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    if seconds < 6_000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


if __name__ == "__main__":
    print(markdown(), end="")
