"""Running a Beam graph: which engine, how many processes and threads, and how it stops.

Beam is the only executor. Locally it is Beam's own FnApiRunner, named explicitly: left to its
defaults, Beam tries to download another runner's binary before anything runs, which on a node
without internet is an error or a long hang.

Beam blocks while it runs, so it runs in a thread of its own; the main thread watches the commit
records and takes the signals.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dataprep.errors import PipelineError, UsageError

if TYPE_CHECKING:
    import apache_beam as beam

# Measured (docs/performance.md): up to this many threads one process keeps as many cores busy,
# since decoding, hashing and file I/O release the GIL; beyond it, processes are added.
THREADS_PER_PROCESS = 4

_WATCH_SECONDS = 0.25
_STOP_SECONDS = 10.0
_WORKER_DIED = "Worker subprocess exited"  # what Beam's SubprocessSdkWorker says

STOP = threading.Event()
"""Set when this process must stop; workers in it look at it before every image."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Where and how parallel the graph runs.

    Attributes:
        workers: cores to keep busy on this machine.
        beam_options: options for Beam itself, passed through untouched; with ``--runner`` among
            them, Beam runs the graph there and ``workers`` is threads a worker.
        alone: run the graph in this process, however many workers there are.
    """

    workers: int
    beam_options: tuple[str, ...] = ()
    alone: bool = False

    @property
    def is_local(self) -> bool:
        """Whether the graph runs on this machine, under this program's control."""
        return not any(option.split("=")[0] == "--runner" for option in self.beam_options)

    @property
    def processes(self) -> int:
        """Local worker processes; 1 means this one, without start-up cost."""
        if self.alone or not self.is_local:
            return 1
        return math.ceil(self.workers / THREADS_PER_PROCESS)

    @property
    def threads(self) -> int:
        """Threads in each worker process; all of them together never exceed ``workers``."""
        return max(self.workers // self.processes, 1)


def check(engine: Engine) -> None:
    """Find out now whether Beam knows its options and its runner.

    Raises:
        UsageError: it does not.
    """
    if not engine.beam_options:
        return
    from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
    from apache_beam.runners.runner import create_runner

    _check_flags(engine.beam_options)
    runner = PipelineOptions(list(engine.beam_options)).view_as(StandardOptions).runner
    try:
        if runner:
            create_runner(runner)
    except (ValueError, ImportError, AttributeError) as error:
        raise UsageError(f"Beam options after `--`: --runner={runner}: {error}") from error


def run(
    build: Callable[[beam.Pipeline], Any],
    engine: Engine,
    *,
    watch: Callable[[], None],
    stop: Callable[[], None],
) -> None:
    """Run a graph to its end, calling ``watch`` about four times a second meanwhile.

    Args:
        build: adds the graph to an empty pipeline.
        engine: where to run it.
        watch: progress; may raise, which stops the run.
        stop: told when the run is to be stopped, so that workers elsewhere learn of it.

    Raises:
        UsageError: Beam does not know an option.
        PipelineError: Beam itself failed.
    """
    STOP.clear()
    pipeline = _pipeline(engine)
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
    except BaseException:
        STOP.set()
        stop()
        done.wait(_STOP_SECONDS)
        raise
    if failures:
        STOP.set()
        stop()
        raise _explained(failures[0]) from failures[0]


@contextmanager
def _watching_worker_processes(died: Callable[[BaseException], None]) -> Iterator[None]:
    """Learn of a worker process that was killed, of which Beam tells nobody and waits for ever.

    Beam waits for each worker process in a thread, and raises in that thread when it dies.
    """
    before = threading.excepthook

    def hook(arguments: threading.ExceptHookArgs) -> None:
        if _WORKER_DIED in str(arguments.exc_value) and arguments.exc_value is not None:
            died(arguments.exc_value)
        else:
            before(arguments)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = before


def _explained(error: BaseException) -> PipelineError:
    lines = str(error).strip().splitlines()
    last = lines[-1] if lines else type(error).__name__
    return worker_died(last) if _WORKER_DIED in last else PipelineError(f"Beam failed: {last}")


def worker_died(how: str) -> PipelineError:
    """What to tell the user when one of this program's processes is gone."""
    return PipelineError(
        f"a worker process died ({how.rstrip('.')}); if the system killed it for want of memory, "
        "use fewer --workers; finished shards are kept: run the same command again to resume"
    )


def _pipeline(engine: Engine) -> beam.Pipeline:
    # Imported here so that `dataprep --help` and staging never load Beam.
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    logging.getLogger("apache_beam").setLevel(logging.ERROR)
    flags = (
        [*_local_flags(engine), *engine.beam_options] if engine.is_local else engine.beam_options
    )
    options = PipelineOptions(list(flags))
    runner = _local_runner(options, engine) if engine.is_local else None
    return beam.Pipeline(runner=runner, options=options)


def _local_flags(engine: Engine) -> list[str]:
    # Not --direct_running_mode=multi_processing: it would start Beam's worker, not ours.
    return [f"--direct_num_workers={engine.processes}"]


def _local_runner(options: Any, engine: Engine) -> Any:
    from apache_beam.portability.api import beam_provision_api_pb2
    from apache_beam.runners.portability.fn_api_runner import fn_runner
    from apache_beam.runners.portability.portable_runner import JobServiceHandle
    from apache_beam.transforms.environments import SubprocessSDKEnvironment

    from dataprep_pipelines.worker import command_line

    encoded = JobServiceHandle.encode_pipeline_options(options.get_all_options())
    information = beam_provision_api_pb2.ProvisionInfo(pipeline_options=encoded)
    worker = SubprocessSDKEnvironment.from_command_string(command_line())
    return fn_runner.FnApiRunner(
        worker if engine.processes > 1 else None,  # None: in this process
        provision_info=fn_runner.ExtendedProvisionInfo(information),
    )


def _check_flags(flags: Sequence[str]) -> None:
    """Beam ignores what it does not know; a mistyped option should not pass in silence."""
    import argparse

    from apache_beam.options.pipeline_options import PipelineOptions

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for options in [PipelineOptions, *PipelineOptions.__subclasses__()]:
        add = getattr(options, "_add_argparse_args", None)
        if add is not None:
            add(parser)
    try:
        _, unknown = parser.parse_known_args(list(flags))
    except (argparse.ArgumentError, SystemExit) as error:
        raise UsageError(f"Beam options after `--`: {error}") from error
    if unknown:
        raise UsageError(
            f"Beam has no option {unknown[0]!r}; what follows `--` is passed to Beam, "
            "options of dataprep come before it"
        )
