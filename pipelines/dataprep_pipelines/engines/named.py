"""Any other runner that Beam knows by name, with its own options passed through."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dataprep.errors import UsageError
from dataprep_pipelines.engines.engine import Engine
from dataprep_pipelines.engines.running import Running
from dataprep_pipelines.engines.share import Share

if TYPE_CHECKING:
    import apache_beam as beam

_PAUSE_SECONDS = 2.0


class NamedRunning(Running):
    """One of Beam's runners; how its workers divide the elements is its own affair."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def share(self, shards: int, *, images: bool) -> Share:  # noqa: ARG002  # not known here
        """``workers`` threads in each of its workers."""
        return Share(lanes=max(min(self._engine.workers, shards), 1), pause=_PAUSE_SECONDS)

    def at_once(self, share: Share) -> int:
        """As far as this process knows."""
        return share.lanes

    def scan_helpers(self) -> int:
        """None: a runner's worker may not be allowed to have children."""
        return 0

    def pipeline(self, share: Share) -> beam.Pipeline:  # noqa: ARG002  # for our own processes
        """One that Beam gives to that runner."""
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions

        return beam.Pipeline(options=PipelineOptions(_flags(self._engine)))


def check_named(engine: Engine) -> None:
    """Find out now whether Beam knows the runner.

    Raises:
        UsageError: it does not, or the runner is not installed.
    """
    from apache_beam.runners.runner import create_runner

    try:
        create_runner(engine.runner)
    except (ValueError, ImportError, AttributeError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(
            f"--runner {engine.runner}: {reason}; use direct, dask, or one of Beam's runners that "
            "is installed"
        ) from error


def check_flags(flags: Sequence[str]) -> None:
    """Beam ignores what it does not know; a mistyped option should not pass in silence.

    Raises:
        UsageError: Beam has no such option.
    """
    if not flags:
        return
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


def _flags(engine: Engine) -> list[str]:
    return [f"--runner={engine.runner}", *engine.beam_options]
