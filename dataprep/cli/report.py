"""``dataprep report``."""

from __future__ import annotations

from pathlib import Path

import click

from dataprep.api.review import report
from dataprep.cli.output import say
from dataprep.cli.signals import watched


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--to",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The page. [default: OUT/report.html]",
)
@click.option(
    "--near/--no_near",
    default=None,
    help="Look for nearly the same images, or do not. [default: up to 400,000 images]",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Chooses what is shown.")
@click.option(
    "--raw_data_dir",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="What the data set was made from: shows rejected images, too.",
)
def command(
    out: Path, to: Path | None, near: bool | None, seed: int, raw_data_dir: Path | None
) -> None:
    """Write a page that shows what is in a data set, and what is odd about it.

    One file, for any browser, without a network: numbers, classes, pictures, findings, and lines
    that load the data set. Needs the extra report.
    """
    with watched("nothing was changed") as display:
        path = report(out, to=to, near=near, seed=seed, raw_data_dir=raw_data_dir, progress=display)
    say(path)
