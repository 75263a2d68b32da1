"""Where the work is done: ``--runner`` and what belongs to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dataprep.cli.beam_options import beam_options
from dataprep.cli.sink_options import options
from dataprep.errors import UsageError
from dataprep.system.cores import usable_cores

if TYPE_CHECKING:
    from dataprep_pipelines.runners import Engine

_CLUSTERS = ("dask_client_address", "dask_scheduler_file", "dask_slurm")
_PATIENCE = 300

ENGINE = options(
    click.option(
        "--runner",
        default="direct",
        show_default=True,
        metavar="NAME",
        help="direct: this machine. dask: a Dask cluster. Or one of Beam's, e.g. FlinkRunner; its "
        "own options follow `--`.",
    ),
    click.option(
        "--dask_client_address",
        metavar="ADDRESS",
        help="A Dask scheduler, e.g. tcp://10.0.0.1:8786.",
    ),
    click.option(
        "--dask_scheduler_file",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="A file in which a Dask scheduler writes its address, as dask-mpi's does.",
    ),
    click.option(
        "--dask_slurm",
        metavar="WHAT",
        help="Start Dask's workers as Slurm jobs, and end them: "
        "nodes=4,cores=16,memory=32GB[,partition=,account=,walltime=,...].",
    ),
    click.option(
        "--dask_patience",
        type=click.FloatRange(min=1),
        metavar="SECONDS",
        help=f"Give up when there is no Dask worker for so long. [default: {_PATIENCE}]",
    ),
    beam_options,
)


def chosen_engine(values: Mapping[str, Any]) -> Engine:
    """The engine that the options name.

    Raises:
        UsageError: an option of Dask without ``--runner dask``.
    """
    from dataprep_pipelines.runners import DaskChoice, Engine

    patience = values["dask_patience"]
    dask = DaskChoice(
        values["dask_client_address"],
        values["dask_scheduler_file"],
        values["dask_slurm"],
        _PATIENCE if patience is None else patience,
    )
    workers = values["workers"] or usable_cores()
    engine = Engine(workers, values["runner"], values["beam_options"], dask)
    if not engine.is_dask:
        for name in _CLUSTERS:
            if values[name] is not None:
                raise UsageError(
                    f"--{name} says which Dask cluster, but --runner is {engine.runner}"
                )
        if patience is not None:
            raise UsageError(
                f"--dask_patience is for Dask's workers, but --runner is {engine.runner}"
            )
    return engine
