"""``dataprep report``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dataprep.api.parameters import number, option
from dataprep.api.review import report
from dataprep.cli.output import PLACE, say
from dataprep.cli.signals import watched

_TO = "Path of the page. [default: OUT/report.html]"
_NEAR = "Whether to look for nearly the same images. [default: up to 400,000 images]"


@click.command(
    "report",
    params=[
        click.Argument(["out"], type=PLACE),
        option("to", _TO, metavar="FILE", type=click.Path(path_type=Path, dir_okay=False)),
        click.Option(["--near/--no_near"], default=None, help=_NEAR),
        number("seed", "N", "Random seed that chooses the images.", least=0, default=0),
    ],
)
def command(out: Path | str, **options: Any) -> None:
    """Write an HTML page about a data set: numbers, classes, images, findings.

    It is one file that needs no network, and has code that loads the data set. Needs the extra
    report.
    """
    with watched("nothing was changed") as display:
        path = report(out, progress=display, **options)
    say(path)
