"""Where Beam graphs run: which engine the user chose, and what each of them can do.

Beam blocks while it runs, so it runs in a thread of its own; the main thread watches the commit
records and takes the signals.
"""

from __future__ import annotations

import importlib.util
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataprep.errors import DataprepError, UsageError
from dataprep.sinks import ShardName
from dataprep_pipelines.failures import (
    WORKER_DIED,
    TasksFailedError,
    engine_error,
)

if TYPE_CHECKING:
    import apache_beam as beam

    from dataprep_pipelines.tasks import WorkerRequirements

DIRECT, DASK = "direct", "dask"
_OWN_NAMES = {"direct": DIRECT, "dask": DASK}  # Beam calls them DirectRunner and DaskRunner
_CLUSTERS = "--dask_client_address, --dask_scheduler_file or --dask_slurm"
_WATCH_SECONDS = 0.25
_STOP_SECONDS = 10.0

STOP = threading.Event()
"""Set when this process must stop; workers in it look at it before every image."""


@dataclass(frozen=True, slots=True)
class DaskChoice:
    """Which Dask cluster; exactly one of the first three is given.

    Attributes:
        address: of a scheduler, e.g. ``tcp://10.0.0.1:8786``.
        scheduler_file: a file in which a scheduler wrote its address.
        slurm: a cluster to be started in Slurm, e.g. ``nodes=4,cores=16,memory=32GB``.
        patience: seconds without any worker before the run gives up.
    """

    address: str | None = None
    scheduler_file: Path | None = None
    slurm: str | None = None
    patience: float = 300.0


@dataclass(frozen=True, slots=True)
class Engine:
    """Where and how parallel the graphs run, as the user asked for it.

    Attributes:
        workers: cores to keep busy on this machine.
        runner: ``direct``, ``dask``, or the name of one of Beam's runners.
        beam_options: options for Beam itself, passed through untouched.
        dask: with ``dask``, which cluster.
    """

    workers: int
    runner: str = DIRECT
    beam_options: tuple[str, ...] = ()
    dask: DaskChoice = field(default_factory=DaskChoice)

    @property
    def name(self) -> str:
        """The runner, by dataprep's own name for it if it has one."""
        return _OWN_NAMES.get(self.runner.lower().removesuffix("runner"), self.runner)

    @property
    def is_local(self) -> bool:
        """Whether the graphs run on this machine, under this program's control."""
        return self.name == DIRECT

    @property
    def is_dask(self) -> bool:
        """Whether the graphs run on a Dask cluster."""
        return self.name == DASK


@dataclass(frozen=True, slots=True)
class Parallelism:
    """How many worker processes there are on this machine, and how each works.

    Attributes:
        processes: local worker processes; 1 means this one, without start-up cost.
        shards: written at the same time by a process, each by a thread of its own.
        helpers: threads or processes that only convert images; 0 for none.
        helper_processes: whether the helpers are processes.
        pause: seconds to wait after a shard failed. A machine that fails fast would otherwise
            take shard after shard from those that work.
    """

    processes: int = 1
    shards: int = 1
    helpers: int = 0
    helper_processes: bool = False
    pause: float = 0.0


