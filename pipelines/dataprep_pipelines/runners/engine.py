"""What an engine is: it takes elements to workers, wherever they are. It knows no engine itself."""

from __future__ import annotations

import importlib.util
import math
import re
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataprep import errors
from dataprep.errors import DataprepError, PipelineError
from dataprep.jobs.request import Running
from dataprep_pipelines.failures import FailureLog, line_of
from dataprep_pipelines.tasks import Work

if TYPE_CHECKING:
    import apache_beam as beam

_WATCH_SECONDS = 0.25
_STOP_SECONDS = 10.0
# What Beam makes of an error of ours that a worker raised.
_OURS = re.compile(r"dataprep[\w.]*\.(\w+): (.*?) \[while running '.*'\]")
# What an error of a connection says, on a line of its own among others.
_DETAILS = re.compile(r'^\s*details = "(.*)"$', re.MULTILINE)

STOP = threading.Event()
"""Set when this process must stop; workers in it look at it before every image."""


@dataclass(frozen=True, kw_only=True)
class Engine(Running):
    """Where and how parallel the graphs run, as the user asked for it."""

    workers: int  # cores to keep busy on this machine
    beam_options: tuple[str, ...] = ()  # options for Beam itself, passed through untouched

    @property
    def is_local(self) -> bool:
        """Whether the graphs run on this machine, under this program's control."""
        return self.runner.lower() in ("direct", "directrunner")

    @property
    def is_dask(self) -> bool:
        """Whether the elements go to a Dask cluster."""
        return self.runner.lower() in ("dask", "daskrunner")


@dataclass(frozen=True, slots=True)
class Parallelism:
    """How many workers there are, and how each works."""

    # Workers, as far as this process knows; of this machine, 1 means this one, at no cost.
    processes: int = 1
    shards: int = 1  # written at the same time by a worker, each by a thread of its own
    committed: int = 0  # shards that a worker flushes and commits meanwhile, in further threads
    helpers: int = 0  # threads or processes that only convert images; 0 for none
    helper_processes: bool = False
    # Whether it is done without Beam: a scan, or so little that it is done by the time Beam
    # would be imported; and all where Beam is not installed.
    without_beam: bool = False
    # Seconds to wait after a shard failed. A machine that fails fast would otherwise take
    # shard after shard from those that work.
    pause: float = 0.0

    @property
    def at_once(self) -> int:
        """How many shards are not committed at the same time, all workers together."""
        return self.processes * (self.shards + self.committed)


@dataclass(frozen=True, slots=True)
class Round:
    """What an engine is to do."""

    elements: Sequence[Any]  # what there is to do; nothing larger than a shard's name crosses Beam
    work: Work
    parallelism: Parallelism
    watch: Callable[[], None]  # progress; may raise, which stops the run
    # Told when the run is to be stopped, so that workers elsewhere learn of it, and what a
    # worker could not tell.
    failures: FailureLog


class RunningEngine(ABC):
    """An engine that is ready to take elements to workers."""

    @property
    def look_seconds(self) -> float:
        """How often each worker should look whether its run still goes on."""
        return 2.0

    @property
    def silent_seconds(self) -> float:
        """How long nothing may be made before the user is told that a worker may have died.

        Infinite for an engine that notices it by itself.
        """
        return math.inf

    @abstractmethod
    def parallelism(self, shards: int, *, images: int, small: bool) -> Parallelism:
        """How the shards are divided among workers.

        Args:
            images: how many are in them; 0 if nobody but a shard's own thread can do most of its
                work.
            small: whether all of it is less than a second's work.
        """

    def get_ready(self, parallelism: Parallelism) -> None:  # noqa: B027  # what is started stays so
        """Start what takes a while to start, while something else goes on."""

    @abstractmethod
    def run(self, task: Round) -> None:
        """Process all elements, and call ``watch`` about four times a second meanwhile.

        Raises:
            DataprepError: the engine itself failed, or told what a worker could not write down.
        """


class BeamEngine(RunningEngine):
    """One of Beam's runners, on which `run` is ``Create | Reshuffle | ParDo``.

    Without the shuffle, Beam would hand all elements to the one worker that creates them.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @abstractmethod
    def graph(
        self, elements: Sequence[Any]
    ) -> AbstractContextManager[tuple[beam.Pipeline, Sequence[Any]]]:
        """An empty pipeline of the runner, and what to create in it."""

    def run(self, task: Round) -> None:
        """Run the graph in a thread, since Beam blocks; this one watches, and takes signals."""
        # Imported here so that neither `dataprep --help` nor a small job loads Beam.
        import apache_beam as beam

        from dataprep_pipelines.transform import Do

        with self.graph(task.elements) as (pipeline, created):
            # Made for other languages' transforms. Who is killed could not remove it.
            with suppress(OSError):
                Path(pipeline.local_tempdir).rmdir()
            with _without_cell_labels():
                shuffled = pipeline | beam.Create(created, reshuffle=False) | beam.Reshuffle()
                _ = shuffled | beam.ParDo(Do(task.work))
            watched(lambda: pipeline.run().wait_until_finish(), task)


def beam_is_installed() -> bool:
    """Whether Beam is here: nodes that only read, check and copy do without it."""
    return importlib.util.find_spec("apache_beam") is not None


def watched(run: Callable[[], object], task: Round) -> None:
    """Run something in a thread that may take long, while this one watches, and takes signals.

    Args:
        run: what takes long; it ends soon after `STOP` is set.

    Raises:
        DataprepError: it failed.
    """
    STOP.clear()
    raised: list[BaseException] = []
    # Not Thread.join: a signal's exception raised in it marks the thread as ended for ever.
    done = threading.Event()

    def execute() -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001  # handed to the main thread below
            raised.append(error)
        finally:
            done.set()

    # A daemon, so that a runner that does not stop cannot keep the process alive.
    threading.Thread(target=execute, name="run", daemon=True).start()
    finished = False
    try:
        while not done.wait(_WATCH_SECONDS):
            task.watch()
        finished = not raised
    finally:
        if not finished:
            STOP.set()
            task.failures.stop()
            done.wait(_STOP_SECONDS)
    if raised:
        raise engine_error(raised[0]) from raised[0]


@contextmanager
def _without_cell_labels() -> Iterator[None]:
    """In a notebook, keep Beam from prefixing labels with the number of the cell.

    For that number it loads its interactive environment, which needs pandas 2 and has the page load
    scripts from another site.
    """
    from apache_beam import pipeline

    before = pipeline.alter_label_if_ipython
    pipeline.alter_label_if_ipython = lambda _transform, _pvalueish: None
    try:
        yield
    finally:
        pipeline.alter_label_if_ipython = before


def engine_error(error: BaseException) -> DataprepError:
    """An error of ours as it is, or a line about Beam's own."""
    raised = traceback.format_exception_only(error)[-1].rstrip().rpartition("\n")[2]
    if found := _OURS.fullmatch(raised):
        ours: DataprepError = getattr(errors, found[1], PipelineError)(found[2])
        return ours
    if isinstance(error, DataprepError):
        return error
    return PipelineError(
        f"Beam failed: {beams_words(error)}; mend that, --debug shows where; finished shards are "
        "kept"
    )


def beams_words(error: BaseException) -> str:
    """What an error of Beam's says, in a line; it may hold others, of which the last says why."""
    details = _DETAILS.findall(str(error))
    return line_of(details[-1] if details else error, -1)
