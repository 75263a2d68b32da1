"""The engine that the user named: checked before anything is done, then started.

By name it is this machine, Dask, or any other runner that Beam knows, with its own options.
"""

from __future__ import annotations

import argparse
import importlib.util
import logging
import os
import re
import resource
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from dataprep.errors import PipelineError, UsageError
from dataprep.system.messages import sized
from dataprep_pipelines.failures import RESUME, line_of
from dataprep_pipelines.runners.engine import (
    BeamEngine,
    Engine,
    Parallelism,
    Round,
    RunningEngine,
    beam_is_installed,
    beams_words,
    engine_error,
)
from dataprep_pipelines.worker import DEBUG

if TYPE_CHECKING:
    import apache_beam as beam

_ADDRESS_SPACE = 3_000_000_000  # bytes; measured: 2.7 of one worker, 3.1 of 16
_CLUSTERS = "--dask_client_address, --dask_scheduler_file or --dask_slurm"
_PAUSE_SECONDS = 10.0
_SILENT_SECONDS = 60.0
_ANSWER_SECONDS = 10.0
# Beam's time for a job service's answers ends also whatever takes longer, such as its 5 minutes.
_JOB_SECONDS = 365 * 86_400


@contextmanager
def started(engine: Engine, logs: Path, report: Callable[[str], None]) -> Iterator[RunningEngine]:
    """The engine, ready; whatever was started for it is ended.

    Args:
        logs: a directory for what jobs say that are started in Slurm.
        report: told which workers there are.

    Raises:
        PipelineError: it does not start.
    """
    # What matters is raised; Beam's own words, with a traceback each, would bury it.
    quiet = logging.ERROR if DEBUG in os.environ else logging.CRITICAL
    logging.getLogger("apache_beam").setLevel(quiet)
    if engine.is_local:
        from dataprep_pipelines.runners.local import LocalEngine

        with closing(LocalEngine(engine)) as local:
            yield local
    elif engine.is_dask:
        from dataprep_pipelines.runners.dask import dask_cluster

        with dask_cluster(engine, logs, report) as running:
            yield running
    else:
        yield NamedEngine(engine)


class NamedEngine(BeamEngine):
    """One of Beam's runners; how its workers divide the elements is its own affair."""

    @property
    @override
    def silent_seconds(self) -> float:
        """Beam's own job service waits for ever for a worker that was killed."""
        return _SILENT_SECONDS

    @override
    def parallelism(self, shards: int, *, images: int, small: bool) -> Parallelism:
        """A shard at a time in each worker, with ``workers`` threads for its images."""
        workers = self._engine.workers
        helpers = workers if images and workers > 1 else 0
        return Parallelism(helpers=helpers, pause=_PAUSE_SECONDS)

    @contextmanager
    def graph(self, elements: Sequence[Any]) -> Iterator[tuple[beam.Pipeline, Sequence[Any]]]:
        """A graph of an element each."""
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions

        long = f"--job_server_timeout={_JOB_SECONDS}"  # first: what the user says counts
        flags = [f"--runner={self._engine.runner}", long, *self._engine.beam_options]
        try:
            pipeline = beam.Pipeline(options=PipelineOptions(flags))
        except Exception as error:  # whatever a class of somebody else's does
            raise engine_error(error) from error
        yield pipeline, [(element,) for element in elements]

    @override
    def run(self, task: Round) -> None:
        """An error of the connection to a job service is told as one."""
        try:
            super().run(task)
        except PipelineError as error:
            cause = error.__cause__
            if cause is None or type(cause).__module__.partition(".")[0] != "grpc":
                raise
            place = _beam_options(self._engine.beam_options).job_endpoint
            raise PipelineError(
                f"the job service{f' at {place}' if place else ''} does not answer any more "
                f"({beams_words(cause)}); see that it runs; {RESUME}"
            ) from cause


def check(engine: Engine) -> None:
    """Find out now whether the engine is installed and its options are right.

    Raises:
        UsageError: it is not, or they are not.
    """
    _check_address_space()
    if engine.is_dask:
        _check_dask(engine)
    named = not (engine.is_dask or engine.is_local)
    if named or engine.beam_options:
        if not beam_is_installed():
            raise UsageError(
                f"--runner {engine.runner} with Beam's options or runners needs Apache Beam, which "
                "is not installed: pip install apache-beam, or leave --runner out"
            )
        options = _beam_options(engine.beam_options)
        if named:
            _check_runner(engine.runner, options)


def _check_address_space() -> None:
    """Libraries map much more than they use; with less, some wait for ever or crash."""
    bound, _ = resource.getrlimit(resource.RLIMIT_AS)
    if bound != resource.RLIM_INFINITY and bound < _ADDRESS_SPACE:
        raise UsageError(
            f"a process may map {sized(bound)} of address space here (ulimit -v {bound >> 10}), "
            f"and needs {sized(_ADDRESS_SPACE)}, most of which takes no memory; raise that, and "
            "bound memory by the scheduler or a control group"
        )