class RunningEngine(ABC):
    """An engine that is ready to run graphs."""

    is_local = False
    """Whether its workers end with this process, on this machine."""

    @property
    def look_seconds(self) -> float:
        """How often each worker should look whether its run still goes on."""
        return 2.0

    @abstractmethod
    def parallelism(self, shards: int, *, images: int) -> Parallelism:
        """How the shards are divided among workers.

        Args:
            shards: how many there are to make.
            images: how many are in them; 0 if nobody but a shard's own thread can do most of its
                work.
        """

    @abstractmethod
    def shards_at_once(self, parallelism: Parallelism) -> int:
        """How many shards are written at the same time, all workers together."""

    def elements(
        self,
        shards: Sequence[ShardName],
        parallelism: Parallelism,  # noqa: ARG002  # for our own processes
    ) -> AbstractContextManager[Sequence[Any]]:
        """What the graph is given: the shards, or what local processes take them from."""
        return nullcontext(shards)

    def scan_processes(self) -> int:
        """How many processes a worker may start to scan with; 0 or 1 for none."""
        return 0

    @abstractmethod
    def pipeline(self, parallelism: Parallelism) -> beam.Pipeline:
        """An empty pipeline that will run here."""

    def attend(self, *, ended: bool = False) -> None:  # noqa: B027  # most engines need none
        """Look after the engine itself; called as often as progress is, and at the end.

        Args:
            ended: the graph was run; what the user was not told yet must be told now.

        Raises:
            PipelineError: it is gone.
        """

    def cancel(self) -> None:  # noqa: B027  # most engines need none
        """Begin nothing any more; what has begun learns of the stop through the file system."""

    def explained(self, error: BaseException) -> DataprepError:
        """What to tell the user of an error that ended a graph."""
        return engine_error(error)

    def run(
        self,
        elements: Sequence[Any],
        work: beam.DoFn,
        parallelism: Parallelism,
        *,
        watch: Callable[[], None],
        stop: Callable[[], None],
    ) -> None:
        """Run a graph to its end, calling ``watch`` about four times a second meanwhile.

        Args:
            elements: what there is to do; nothing larger than a shard's name crosses Beam.
            work: what is done with each of them.
            parallelism: how local worker processes work.
            watch: progress; may raise, which stops the run.
            stop: told when the run is to be stopped, so that workers elsewhere learn of it.

        Raises:
            TasksFailedError: some elements were not processed.
            DataprepError: Beam itself failed, or told what a worker could not write down.
        """
        STOP.clear()
        import apache_beam as beam

        pipeline = self.pipeline(parallelism)
        _ = pipeline | beam.Create(elements) | beam.ParDo(work)
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
                self.attend(ended=True)
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


@contextmanager
def started(
    engine: Engine, requirements: WorkerRequirements, report: Callable[[str], None]
) -> Iterator[RunningEngine]:
    """The engine, ready; whatever was started for it is ended.

    Args:
        engine: which.
        requirements: what its workers must be able to read, write and run.
        report: told what takes time.

    Raises:
        PipelineError: it does not start, or its workers are not as this process is.
    """
    logging.getLogger("apache_beam").setLevel(logging.ERROR)
    if engine.is_local:
        from dataprep.system.throttle import divide
        from dataprep_pipelines.runners.local import LocalEngine

        try:
            yield LocalEngine(engine)
        finally:
            divide(1)
    elif engine.is_dask:
        from dataprep_pipelines.runners.dask import dask_cluster

        with dask_cluster(engine.dask, requirements, report) as running:
            yield running
    else:
        from dataprep_pipelines.runners.named import NamedEngine

        yield NamedEngine(engine)


def check(engine: Engine) -> None:
    """Find out now whether the engine is installed and its options are right.

    Raises:
        UsageError: it is not, or they are not.
    """
    from dataprep_pipelines.runners.named import check_flags, check_named

    for option in engine.beam_options:
        if option.split("=")[0] == "--runner":
            raise UsageError(
                "--runner is an option of dataprep: write it before the `--`, and what that "
                "runner needs after it"
            )
    if engine.is_dask:
        _check_dask(engine)
    check_flags(engine)
    if not engine.is_local and not engine.is_dask:
        check_named(engine)


def _check_dask(engine: Engine) -> None:
    choice = engine.dask
    needed = ["dask", "distributed", *(["dask_jobqueue"] if choice.slurm is not None else [])]
    missing = [name for name in needed if not importlib.util.find_spec(name)]
    if missing:
        raise UsageError(
            f"--runner dask needs the Python package {missing[0]}, which is not installed; "
            "install the extra: dask"
        )
    places = (choice.address, choice.scheduler_file, choice.slurm)
    given = sum(place is not None for place in places)
    if given > 1:
        raise UsageError(f"--runner dask is for one cluster: give only one of {_CLUSTERS}")
    if given == 0:
        raise UsageError(
            f"--runner dask needs to know which cluster: give one of {_CLUSTERS}; for this machine "
            "alone, leave --runner out"
        )
    if any(option.startswith("--dask_") for option in engine.beam_options):
        raise UsageError(f"write {_CLUSTERS} before the `--`: the cluster is dataprep's business")
    if choice.address is not None:
        from dataprep_pipelines.runners.dask import check_address

        check_address(choice.address)
    if choice.slurm is not None:
        from dataprep_pipelines.runners.dask_slurm import parse_slurm

        parse_slurm(choice.slurm)
