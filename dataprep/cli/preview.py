"""``dataprep preview``."""

from __future__ import annotations

from pathlib import Path

import click

from dataprep.api.parameters import number, option
from dataprep.cli.output import PATH


@click.command(
    "preview",
    params=[
        click.Argument(["out"], type=PATH),
        option("split", "Split to show. [default: train, or the first]", metavar="NAME"),
        number("images", "N", "Most images to show.", default=32),
        number("seed", "N", "Random seed that chooses the images.", least=0, default=0),
    ],
)
def command(out: Path, split: str | None, images: int, seed: int) -> None:
    """Show images of a data set in the terminal, each above the name of its class.

    They are drawn as pictures where the terminal can (sixel, or Kitty's protocol), else in coloured
    half characters. Needs the extra report.
    """
    from dataprep.review.preview import preview

    preview(out, split=split, images=images, seed=seed)
