"""The options that say how much of this machine a command may take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from dataprep.cli.byte_sizes import ByteSize
from dataprep.cli.sink_options import options
from dataprep.errors import UsageError

_LEAST_RATE = 100_000  # below, a forgotten unit is likelier than the wish

WORKERS = click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Cores to use. [default: the cores this process may use]",
)

RESOURCES = options(
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        metavar="N",
        help="Cores of this machine to use. With one of Beam's runners: threads of each of its "
        "workers. It says nothing to Dask's workers, which have threads of their own. [default: "
        "the cores this process may use]",
    ),
    click.option(
        "--nice",
        type=click.IntRange(0, 19),
        metavar="N",
        help="Let other processes of this machine go first: run with this niceness, 1 to 19.",
    ),
    click.option(
        "--io_limit",
        type=ByteSize(least=_LEAST_RATE),
        metavar="SIZE",
        help="Read and write at most so many bytes a second, all processes on this machine "
        "together, e.g. 200MB. [default: no bound]",
    ),
)


@contextmanager
def within_limits(values: Mapping[str, Any], *, here: bool) -> Iterator[None]:
    """Keep to ``--nice`` and ``--io_limit`` meanwhile, in this process and in its children.

    The niceness stays: only root can take it back.

    Args:
        values: the command's options.
        here: whether all the work is done on this machine, by this process and its children.

    Raises:
        UsageError: it is not, so that the options would say nothing.
    """
    from dataprep.system.cores import be_nice
    from dataprep.system.throttle import io_limited

    for option in ("nice", "io_limit"):
        if values[option] is not None and not here:
            raise UsageError(
                f"--{option} is for the processes that dataprep starts on this machine, and with "
                "this --runner others do the work; leave it out, and let the job script or the "
                "scheduler of those bound them"
            )
    if values["nice"] is not None:
        be_nice(values["nice"])
    with io_limited(values["io_limit"]):
        yield
