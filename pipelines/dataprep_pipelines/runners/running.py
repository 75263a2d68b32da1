"""A started engine, and running graphs on it until they end or are stopped.

Beam blocks while it runs, so it runs in a thread of its own; the main thread watches the commit
records and takes the signals.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dataprep.errors import DataprepError, PipelineError
from dataprep_pipelines.runners.explaining import WORKER_DIED, explained
from dataprep_pipelines.runners.share import Share

if TYPE_CHECKING:
    import apache_beam as beam

_WATCH_SECONDS = 0.25
_STOP_SECONDS = 10.0

STOP = threading.Event()
"""Set when this process must stop; workers in it look at it before every image."""


class TasksFailedError(PipelineError):
    """Some elements of a graph could not be processed; all others were.

    Args:
        errors: what happened to them, by their position.
    """

    def __init__(self, errors: Mapping[int, DataprepError]) -> None:
        super().__init__(str(next(iter(errors.values()))))
        self.errors = dict(errors)


class QuietLauncherError(PipelineError):
    """A worker has stopped because the launcher seems to be dead: if it lives, it asks again."""


class KillsWorkersError(PipelineError):
    """Every worker that had this element died; the engine has tried it often enough."""


class Running(ABC):
    """An engine that is ready to run graphs."""

    is_local = False
    """Whether its workers end with this process, on this machine."""

    @property
    def look_seconds(self) -> float:
        """How often each worker should look whether its run still goes on."""
        return 2.0

    @abstractmethod
    def share(self, shards: int, *, images: int) -> Share:
        """How a worker process is to work.

        Args:
            shards: how many there are to make.
            images: how many are in them; 0 if nobody but a shard's own thread can do most of its
                work.
        """

    @abstractmethod
    def at_once(self, share: Share) -> int:
        """How many shards are written at the same time, all workers together."""

    def scan_share(self) -> Share:
        """How a worker process is to work while it scans."""
        return Share()

    @abstractmethod
    def scan_helpers(self) -> int:
        """How many processes a worker may start to scan with; 0 or 1 for none."""

    @abstractmethod
    def pipeline(self, share: Share) -> beam.Pipeline:
        """An empty pipeline that will run here."""

    def attend(self) -> None:  # noqa: B027  # most engines need none
        """Look after the engine itself; called as often as progress is.

        Raises:
            PipelineError: it is gone.
        """

    def cancel(self) -> None:  # noqa: B027  # most engines need none
        """Begin nothing any more; what has begun learns of the stop through the file system."""

    def explained(self, error: BaseException) -> DataprepError:
        """What to tell the user of an error that ended a graph."""
        return explained(error)

    def run(
        self,
        build: Callable[[beam.Pipeline], Any],
        share: Share,
        *,
        watch: Callable[[], None],
        stop: Callable[[], None],
    ) -> None:
        """Run a graph to its end, calling ``watch`` about four times a second meanwhile.

        Args:
            build: adds the graph to an empty pipeline.
            share: how each worker process works.
            watch: progress; may raise, which stops the run.
            stop: told when the run is to be stopped, so that workers elsewhere learn of it.

        Raises:
            TasksFailedError: some elements were not processed.
            DataprepError: Beam itself failed, or told what a worker could not write down.
        """
        STOP.clear()
        pipeline = self.pipeline(share)
        build(pipeline)
        failures: list[BaseException] = []
        # Not Thread.join: a signal's exception raised in it marks the thread as ended for ever.
        done = threading.Event()

        def execute() -> None:
            try:
                pipeline.run().wait_until_finish()
            except BaseException as error:  # noqa: BLE001  # handed to the main thread below
                failures.append(error)
            finally:
                done.set()

        def died(error: BaseException) -> None:
            failures.append(error)
            done.set()

        # A daemon, so that a runner that does not stop cannot keep the process alive.
        threading.Thread(target=execute, name="beam", daemon=True).start()
        try:
            with _watching_worker_processes(died):
                while not done.wait(_WATCH_SECONDS):
                    watch()
                    self.attend()
        except BaseException:
            STOP.set()
            stop()
            self.cancel()
            done.wait(_STOP_SECONDS)
            raise
        if failures:
            if isinstance(failures[0], TasksFailedError):
                raise failures[0]
            STOP.set()
            stop()
            self.cancel()
            raise self.explained(failures[0]) from failures[0]


@contextmanager
def _watching_worker_processes(died: Callable[[BaseException], None]) -> Iterator[None]:
    """Learn of a worker process that was killed, of which Beam tells nobody and waits for ever.

    Beam waits for each worker process in a thread, and raises in that thread when it dies.
    """
    before = threading.excepthook

    def hook(arguments: threading.ExceptHookArgs) -> None:
        if WORKER_DIED in str(arguments.exc_value) and arguments.exc_value is not None:
            died(arguments.exc_value)
        else:
            before(arguments)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = before
