"""Where Beam graphs run: which engine the user chose, and what each of them can do."""

from __future__ import annotations

import importlib.util
import logging
import os
import resource
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataprep.errors import UsageError
from dataprep.system.messages import sized
from dataprep_pipelines.failures import WORKER_DIED, FailureLog, engine_error
from dataprep_pipelines.worker import DEBUG

if TYPE_CHECKING:
    import apache_beam as beam

_CLUSTERS = "--dask_client_address, --dask_scheduler_file or --dask_slurm"
_ADDRESS_SPACE = 3_000_000_000  # bytes; measured: 2.7 of one worker, 3.1 of 16
_WATCH_SECONDS = 0.25
_STOP_SECONDS = 10.0

STOP = threading.Event()
"""Set when this process must stop; workers in it look at it before every image."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Where and how parallel the graphs run, as the user asked for it.

    Attributes:
        workers: cores to keep busy on this machine.
        runner: ``direct``, ``dask``, or the name of one of Beam's runners.
        beam_options: options for Beam itself, passed through untouched.
        dask_client_address: of a Dask scheduler, e.g. ``tcp://10.0.0.1:8786``;
        dask_scheduler_file: or a file in which one wrote its address;
        dask_slurm: or a cluster to be started in Slurm, e.g. ``nodes=4,cores=16,memory=32GB``.
        dask_patience: seconds without any worker before the run gives up.
    """

    workers: int
    runner: str = "direct"
    beam_options: tuple[str, ...] = ()
    dask_client_address: str | None = None
    dask_scheduler_file: Path | None = None
    dask_slurm: str | None = None
    dask_patience: float = 300.0

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
    """How many workers there are, and how each works.

    Attributes:
        processes: workers, as far as this process knows; of this machine, 1 means this one,
            without start-up cost.
        shards: written at the same time by a worker, each by a thread of its own.
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

    @property
    def at_once(self) -> int:
        """How many shards are written at the same time, all workers together."""
        return self.processes * self.shards


class RunningEngine(ABC):
    """An engine that is ready to run graphs."""

    @property
    def look_seconds(self) -> float:
        """How often each worker should look whether its run still goes on."""
        return 2.0

    @abstractmethod
    def parallelism(self, shards: int, *, images: int) -> Parallelism:
        """How the shards are divided among workers.

        Args:
            images: how many are in them; 0 if nobody but a shard's own thread can do most of its
                work.
        """

    @abstractmethod
    def run(
        self,
        elements: Sequence[Any],
        work: beam.DoFn,
        parallelism: Parallelism,
        *,
        watch: Callable[[], None],
        failures: FailureLog,
    ) -> None:
        """Process all elements, and call ``watch`` about four times a second meanwhile.

        Args:
            elements: what there is to do; nothing larger than a shard's name crosses Beam.
            work: what is done with them: its ``process`` takes some at a time, one or all there
                are.
            watch: progress; may raise, which stops the run.
            failures: told when the run is to be stopped, so that workers elsewhere learn of it,
                and what a worker could not tell.

        Raises:
            DataprepError: the engine itself failed, or told what a worker could not write down.
        """


def run_graph(
    pipeline: beam.Pipeline,
    elements: Sequence[Any],
    work: beam.DoFn,
    *,
    watch: Callable[[], None],
    failures: FailureLog,
) -> None:
    """Run ``Create | ParDo`` with Beam, as `RunningEngine.run`.

    Beam blocks while it runs, so it runs in a thread of its own; the main thread watches the
    commit records and takes the signals.
    """
    STOP.clear()
    import apache_beam as beam

    # Made for other languages' transforms. Who is killed could not remove it.
    with suppress(OSError):
        Path(pipeline.local_tempdir).rmdir()
    with _without_cell_labels():
        _ = pipeline | beam.Create(elements) | beam.ParDo(work)
    errors: list[BaseException] = []
    # Not Thread.join: a signal's exception raised in it marks the thread as ended for ever.
    done = threading.Event()

    def execute() -> None:
        try:
            pipeline.run().wait_until_finish()
        except BaseException as error:  # noqa: BLE001  # handed to the main thread below
            errors.append(error)
        finally:
            done.set()

    def hook(arguments: threading.ExceptHookArgs) -> None:
        # Beam waits for each worker process in a thread, raises in that thread when it was killed,
        # tells nobody, and waits for ever.
        if WORKER_DIED in str(arguments.exc_value) and arguments.exc_value is not None:
            errors.append(arguments.exc_value)
            done.set()
        else:
            before(arguments)

    before, threading.excepthook = threading.excepthook, hook
    # A daemon, so that a runner that does not stop cannot keep the process alive.
    threading.Thread(target=execute, name="beam", daemon=True).start()
    finished = False
    try:
        while not done.wait(_WATCH_SECONDS):
            watch()
        finished = not errors
    finally:
        threading.excepthook = before
        if not finished:
            STOP.set()
            failures.stop()
            done.wait(_STOP_SECONDS)
    if errors:
        raise engine_error(errors[0]) from errors[0]


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


@contextmanager
def started(engine: Engine, logs: Path, report: Callable[[str], None]) -> Iterator[RunningEngine]:
    """The engine, ready; whatever was started for it is ended.

    Raises:
        PipelineError: it does not start.
    """
    # What matters is raised; Beam's own words, with a traceback each, would bury it.
    quiet = logging.ERROR if DEBUG in os.environ else logging.CRITICAL
    logging.getLogger("apache_beam").setLevel(quiet)
    if engine.is_local:
        from dataprep_pipelines.runners.local import LocalEngine

        yield LocalEngine(engine)
    elif engine.is_dask:
        from dataprep_pipelines.runners.dask import dask_cluster

        with dask_cluster(engine, logs, report) as running:
            yield running
    else:
        from dataprep_pipelines.runners.named import NamedEngine

        yield NamedEngine(engine)


def check(engine: Engine) -> None:
    """Find out now whether the engine is installed and its options are right.

    Raises:
        UsageError: it is not, or they are not.
    """
    from dataprep_pipelines.runners.named import check_flags, check_runner

    check_flags(engine.beam_options)
    _check_address_space()
    if engine.is_dask:
        _check_dask(engine)
    elif not engine.is_local:
        check_runner(engine.runner)


def _check_address_space() -> None:
    """Libraries map much more than they use; with less, some wait for ever or crash."""
    bound, _ = resource.getrlimit(resource.RLIMIT_AS)
    if bound != resource.RLIM_INFINITY and bound < _ADDRESS_SPACE:
        raise UsageError(
            f"a process may map {sized(bound)} of address space here (ulimit -v {bound >> 10}), "
            f"and needs {sized(_ADDRESS_SPACE)}, most of which takes no memory; raise that, and "
            "bound memory by the scheduler or a control group"
        )


def _check_dask(engine: Engine) -> None:
    places = (engine.dask_client_address, engine.dask_scheduler_file, engine.dask_slurm)
    if sum(place is not None for place in places) != 1:
        raise UsageError(f"--runner dask needs to know which cluster: give one of {_CLUSTERS}")
    for name in ("dask", "distributed", "dask_jobqueue")[: 3 if engine.dask_slurm else 2]:
        if not importlib.util.find_spec(name):
            raise UsageError(
                f"--runner dask needs the Python package {name}, which is not installed; "
                "install the extra: dask"
            )
    if engine.dask_slurm is not None:
        from dataprep_pipelines.runners.dask_slurm import parse_slurm

        parse_slurm(engine.dask_slurm)
