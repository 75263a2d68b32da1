"""``dataprep lint``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from dataprep.api.parameters import Parsed, names, number, option
from dataprep.api.review import Linted, lint
from dataprep.cli.output import PLACE, json_option, show
from dataprep.cli.signals import watched
from dataprep.errors import FindingsError
from dataprep.system.messages import counted

_LEVELS = frozenset({"error", "warning", "any"})

_BITS = (
    "Bits of 255 in which perceptual hashes of nearly the same image may differ. [default: 72; "
    "fewer where all images are alike, such as radiographs]"
)
_RATIO = "Largest allowed class-size ratio."
_SHOW = "Findings of each rule to print; --json prints all."
_EXCLUDE = (
    "Write the images to leave out as a CSV for --exclude. Of copies one is kept: in test "
    "rather than in validation, and in validation rather than in train."
)
_FAIL = "Exit with code 5 on findings of these rules or levels: error, warning, any."
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(
    "lint",
    params=[
        click.Argument(["out"], type=PLACE),
        option("rules", "Only these rules. [default: all]", type=Parsed(names), metavar="NAMES"),
        option("distance", _BITS, type=click.IntRange(0, 127), metavar="BITS"),
        number("fewest", "N", "Smallest class size to accept.", default=10),
        option("imbalance", _RATIO, type=click.FloatRange(min=1), default=10, metavar="RATIO"),
        number("show", "N", _SHOW, least=0, default=10),
        option("write_exclude", _EXCLUDE, type=_FILE, metavar="FILE"),
        option("fail_on", _FAIL, type=Parsed(names), metavar="NAMES"),
        json_option("Linted"),
    ],
)
def command(out: Path | str, fail_on: tuple[str, ...] | None, json: bool, **options: Any) -> None:
    """Find leaks between splits, copies, odd classes and odd images in a data set.

    The same image in two splits or under two labels, byte for byte or nearly (resized,
    recompressed, grey, cropped by 3 %); classes with too few images; blank images. Reads the table
    of records, not the images.
    """
    from dataprep.review.findings import chosen_rules

    wanted = {*(fail_on or ())}
    chosen_rules(sorted(wanted - _LEVELS))
    options["show"] = None if json else options["show"]
    with watched("nothing was changed") as display:
        found = lint(out, progress=display, **options)
    show(found, json=json, lines=_lines(found, out, options["write_exclude"]))
    failed = [
        rule.rule
        for rule in found.rules
        if rule.count and wanted & {rule.rule, rule.level, "any" if rule.level != "note" else ""}
    ]
    if failed:
        raise FindingsError(f"{out}: --fail_on met {', '.join(failed)}")


def _lines(found: Linted, out: Path | str, exclude: Path | None) -> Iterator[str]:
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
