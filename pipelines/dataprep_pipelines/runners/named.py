"""Any other runner that Beam knows by name, with its own options passed through."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dataprep.errors import UsageError
from dataprep_pipelines.failures import FailureLog, engine_error, line_of
from dataprep_pipelines.runners.engine import Engine, Parallelism, RunningEngine, run_graph

if TYPE_CHECKING:
    import apache_beam as beam

_PAUSE_SECONDS = 10.0


class NamedEngine(RunningEngine):
    """One of Beam's runners; how its workers divide the elements is its own affair."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def parallelism(self, shards: int, *, images: int) -> Parallelism:  # noqa: ARG002  # its own
        """A shard at a time in each worker, with ``workers`` threads for its images."""
        workers = self._engine.workers
        helpers = workers if images and workers > 1 else 0
        return Parallelism(helpers=helpers, pause=_PAUSE_SECONDS)

    def run(
        self,
        elements: Sequence[Any],
        work: beam.DoFn,
        parallelism: Parallelism,  # noqa: ARG002  # its own
        *,
        watch: Callable[[], None],
        failures: FailureLog,
    ) -> None:
        """In a graph of an element each."""
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions

        flags = [f"--runner={self._engine.runner}", *self._engine.beam_options]
        try:
            pipeline = beam.Pipeline(options=PipelineOptions(flags))
        except Exception as error:  # whatever a class of somebody else's does
            raise engine_error(error) from error
        singly = [(element,) for element in elements]
        run_graph(pipeline, singly, work, watch=watch, failures=failures)


def check_runner(name: str) -> None:
    """Find out now whether Beam knows the runner.

    Raises:
        UsageError: it does not.
    """
    from apache_beam.runners.runner import create_runner

    try:
        create_runner(name)
    except Exception as error:  # whatever a class of somebody else's does
        raise UsageError(
            f"--runner {name}: {line_of(error)}; use direct, dask, or one of Beam's runners: "
            "FlinkRunner, SparkRunner, PortableRunner, PrismRunner, DataflowRunner"
        ) from error


def check_flags(flags: Sequence[str]) -> None:
    """Beam ignores what it does not know; a mistyped option should not pass in silence.

    Raises:
        UsageError: Beam has no such option, or dataprep has it.
    """
    if not flags:
        return
    from apache_beam.options.pipeline_options import PipelineOptions

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for options in (PipelineOptions, *PipelineOptions.__subclasses__()):
        add = getattr(options, "_add_argparse_args", None)
        if add is not None:
            add(parser)
    try:
        known, unknown = parser.parse_known_args(list(flags))
    except (argparse.ArgumentError, SystemExit) as error:
        raise UsageError(f"Beam options after `--`: {error}") from error
    if unknown:
        raise UsageError(
            f"Beam has no option {unknown[0]!r}; what follows `--` is passed to Beam, "
            "options of dataprep come before it"
        )
    if known.runner is not None:
        raise UsageError("--runner is an option of dataprep: write it before the `--`")
