"""``dataprep lint``."""

from __future__ import annotations

from pathlib import Path

import click

from dataprep.api.parameters import names
from dataprep.api.results import as_json
from dataprep.api.review import lint
from dataprep.cli.output import say
from dataprep.cli.signals import watched
from dataprep.errors import FindingsError
from dataprep.system.messages import counted


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--rules", type=names, metavar="NAMES", help="Only these. [default: all]")
@click.option(
    "--distance",
    type=click.IntRange(0, 127),
    help="How many of 255 bits of the perceptual hashes of nearly the same image may differ. "
    "[default: 72; fewer where all images are alike, such as radiographs]",
)
@click.option(
    "--fewest",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="How many images a class should have in a split.",
)
@click.option(
    "--imbalance",
    type=click.FloatRange(min=1),
    default=10,
    show_default=True,
    help="How many times the images of the smallest class the largest may have.",
)
@click.option(
    "--show",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="How many findings of each rule to print; --json has all.",
)
@click.option(
    "--write_exclude",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write which images to leave out, a CSV for --exclude of the next run. Of copies, one of "
    "test is kept before one of validation, that before one of train, then the first.",
)
@click.option(
    "--fail_on",
    type=names,
    metavar="NAMES",
    help="Exit with code 5 if one of these rules finds something; or: error, warning, any.",
)
@click.option("--json", is_flag=True, help="Print what was found as JSON: dataprep.Linted.")
def command(
    out: Path,
    rules: list[str] | None,
    distance: int | None,
    fewest: int,
    imbalance: float,
    show: int,
    write_exclude: Path | None,
    fail_on: list[str] | None,
    json: bool,
) -> None:
    """Look for what is odd in a data set: leaks between splits, copies, classes, odd images.

    The same image in two splits, or under two labels, byte for byte or nearly (resized,
    recompressed, grey, cut by 3 %); classes with too few images; images with nothing to be seen.
    Reads the table of records, not the images.
    """
    from dataprep.review.findings import chosen_rules

    levels = {"error", "warning", "any"}
    chosen_rules([name for name in fail_on or () if name not in levels])
    with watched("nothing was changed") as display:
        found = lint(
            out,
            rules=rules,
            distance=distance,
            fewest=fewest,
            imbalance=imbalance,
            show=None if json else show,
            write_exclude=write_exclude,
            progress=display,
        )
    if json:
        say(*as_json(found).split("\n"))
    for remark in () if json else found.remarks:
        say(f"note: {remark}")
    for rule in () if json else found.rules:
        if rule.count:
            say(f"{rule.level}: {rule.rule}: {rule.meaning}: {rule.count:,}")
        for finding in rule.findings:
            say(f"  {finding.text}")
        if rule.count > len(rule.findings):
            say(f"  and {rule.count - len(rule.findings):,} more (--show)")
    if not json:
        bad = sum(rule.count for rule in found.rules if rule.level != "note")
        say(f"{out}: {counted(bad, 'finding')}" if bad else f"{out}: nothing odd")
        if found.excluded is not None:
            say(f"{write_exclude}: {counted(found.excluded, 'image')} to leave out")
    wanted = set(fail_on or ())
    failed = [
        rule.rule
        for rule in found.rules
        if rule.count and wanted & {rule.rule, rule.level, "any" if rule.level != "note" else ""}
    ]
    if failed:
        raise FindingsError(f"{out}: --fail_on met {', '.join(failed)}")
