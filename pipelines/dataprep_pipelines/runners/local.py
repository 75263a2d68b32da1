"""This machine: Beam's own FnApiRunner, named explicitly.

Left to its defaults, Beam tries to download another runner's binary before anything runs, which on
a node without internet is an error or a long hang.

The graph is that of every engine, ``Create | Reshuffle | ParDo``. For speed it has one element
here, a queue of all there is: threads and processes of our own take from it, which start in half a
second where Beam's import Beam, and none is idle while another has work left. With
``-- --direct_running_mode=multi_processing`` each element is one, and the processes are Beam's.
"""

from __future__ import annotations

import fcntl
import math
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from dataprep.system.throttle import divide
from dataprep_pipelines.failures import worker_died
from dataprep_pipelines.runners.engine import (
    BeamEngine,
    Engine,
    Parallelism,
    Round,
    beam_is_installed,
    watched,
)
from dataprep_pipelines.tasks import Work
from dataprep_pipelines.worker import HelperProcesses

if TYPE_CHECKING:
    import apache_beam as beam

# Measured (docs/performance.md): threads of one process wait for each other where images only pass
# through, but they start at once; processes do not, and each costs a core some half a second.
THREADS_PER_PROCESS = 4
LARGE = 4_000  # images, from which on processes are worth their start on a few cores, too

_FEW = 4  # shards a thread: with fewer, the last ones leave cores idle for long
_COUNTER_BYTES = 8
_CLEAN_UP_SECONDS = 5.0  # a worker with a lost lease needs about two to remove its files


class LocalEngine(BeamEngine):
    """Threads of this process, and further processes of it beyond a few cores or images.

    Beam's own way of starting processes has each import Beam, which takes a core a second.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._pool: HelperProcesses | None = None

    def parallelism(self, shards: int, *, images: int, small: bool) -> Parallelism:
        """Divides the shards among processes, or their images where shards are few."""
        workers = self._engine.workers
        asked = bool(self._engine.beam_options)  # who gives some wants Beam
        if self._beams_processes:
            return Parallelism()
        small = small and not asked
        if small:
            workers = min(workers, THREADS_PER_PROCESS)
        chosen = local_parallelism(workers, shards, images=images)
        # No core waits for the disk that has another shard to write.
        committed = int(chosen.processes * chosen.shards > 1)
        alone = small or not (asked or beam_is_installed())
        return replace(chosen, committed=committed, without_beam=alone)

    @override
    def get_ready(self, parallelism: Parallelism) -> None:
        if not parallelism.without_beam:
            Thread(target=import_module, args=["apache_beam"], daemon=True).start()
        if parallelism.processes > 1:
            self._helpers(parallelism.processes).start("dataprep_pipelines.write")

    def run(self, task: Round) -> None:
        """Hand the elements to this process, or to several; by Beam unless that is too slow."""
        parallelism = task.parallelism
        if parallelism.processes > 1 and not self._beams_processes:
            task = replace(task, work=InProcesses(task.work, self._helpers(parallelism.processes)))
        else:
            self.close()  # this process has the whole of --io_limit again
        if not parallelism.without_beam:
            super().run(task)
            return

        def do() -> None:
            with work_queue(task.elements) as queue:
                task.work.run(queue)

        watched(do, task)

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
            divide(1)

    def _helpers(self, count: int) -> HelperProcesses:
        """So many processes, which stay: they have imported what they need."""
        if self._pool is not None and self._pool.count != count:
            self.close()
        if self._pool is None:
            self._pool = HelperProcesses(count, _CLEAN_UP_SECONDS)
            divide(count)  # this one moves no bytes
        return self._pool

    @cached_property
    def _beams_processes(self) -> bool:
        """Whether Beam's own processes do the work."""
        if not self._engine.beam_options:
            return False
        from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions

        options = PipelineOptions(list(self._engine.beam_options)).view_as(DirectOptions)
        return bool(options.direct_running_mode == "multi_processing")

    @contextmanager
    def graph(self, elements: Sequence[Any]) -> Iterator[tuple[beam.Pipeline, Sequence[Any]]]:
        """One queue of all there is, or, for Beam's own processes, an element each."""
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions
        from apache_beam.runners.portability.fn_api_runner import fn_runner

        options = PipelineOptions(list(self._engine.beam_options))
        pipeline = beam.Pipeline(runner=fn_runner.FnApiRunner(), options=options)
        if self._beams_processes:
            yield pipeline, [(element,) for element in elements]
            return
        with work_queue(elements) as queue:
            yield pipeline, [queue]


