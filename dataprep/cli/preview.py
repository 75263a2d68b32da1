"""``dataprep preview``."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--split", metavar="NAME", help="Of which split. [default: train, or the first]")
@click.option(
    "--images", type=click.IntRange(min=1), default=32, show_default=True, help="How many at most."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Chooses them.")
def command(out: Path, split: str | None, images: int, seed: int) -> None:
    """Show some images of a data set in the terminal, each over the name of its class.

    As pictures in terminals that can draw (sixel, or Kitty's protocol), else in coloured half
    characters. Needs the extra report.
    """
    from dataprep.review.preview import preview

    preview(out, split=split, images=images, seed=seed)
