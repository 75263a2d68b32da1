"""Starting the engine that was chosen, and ending it."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dataprep.errors import UsageError
from dataprep.system.throttle import divide
from dataprep_pipelines.runners.engine import Engine
from dataprep_pipelines.runners.running import Running
from dataprep_pipelines.runners.shared_places import SharedPlaces

_PLACES = "--dask_client_address, --dask_scheduler_file or --dask_slurm"


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
    missing = [name for name in ("dask", "distributed") if not importlib.util.find_spec(name)]
    if engine.dask.slurm is not None and not importlib.util.find_spec("dask_jobqueue"):
        missing.append("dask_jobqueue")
    if missing:
        raise UsageError(
            f"--runner dask needs the Python package {missing[0]}, which is not installed; "
            "install the extra: dask"
        )
    choice = engine.dask
    given = sum(
        place is not None for place in (choice.address, choice.scheduler_file, choice.slurm)
    )
    if given > 1:
        raise UsageError(f"--runner dask is for one cluster: give only one of {_PLACES}")
    if given == 0:
        raise UsageError(
            f"--runner dask needs to know which cluster: give one of {_PLACES}; for this machine "
            "alone, leave --runner out"
        )
    if any(option.startswith("--dask_") for option in engine.beam_options):
        raise UsageError(f"write {_PLACES} before the `--`: the cluster is dataprep's business")
    if choice.address is not None:
        from dataprep_pipelines.runners.dask.addresses import check_address

        check_address(choice.address)
    if choice.slurm is not None:
        from dataprep_pipelines.runners.dask.slurm import SlurmWorkers

        SlurmWorkers.parse(choice.slurm)


@contextmanager
def started(
    engine: Engine, places: SharedPlaces, report: Callable[[str], None]
) -> Iterator[Running]:
    """The engine, ready; whatever was started for it is ended.

    Args:
        engine: which.
        places: what its workers must be able to read and write.
        report: told what takes time.

    Raises:
        PipelineError: it does not start, or its workers are not as this process is.
    """
    logging.getLogger("apache_beam").setLevel(logging.ERROR)
    if engine.is_local:
        from dataprep_pipelines.runners.local import LocalRunning

        try:
            yield LocalRunning(engine)
        finally:
            divide(1)
    elif engine.is_dask:
        from dataprep_pipelines.runners.dask.session import dask_session

        with dask_session(engine.dask, places, report) as running:
            yield running
    else:
        from dataprep_pipelines.runners.named import NamedRunning

        yield NamedRunning(engine)
