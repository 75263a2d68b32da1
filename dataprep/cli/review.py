"""``lint``, ``report``, ``browse``, ``preview`` and ``card``, which look at a finished data set."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import click

from dataprep.api.options import Browsing, Linting, Reporting
from dataprep.api.places import located
from dataprep.api.review import Linted, browse, card, comma_separated, lint, report
from dataprep.cli.options import given, number, own, shown
from dataprep.cli.output import PATH, PLACE, json_option, say, show
from dataprep.cli.signals import watched
from dataprep.errors import FindingsError, UsageError
from dataprep.options import names, options_of
from dataprep.system.messages import counted
from dataprep.system.regular_files import read_regular

_LEVELS = frozenset({"error", "warning", "any"})

_FORMAT = "How to print what is found; csv and json have every finding."
_FAIL = "Exit with code 5 on findings of these rules or levels: error, warning, any."


@click.command(
    "lint",
    params=[
        click.Argument(["out"], type=PLACE),
        *shown(options_of(Linting)),
        own("fail_on", _FAIL, metavar="NAMES", parse=names),
        own("format", _FORMAT, "table", Literal["table", "csv", "json"]),
        json_option("Linted"),
    ],
)
def lint_command(
    out: Path | str,
    fail_on: tuple[str, ...] | None,
    format: str,  # noqa: A002  # the option's
    json: bool,
    **options: Any,
) -> None:
    """Find leaks between splits, copies, odd classes and odd images in a data set.

    The same image in two splits or under two labels, byte for byte or nearly (resized,
    recompressed, grey, cropped by 3 %); classes with too few images; blank images. Reads the table
    of records, not the images.
    """
    from dataprep.review.findings import FINDING_COLUMNS, chosen_rules, finding_rows

    wanted = {*(fail_on or ())}
    chosen_rules(sorted(wanted - _LEVELS))
    options = given(click.get_current_context(), options)
    json = json or format == "json"
    if json or format == "csv":
        options["show"] = None
    with watched("nothing was changed") as display:
        found = lint(out, progress=display, **options)
    lines = _linted_lines(found, out, options.get("write_exclude"))
    if format == "csv":
        lines = comma_separated([FINDING_COLUMNS, *finding_rows(found.rules)])
    show(found, json=json, lines=lines)
    failed = [
        rule.rule
        for rule in found.rules
        if rule.count and wanted & {rule.rule, rule.level, "any" if rule.level != "note" else ""}
    ]
    if failed:
        raise FindingsError(f"{out}: --fail_on met {', '.join(failed)}")


def _linted_lines(found: Linted, out: Path | str, exclude: Path | None) -> Iterator[str]:
    yield from (f"note: {remark}" for remark in found.remarks)
    for rule in found.rules:
        if rule.count:
            yield f"{rule.level}: {rule.rule}: {rule.meaning}: {rule.count:,}"
        yield from (f"  {finding.text}" for finding in rule.findings)
        if rule.count > len(rule.findings):
            yield f"  and {rule.count - len(rule.findings):,} more (--show)"
    bad = sum(rule.count for rule in found.rules if rule.level != "note")
    yield f"{out}: {counted(bad, 'finding')}" if bad else f"{out}: nothing odd"
    if found.excluded is not None:
        yield f"{exclude}: {counted(found.excluded, 'image')} to leave out"
    if found.undecided:
        yield (
            f"{counted(found.undecided, 'image')} of conflicts not among them, since only people "
            "can say which label is right: `dataprep select --decisions`"
        )


@click.command(
    "report",
    params=[
        click.Argument(["out"], type=PLACE),
        *shown(options_of(Reporting)),
    ],
)
def report_command(out: Path | str, **options: Any) -> None:
    """Write an HTML page about a data set: numbers, classes, images, findings.

    It is one file that needs no network, and has code that loads the data set. Needs the extra
    report.
    """
    options = given(click.get_current_context(), options)
    with watched("nothing was changed") as display:
        path = report(out, progress=display, **options)
    say(path)


@click.command(
    "browse",
    params=[
        click.Argument(["out"], type=PLACE),
        *shown(options_of(Browsing)),
    ],
)
def browse_command(out: Path | str, **options: Any) -> None:
    """Look at a data set in a browser, ask it, and mark images: leave out, label, split, sure.

    Marks are written at once into a CSV, for select --decisions. The page is this machine's and
    this user's alone: it prints an address that is good once. Needs the extra report.
    """
    options = given(click.get_current_context(), options)
    with watched("every mark is written") as display:
        browse(out, progress=display, **options)


@click.command(
    "preview",
    params=[
        click.Argument(["out"], type=PATH),
        own("split", "Split to show. [default: train, or the first]", metavar="NAME"),
        number("images", "N", "Most images to show.", default=32),
        number("seed", "N", "Random seed that chooses the images.", least=0, default=0),
    ],
)
def preview_command(out: Path, split: str | None, images: int, seed: int) -> None:
    """Show images of a data set in the terminal, each above the name of its class.

    They are drawn as pictures where the terminal can (sixel, or Kitty's protocol), else in coloured
    half characters. Needs the extra report.
    """
    from dataprep.review.pictures import preview

    preview(out, split=split, images=images, seed=seed)


_RAI = (
    "TOML file with texts of Croissant's Responsible AI vocabulary: dataLimitations, dataBiases, "
    "personalSensitiveInformation, dataUseCases, dataSocialImpact, dataCollection, and "
    "hasSyntheticData = true or false."
)


@click.command(
    "card",
    params=[
        click.Argument(["out"], type=PLACE),
        own("name", "Name of the data set.", metavar="TEXT"),
        own("description", "Description, in a few sentences.", metavar="TEXT"),
        own("license", "License: a URL or an SPDX identifier.", metavar="URL|SPDX"),
        own("creator", "Person or organisation that made it.", metavar="TEXT"),
        own("url", "Home page.", metavar="URL"),
        own("date", "Date of publication.", metavar="YYYY-MM-DD"),
        own("cite_as", "Citation.", metavar="BIBTEX"),
        own("version", "Version of the data. [default: 1.0.0]", metavar="TEXT"),
        own("rai", _RAI, kind=Path, metavar="FILE", place="file"),
    ],
)
def card_command(out: Path | str, rai: Path | None, **fields: str | None) -> None:
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
        raise UsageError(f"--rai cannot be read: {error}; expected a TOML file") from error
