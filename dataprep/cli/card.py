"""``dataprep card``."""

from __future__ import annotations

import tomllib
from pathlib import Path

import click

from dataprep.api.review import card
from dataprep.cli.output import say
from dataprep.errors import UsageError
from dataprep.system.regular_files import read_regular


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--name", metavar="TEXT", help="Of the data set.")
@click.option("--description", metavar="TEXT", help="A few sentences.")
@click.option("--license", metavar="URL|SPDX", help="Its licence.")
@click.option("--creator", metavar="TEXT", help="Who made it.")
@click.option("--url", metavar="URL", help="Its home page.")
@click.option("--date", metavar="YYYY-MM-DD", help="When it was published.")
@click.option("--cite_as", metavar="BIBTEX", help="How to cite it.")
@click.option("--version", metavar="TEXT", help="Of the data. [default: 1.0.0]")
@click.option(
    "--rai",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A TOML file with texts of Croissant's Responsible AI vocabulary: dataLimitations, "
    "dataBiases, personalSensitiveInformation, dataUseCases, dataSocialImpact, dataCollection, and "
    "hasSyntheticData = true or false.",
)
def command(out: Path, rai: Path | None, **fields: str | None) -> None:
    """Write OUT/croissant.json and OUT/README.md, which catalogues of data sets read.

    Croissant 1.1, and the front matter of the Hugging Face hub. What dataprep knows of a data set,
    such as the licence and citation of ILSVRC2012, need not be given.
    """
    from dataprep.review.card import full_card, unsaid
    from dataprep.sealed.set import SealedSet

    given = {name: value for name, value in fields.items() if value is not None}
    responsible = _texts(rai)
    for path in card(out, responsible=responsible, **given):
        say(path)
    dataset = SealedSet.read(out).manifest.dataset
    options, texts = unsaid(full_card(dataset, given, responsible))
    if options:
        say(f"note: catalogues also ask for {', '.join(options)}", err=True)
    if texts:
        say(f"note: NeurIPS also asks for {', '.join(texts)} (--rai)", err=True)


def _texts(path: Path | None) -> dict[str, str | bool]:
    if path is None:
        return {}
    try:
        return tomllib.loads(read_regular(path).decode())
    except (OSError, ValueError) as error:
        raise UsageError(f"--rai cannot be read: {error}") from error
