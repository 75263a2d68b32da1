"""Any other runner that Beam knows by name, with its own options passed through."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataprep.errors import DataprepError, PipelineError, UsageError
from dataprep_pipelines.failures import engine_error, first_line, shortened
from dataprep_pipelines.runners.engine import Engine, Parallelism, RunningEngine

if TYPE_CHECKING:
    import apache_beam as beam

_PAUSE_SECONDS = 2.0
_IN_JAVA = frozenset({"FlinkRunner", "SparkRunner"})
_OF_OTHER_RUNNERS = frozenset(
    {
        *("FlinkRunnerOptions", "SparkRunnerOptions", "PrismRunnerOptions", "JobServerOptions"),
        *("GoogleCloudOptions", "DaskOptions"),
    }
)
_NAME_ITS_SERVER = "start the server elsewhere and name it after `--`: --job_endpoint=HOST:PORT"
# What Beam says when it cannot download a program: a paragraph of addresses. The user's way out.
_NOT_DOWNLOADED = {
    "Unable to fetch remote job server jar": (
        "Beam's job server is not on this host and cannot be downloaded; stage its jar and name "
        f"it after `--`, with Flink --flink_job_server_jar=FILE, or {_NAME_ITS_SERVER}"
    ),
    "Unable to fetch remote prism binary": (
        "Beam's Prism is not on this host and cannot be downloaded; stage it and name it after "
        "`--`: --prism_location=FILE"
    ),
}


class NamedEngine(RunningEngine):
    """One of Beam's runners; how its workers divide the elements is its own affair."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def parallelism(self, shards: int, *, images: int) -> Parallelism:  # noqa: ARG002  # its own
        """A shard at a time in each worker, with ``workers`` threads for its images."""
        workers = self._engine.workers
        helpers = workers if images and workers > 1 else 0
        return Parallelism(helpers=helpers, pause=_PAUSE_SECONDS)

    def shards_at_once(self, parallelism: Parallelism) -> int:
        """As far as this process knows."""
        return parallelism.shards

    def pipeline(self, parallelism: Parallelism) -> beam.Pipeline:  # noqa: ARG002  # not ours
        """One that Beam gives to that runner."""
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions

        try:
            return beam.Pipeline(options=PipelineOptions(_flags(self._engine)))
        except Exception as error:  # whatever a class of somebody else's does
            raise self.explained(error) from error

    def explained(self, error: BaseException) -> DataprepError:
        """In one line, with what the user can do about a program that is missing."""
        said = " ".join(str(error).split())
        for beginning, meaning in _NOT_DOWNLOADED.items():
            if beginning in said:
                return PipelineError(f"--runner {self._engine.runner}: {meaning}")
        return engine_error(error)


def check_named(engine: Engine) -> None:
    """Find out now whether Beam knows the runner, and has what it needs.

    Raises:
        UsageError: it does not, or something is not installed or not given.
    """
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.options.pipeline_options_validator import PipelineOptionsValidator
    from apache_beam.runners.runner import create_runner

    name = engine.runner
    try:
        runner = create_runner(name)
    except ImportError as error:
        raise UsageError(
            f"--runner {name}: {shortened(first_line(error))}; use direct, dask, or one of Beam's "
            "runners that is installed"
        ) from error
    except Exception as error:  # whatever a class of somebody else's does
        raise UsageError(
            f"--runner {name}: Beam has no runner of that name; use direct, dask, or one of Beam's "
            "runners: FlinkRunner, SparkRunner, PortableRunner, PrismRunner, DataflowRunner"
        ) from error
    options = PipelineOptions(_flags(engine))
    wrong = PipelineOptionsValidator(options, runner).validate()
    if wrong:
        said = shortened(" ".join(" ".join(wrong).split()))
        raise UsageError(f"--runner {name}, Beam options after `--`: {said}")
    _check_java(name, runner, options.get_all_options())


def _check_java(name: str, runner: object, options: Mapping[str, Any]) -> None:
    """Beam would start a job server itself, which is a Java program."""
    if type(runner).__name__ not in _IN_JAVA or options.get("job_endpoint"):
        return
    home = os.environ.get("JAVA_HOME")
    if shutil.which(str(Path(home, "bin", "java")) if home else "java") is None:
        raise UsageError(
            f"--runner {name} needs Java for Beam's job server, and there is none here; install "
            f"Java, or {_NAME_ITS_SERVER}"
        )


def check_flags(engine: Engine) -> None:
    """Beam ignores what it does not know; a mistyped option should not pass in silence.

    Raises:
        UsageError: Beam has no such option, or only for another runner.
    """
    flags = list(engine.beam_options)
    if not flags:
        return
    from apache_beam.options.pipeline_options import PipelineOptions

    everything = PipelineOptions.__subclasses__()
    try:
        unknown = _unknown([PipelineOptions, *everything], flags)
        if unknown:
            raise UsageError(
                f"Beam has no option {unknown[0]!r}; what follows `--` is passed to Beam, "
                "options of dataprep come before it"
            )
        if engine.is_local:
            here = [kind for kind in everything if kind.__name__ not in _OF_OTHER_RUNNERS]
            unknown = _unknown([PipelineOptions, *here], flags)
    except (argparse.ArgumentError, SystemExit) as error:
        raise UsageError(f"Beam options after `--`: {error}") from error
    if unknown:
        raise UsageError(
            f"{unknown[0]} is for another of Beam's runners, but --runner is {engine.runner}"
        )


def _unknown(kinds: Sequence[Any], flags: list[str]) -> list[str]:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for options in kinds:
        add = getattr(options, "_add_argparse_args", None)
        if add is not None:
            add(parser)
    return parser.parse_known_args(flags)[1]


def _flags(engine: Engine) -> list[str]:
    return [f"--runner={engine.runner}", *engine.beam_options]
