"""How one worker process works on the shards that it is given."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Measured (docs/performance.md): threads of one process wait for each other where images only pass
# through, but they start at once; processes do not, and each costs a core some two seconds.
THREADS_PER_PROCESS = 4
LARGE = 50_000  # images, from which on processes are worth their start on a few cores, too

_FEW = 4  # shards a thread: with fewer, the last ones leave cores idle for long


@dataclass(frozen=True, slots=True)
class Share:
    """How one worker process works.

    Attributes:
        processes: local worker processes; 1 means this one, without start-up cost.
        lanes: shards written at the same time, each by a thread of its own.
        helpers: threads or processes that only convert images; 0 for none.
        helper_processes: whether the helpers are processes.
        pause: seconds to wait after a shard failed. A machine that fails fast would otherwise
            take shard after shard from those that work.
    """

    processes: int = 1
    lanes: int = 1
    helpers: int = 0
    helper_processes: bool = False
    pause: float = 0.0


def processes_for(workers: int) -> int:
    """How many processes keep so many cores busy."""
    return math.ceil(workers / THREADS_PER_PROCESS)


def local_share(workers: int, shards: int, *, images: int) -> Share:
    """How this machine's processes divide the work.

    Args:
        workers: cores to keep busy.
        shards: how many there are to make.
        images: as `Running.share`.
    """
    processes = processes_for(workers)
    # A shard is written by one process. If there are as few of them as processes, the last would
    # be written by one process alone; so all help with the images of all.
    if images and processes > 1 and shards <= processes:
        return Share(1, shards, workers, helper_processes=True)
    if images >= LARGE and shards >= _FEW * workers:
        most = max(processes, min(workers, THREADS_PER_PROCESS))
        # As many as leave no core idle that fewer would use.
        processes = max(
            range(processes, most + 1), key=lambda count: (workers // count * count, count)
        )
    threads = max(workers // processes, 1)
    portion = math.ceil(shards / processes)
    few = bool(images) and threads > 1 and portion < _FEW * threads
    return Share(processes, max(min(threads, portion), 1), threads if few else 0)
