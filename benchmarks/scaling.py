"""Does a job take half the time on twice the cores, and what of it stays one after the other?

Each job on 1, 2, 4, 8 and 16 cores, as far as this machine has them, with its own default of
workers, in rounds. Beside what prepares run bare loops, one a core (`bare_loop`): what an image
cannot do without, and what the machine allows, whoever else it works for. For more cores than there
are, two predictions, by Amdahl's law: the higher from what was seen to stay (start-up, scan, seal),
the lower from all that the most cores lost here. What else stays is measured alone: the launcher's
work for a shard, taking one from the queue of all processes, the one writer of a split in one file.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks import raw_sets, reading
from benchmarks.measure import Setting, Usage, fresh, prepared, program, rounds, run
from benchmarks.tables import Row, Sheet, Target, compared, figure, number
from dataprep_pipelines.runners.local import WorkQueue, work_queue

_CORES = (1, 2, 4, 8, 16)
_IMAGES = 14_400
_SHARD = 250  # images: enough shards for every core
_TAKES = 20_000
_DATAPREP = (sys.executable, "-m", "dataprep")
_LINEAR = Target(">=", 0.85)
# The bare loop's name, how many images, and what to reach: of linear, and of as many bare loops.
_PREPARED = {
    "--check header": ("header", 72_000, None, Target(">=", 0.8)),
    "default check": ("bitstream", 72_000, _LINEAR, Target(">=", 0.9)),
    "--resize 256": ("resize", 14_400, _LINEAR, _LINEAR),
}
_HEADINGS = (
    *("job", "cores", "a second", "x one core", "of linear", "without what stays"),
    *("processor time, x one core", "bare loops"),
)


@dataclass(frozen=True)
class Time:
    """Seconds; of these, what was seen to stay; of processor; what a bare loop does a second."""

    seconds: float
    stays: float = 0.0
    processor: float = math.nan
    loop: float = math.nan


@dataclass(frozen=True)
class Job:
    """What is done, how much of what (images, or MB), and its times by number of cores."""

    name: str
    amount: float
    do: Callable[[int], Time]
    times: dict[int, list[Time]] = field(default_factory=dict)


def measure(setting: Setting) -> list[Row | Sheet]:
    """All jobs on all numbers of cores; predictions; what stays."""
    cores = [count for count in _CORES if count <= setting.cores]
    lines: list[tuple[str, ...]] = [_HEADINGS]
    rows: list[Row] = []
    for job in _jobs(setting):
        with _pinned(1):
            job.do(1)  # to warm up
        programs = {str(count): partial(_on, count, job.do) for count in cores}
        measured = rounds(setting, f"scaling: {job.name}", programs)
        job.times.update({int(count): times for count, times in measured.items()})
        lines += told(job)
        rows += _judged(job)
    return [Sheet(lines), *rows, *_what_stays(setting)]


def _on(count: int, do: Callable[[int], Time]) -> Time:
    with _pinned(count):
        return do(count)


@contextmanager
def _pinned(count: int) -> Iterator[None]:
    """Programs that are started meanwhile have so many cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _jobs(setting: Setting) -> Iterator[Job]:
    images = setting.size(_IMAGES, 250)
    shards = ("--splits", "train", "--num_shards")
    tree = raw_sets.tree(setting, images)
    out = reading.imagenet_set(setting, tree, f"scaling-{images}", "--num_shards", "48")
    few = reading.imagenet_set(setting, raw_sets.tree(setting, 100), "scaling-100")
    megabytes = sum(path.stat().st_size for path in raw_sets.contents(out)) / 1e6

    def prepare(name: str, many: int, cores: int) -> Time:
        options = name.split() if name.startswith("--") else ()
        raw = raw_sets.tree(setting, many)
        usage = prepared(setting, raw, *shards, str(max(many // _SHARD, 1)), *options)
        with fresh(setting.work / "loop") as place:
            words = (_PREPARED[name][0], raw, place, str(cores))
            loop = run([sys.executable, "-m", "benchmarks.bare_loop", *words], flush=True)
        return Time(usage.seconds, _stays(usage), usage.cpu_seconds, float(loop.lines[-1][1]))

    def command(*words: str, to: bool = False) -> Callable[[int], Time]:
        def once(made: Path) -> Usage:
            with fresh(setting.work / "copy") as copy:
                place = ("--to", copy) if to else ()
                return run([*_DATAPREP, words[0], made, *words[1:], *place], flush=to)

        def both(_: int) -> Time:
            usage = once(out)
            return Time(usage.seconds, once(few).seconds, usage.cpu_seconds)

        return both

    def epoch(threads: int) -> Time:
        loader = (sys.executable, "-m", "benchmarks.loaders", "crops-dataprep", out)
        with program(setting, "scaling", loader, reading.ENVIRONMENT) as started:
            return Time(float(started.ask(random=True, workers=threads)["seconds"]))

    for name, (_, full, *_) in _PREPARED.items():
        many = setting.size(full, images)
        yield Job(f"prepare, {name}", many, partial(prepare, name, many))
    yield Job("lint", images, command("lint"))
    yield Job("verify --level decode", images, command("verify", "--level", "decode"))
    yield Job("stage, MB", megabytes, command("stage", to=True))
    if reading.imports(Path(sys.executable), "torch"):
        yield Job("records.loader, random parts", images, epoch)


def _stays(usage: Usage) -> float:
    """Seconds before the first shard is begun, and after the last."""
    ordered = max(second for second, line in usage.lines if ", shuffle " in line)
    written = max(
        (second for second, line in usage.lines if line.startswith("write: ")),
        default=usage.lines[-1][0],
    )
    return ordered + usage.lines[-1][0] - written


def told(job: Job) -> Iterator[tuple[str, ...]]:
    """As measured, and the predictions."""
    one = job.times[1]
    stays = median(it.stays / it.seconds for it in one)
    lost = 0.0
    for count, times in job.times.items():
        pairs = list(zip(one, times, strict=True))
        gained = median(single.seconds / many.seconds for single, many in pairs)
        rest = [[it.seconds - it.stays for it in pair] for pair in pairs]
        divided = median(single / many if many > 0 else math.nan for single, many in rest)
        processor = median(many.processor / single.processor for single, many in pairs)
        loop = median(many.loop / single.loop for single, many in pairs)
        if count > 1:
            lost = min(max(count / gained - 1, 0) / (count - 1), 1)  # the share not divided
        ratios = (gained, gained / count, divided / count, processor, loop)
        cells = (f"{ratio:.2f}".replace("nan", "") for ratio in ratios)
        yield job.name, str(count), number([job.amount / it.seconds for it in times]), *cells
    for count in _CORES:
        if count not in job.times:
            gains = [1 / (share + (1 - share) / count) for share in (max(stays, lost), stays)]
            text = [" to ".join(f"{gain / by:.2f}" for gain in gains) for by in (1, count)]
            yield (job.name, str(count), "predicted, not measured", *text, *3 * ("",))


def _judged(job: Job) -> Iterator[Row]:
    """What prepares on the most cores, against one of them, and against as many bare loops."""
    if (kind := job.name.removeprefix("prepare, ")) not in _PREPARED:
        return
    _, _, linear, of_loops = _PREPARED[kind]
    cores, many = max(job.times.items())
    speeds, alone = ([job.amount / it.seconds for it in side] for side in (many, job.times[1]))
    steady = [job.amount / (it.seconds - it.stays) for it in many]
    loops = [it.loop for it in many]
    what = f"{job.name}, {cores} cores against"
    yield compared(f"{what} 1", speeds, alone, factor=cores, target=linear)
    yield compared(f"{what} bare loops", speeds, loops, target=of_loops)
    yield compared(f"{what} bare loops; without what stays", steady, loops)


def _what_stays(setting: Setting) -> Iterator[Row]:
    images = setting.size(_IMAGES, 250)
    shards, tree = images // setting.size(50, 10), raw_sets.tree(setting, images)
    options = ("--splits", "train", "--check", "header", "--workers")
    yield figure(
        "the launcher's processor time until the seal, a shard",
        [_launcher(setting, tree, (*options, "8"), shards) for _ in range(setting.repeat)],
        "ms",
    )
    for count in (1, setting.cores, 8):
        with work_queue(range(_TAKES)) as queue, ProcessPoolExecutor(count) as pool:
            list(pool.map(len, count * ["started"]))
            start = time.perf_counter()
            taken = sum(pool.map(_take, [queue] * count))
            each = (time.perf_counter() - start) / taken * 1e6
        yield figure(f"taking a shard from the queue, {count} processes at once", [each], "us")
    one_file = (*options, str(setting.cores), "--num_shards", "1")
    size = sum(path.stat().st_size for path in raw_sets.contents(tree)) / 1e6
    speeds = [size / prepared(setting, tree, *one_file).seconds for _ in range(setting.repeat)]
    yield figure("one writer, --check header --num_shards 1", speeds, "MB/s")


def _launcher(setting: Setting, tree: Path, options: Sequence[str], shards: int) -> float:
    """Milliseconds a shard while processes of their own write them."""
    seen: dict[str, float] = {}

    def watch(pid: int, line: str) -> None:
        seen["ordered" if ", shuffle " in line else line.partition(" ")[0]] = _cpu(pid)

    with fresh(setting.work / "out") as out:
        places = ("--raw_data_dir", tree, "--local_scratch_dir", out, "--num_shards", str(shards))
        run([*_DATAPREP, "imagenet", *places, *options], watch=watch)
    return (seen["sealed"] - seen["ordered"]) / shards * 1e3


def _take(queue: WorkQueue) -> int:
    return sum(1 for _ in queue)


def _cpu(pid: int) -> float:
    """Seconds of processor time that a process, without those that it started, has had."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