class InProcesses(Work):
    """Work that processes of this machine share: each takes from the queue what nobody else has."""

    def __init__(self, work: Work, pool: HelperProcesses) -> None:
        self._work = work
        self._pool = pool

    def process(self, elements: Iterable[Any]) -> None:
        """Have all of them work until there is nothing left."""
        try:
            ends = [self._pool.submit(self._work.run, elements) for _ in range(self._pool.count)]
            for end in as_completed(ends):  # or those that live would do all there is first
                end.result()
        except BrokenExecutor as error:
            raise worker_died(str(error)) from error


def processes_for(workers: int) -> int:
    """How many processes keep so many cores busy."""
    return math.ceil(workers / THREADS_PER_PROCESS)


def local_parallelism(workers: int, shards: int, *, images: int) -> Parallelism:
    """How this machine's processes divide the work.

    Args:
        workers: cores to keep busy.
    """
    processes = processes_for(workers)
    # A shard is written by one process. If there are as few of them as processes, the last would
    # be written by one process alone; so all help with the images of all.
    if images and processes > 1 and shards <= processes:
        return Parallelism(1, shards, helpers=workers, helper_processes=True)
    if images >= LARGE and shards >= _FEW * workers:
        most = max(processes, min(workers, THREADS_PER_PROCESS))
        # As many as leave no core idle that fewer would use.
        processes = max(
            range(processes, most + 1), key=lambda count: (workers // count * count, count)
        )
    threads = max(workers // processes, 1)
    portion = math.ceil(shards / processes)
    few = bool(images) and threads > 1 and portion < _FEW * threads
    return Parallelism(processes, max(min(threads, portion), 1), helpers=threads if few else 0)


@dataclass(frozen=True, slots=True)
class WorkQueue:
    """Elements that the processes of one machine take one by one, each as it gets free.

    Pickled into every process. How many are taken is in a file without a name, in the launcher's
    memory: it ends with the launcher, however that ends.
    """

    path: str  # where the launcher has that file open
    name: str  # of the file; the launcher's number may be another process's by then
    elements: tuple[Any, ...]

    def __iter__(self) -> Iterator[Any]:
        """One element after another that nobody else gets; none if the launcher is gone."""
        while (position := self._take()) < len(self.elements):
            yield self.elements[position]

    def _take(self) -> int:
        try:
            if self.name not in str(Path(self.path).readlink()):
                return len(self.elements)
            with Path(self.path).open("r+b", buffering=0) as counter:
                fcntl.flock(counter, fcntl.LOCK_EX)
                position = int.from_bytes(counter.read(_COUNTER_BYTES), "little")
                counter.seek(0)
                counter.write((position + 1).to_bytes(_COUNTER_BYTES, "little"))
                return position
        except OSError:
            return len(self.elements)


@contextmanager
def work_queue(elements: Sequence[Any]) -> Iterator[WorkQueue]:
    """A queue for as long as this lasts, or this process."""
    name = f"dataprep-{secrets.token_hex(8)}"
    descriptor = os.memfd_create(name)
    try:
        yield WorkQueue(f"/proc/{os.getpid()}/fd/{descriptor}", name, tuple(elements))
    finally:
        os.close(descriptor)