def _beam_options(flags: Sequence[str]) -> argparse.Namespace:
    """Beam's own options; it ignores those it does not know, and a mistyped one should not pass."""
    from apache_beam.options.pipeline_options import PipelineOptions

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for options in PipelineOptions.__subclasses__():
        options._add_argparse_args(parser)
    try:
        known, unknown = parser.parse_known_args(flags)
    except (argparse.ArgumentError, SystemExit) as error:
        raise UsageError(f"Beam options after `--`: {error}") from error
    if unknown:
        raise UsageError(
            f"Beam has no option {unknown[0]!r}; what follows `--` is passed to Beam, "
            "options of dataprep come before it"
        )
    if known.runner is not None:
        raise UsageError("--runner is an option of dataprep: write it before the `--`")
    return known


def _check_dask(engine: Engine) -> None:
    places = (engine.dask_client_address, engine.dask_scheduler_file, engine.dask_slurm)
    if sum(place is not None for place in places) != 1:
        raise UsageError(f"--runner dask needs to know which cluster: give one of {_CLUSTERS}")
    of_slurm = ("dask_jobqueue", "cryptography") if engine.dask_slurm else ()
    for name in ("dask", "distributed", *of_slurm):
        if not importlib.util.find_spec(name):
            raise UsageError(
                f"--runner dask needs the Python package {name}, which is not installed; "
                "install the extra: dask"
            )
    if engine.dask_slurm is not None:
        from dataprep_pipelines.runners.dask_slurm import parse_slurm

        parse_slurm(engine.dask_slurm)


def _check_runner(name: str, options: argparse.Namespace) -> None:
    """Refuse a runner that Beam lacks, or that would fail only once everything is scanned."""
    from apache_beam.runners.runner import create_runner

    try:
        create_runner(name)
    except Exception as error:  # whatever a class of somebody else's does
        raise UsageError(
            f"--runner {name}: {line_of(error)}; use direct, dask, or one of Beam's runners: "
            "FlinkRunner, SparkRunner, PortableRunner, PrismRunner"
        ) from error
    kind = name.rpartition(".")[2].removesuffix("Runner")
    if kind == "Dataflow":
        raise UsageError(
            f"--runner {name}: its workers run in Google's cloud, where they do not see the raw "
            "data and the output directory; use direct or dask, or a runner whose workers have "
            "both under the same paths as this machine"
        )
    if kind in ("Flink", "Spark", "Portable", "Prism") and (lacks := _lacks(kind, options)):
        raise UsageError(f"--runner {name}: {lacks}; Beam's own options follow `--`")
    if options.job_endpoint not in (None, "embed"):
        _check_job_service(name, options.job_endpoint)


def _check_job_service(name: str, endpoint: str) -> None:
    """Beam itself would wait for a minute, and then say next to nothing."""
    host, _, port = endpoint.rpartition(":")
    if not host or not port.isdecimal():
        raise UsageError(f"--job_endpoint={endpoint}: expected HOST:PORT, e.g. localhost:8099")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"--runner {name}: no job service answers at --job_endpoint={endpoint} "
            f"({line_of(error)}); start one there, or name another"
        ) from error


def _lacks(kind: str, options: argparse.Namespace) -> str:
    """What a portable runner of Beam's lacks, as its sources (2.77) ask for it; empty: nothing."""
    master = {
        "Flink": ("--flink_master", options.flink_master in ("[auto]", "[local]")),
        "Spark": ("--spark_master_url", re.match(r"local(\[|$)", options.spark_master_url)),
    }.get(kind)
    if options.job_endpoint is None:
        if master is None and kind == "Portable":
            return "expected --job_endpoint=HOST:PORT, where a job service of Beam's listens"
        jar = {"Flink": options.flink_job_server_jar, "Spark": options.spark_job_server_jar}.get(
            kind
        )
        for option, place in (
            (f"--{kind.lower()}_job_server_jar", jar),
            ("--prism_location", options.prism_location if kind == "Prism" else None),
        ):
            if place and "://" not in place and not Path(place).is_file():
                return f"there is no file {option}={place}"
        if kind == "Spark" and options.spark_submit_uber_jar and not options.spark_rest_url:
            return "expected --spark_rest_url=HOST:PORT with --spark_submit_uber_jar"
        if master and not (shutil.which("java") or "JAVA_HOME" in os.environ):
            return (
                "its job server needs Java, and there is no program java; install one, or say by "
                "--job_endpoint=HOST:PORT where a job server runs"
            )
    here = kind == "Prism" or (master is not None and options.job_endpoint is None and master[1])
    if not here and options.environment_type in (None, "DOCKER"):
        return (
            "workers would run in containers that see neither the raw data nor the output "
            "directory; expected --environment_type=EXTERNAL with --environment_config=HOST:PORT "
            "of a worker pool, PROCESS, or, for workers on this machine, LOOPBACK"
        )
    if options.environment_type == "EXTERNAL" and not options.environment_config:
        return "expected --environment_config=HOST:PORT of a worker pool with EXTERNAL"
    return ""
