"""``dataprep hook``."""

from __future__ import annotations

import os
from pathlib import Path

import click


@click.command()
@click.argument("scheduler", type=click.Choice(["slurm", "pbs", "lsf"]))
@click.argument("source", metavar="SRC", type=click.Path(path_type=Path))
@click.option(
    "--to",
    metavar="DIR",
    help="Where the copies go on every node; quote it so that variables of the job stay as they "
    "are: '$TMPDIR/data'. [default: as `dataprep stage` chooses]",
)
@click.option(
    "--split",
    multiple=True,
    metavar="NAME",
    help="Only this split. May be repeated. [default: all]",
)
@click.option("--share", type=click.Choice(["node"]), help="node: each node gets its part only.")
@click.option(
    "--replicas",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="K",
    help="--share: give each shard to K nodes.",
)
@click.option(
    "--whole",
    multiple=True,
    metavar="SPLIT",
    help="--share: a split that every node gets whole all the same. May be repeated.",
)
@click.option(
    "--broadcast",
    type=click.Choice(["mpi"]),
    help="mpi: read every byte once and send it to all nodes.",
)
@click.option(
    "--nodes",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    metavar="N",
    help="How many nodes the job asks for.",
)
@click.option(
    "--keep", is_flag=True, help="A job that is stopped leaves its copies, for its requeue to find."
)
@click.option(
    "--epilog",
    is_flag=True,
    help="Instead: what a site runs on every node at the end of a job, for jobs that were killed "
    "before they could clean.",
)
def command(
    scheduler: str,
    source: Path,
    to: str | None,
    split: tuple[str, ...],
    share: str | None,
    replicas: int,
    whole: tuple[str, ...],
    broadcast: str | None,
    nodes: int,
    keep: bool,
    epilog: bool,
) -> None:
    """Print a batch script that stages SRC, trains and cleans up.

    For example: dataprep hook slurm SRC --to '$TMPDIR/data' > train.sh

    The script can be submitted as it is but for what your site wants in its header. In the place
    of your training command it lists the staged files.
    """
    from dataprep.staging.hooks import render
    from dataprep.staging.request import StageRequest

    request = StageRequest(
        source=Path(os.path.abspath(source)),  # noqa: PTH100  # as given: links stay links
        splits=split,
        share=share is not None,
        replicas=replicas,
        whole=frozenset(whole),
        broadcast=broadcast is not None,
    )
    text = render(scheduler, request, to=to, nodes=nodes, keep=keep, epilog=epilog)
    click.echo(text, nl=False)
