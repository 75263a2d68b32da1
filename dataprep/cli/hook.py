"""``dataprep hook``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dataprep.api.options import stage_options
from dataprep.api.parameters import flag, number, option
from dataprep.cli.output import PLACE, hand_on
from dataprep.errors import UsageError

_SHARED = ("split", "share", "broadcast")
_TO = (
    "Where the copies go on every node. Quote variables of the job: '$TMPDIR/data'. [default: "
    "as `dataprep stage` chooses]"
)
_EPILOG = (
    "Instead, without SRC: print what a site runs on every node at the end of a job, to clean "
    "up after jobs that were killed."
)


@click.command(
    "hook",
    params=[
        click.Argument(["scheduler"], type=click.Choice(["slurm", "pbs", "lsf"])),
        click.Argument(["source"], metavar="[SRC]", required=False, type=PLACE),
        *(option for option in stage_options() if option.name in _SHARED),
        option("to", _TO, metavar="DIR"),
        number("nodes", "N", "Number of nodes of the job.", default=4),
        flag("keep", "Keep the copies if the job is stopped, for its requeue to use."),
        flag("epilog", _EPILOG),
    ],
)
def command(
    scheduler: str,
    source: Path | str | None,
    to: str | None,
    nodes: int,
    keep: bool,
    epilog: bool,
    **values: Any,
) -> None:
    """Print a batch script that stages SRC, trains and cleans up.

    For example: dataprep hook slurm SRC --to '$TMPDIR/data' > train.sh

    Edit the header for your site, and put your training command in the place of the one that lists
    the staged files.
    """
    from dataprep.staging.hooks import render
    from dataprep.staging.plan import absolute_source
    from dataprep.staging.request import StageRequest

    if epilog == (source is not None) or (epilog and to is not None):
        raise UsageError(
            "give SRC, the directory that the script stages; or --epilog, alone, for all that a "
            "job staged in scratch"
        )
    request = StageRequest(
        source=absolute_source(source or ""),
        splits=values["split"],
        share=values["share"] is not None,
        broadcast=values["broadcast"] is not None,
    )
    hand_on(render(scheduler, None if epilog else request, to=to, nodes=nodes, keep=keep))
