"""``dataprep card``."""

from __future__ import annotations

import tomllib
from pathlib import Path

import click

from dataprep.api.parameters import option
from dataprep.api.places import located
from dataprep.api.review import card
from dataprep.cli.output import PLACE, say
from dataprep.errors import UsageError
from dataprep.system.regular_files import read_regular

_RAI = (
    "TOML file with texts of Croissant's Responsible AI vocabulary: dataLimitations, dataBiases, "
    "personalSensitiveInformation, dataUseCases, dataSocialImpact, dataCollection, and "
    "hasSyntheticData = true or false."
)


@click.command(
    "card",
    params=[
        click.Argument(["out"], type=PLACE),
        option("name", "Name of the data set.", metavar="TEXT"),
        option("description", "Description, in a few sentences.", metavar="TEXT"),
        option("license", "License: a URL or an SPDX identifier.", metavar="URL|SPDX"),
        option("creator", "Person or organisation that made it.", metavar="TEXT"),
        option("url", "Home page.", metavar="URL"),
        option("date", "Date of publication.", metavar="YYYY-MM-DD"),
        option("cite_as", "Citation.", metavar="BIBTEX"),
        option("version", "Version of the data. [default: 1.0.0]", metavar="TEXT"),
        option("rai", _RAI, metavar="FILE", type=click.Path(path_type=Path, dir_okay=False)),
    ],
)
def command(out: Path | str, rai: Path | None, **fields: str | None) -> None:
    """Write a card for catalogues: OUT/croissant.json and OUT/README.md.

    That is Croissant 1.1, and the front matter of the Hugging Face hub. What dataprep knows of a
    data set, such as the license and citation of ILSVRC2012, need not be given.
    """
    from dataprep.review.card import full_card, unsaid
    from dataprep.sealed.set import SealedSet

    given = {name: value for name, value in fields.items() if value is not None}
    responsible = _texts(rai)
    say(*card(out, responsible=responsible, **given))
    dataset = SealedSet.read(located(out)).manifest.dataset
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
