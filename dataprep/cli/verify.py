"""``dataprep verify``."""

from __future__ import annotations

from pathlib import Path

import click

from dataprep.api.calls import verify
from dataprep.api.options import workers_option
from dataprep.api.results import as_json
from dataprep.cli.output import say
from dataprep.cli.signals import watched
from dataprep.errors import DatasetError
from dataprep.sealed.part import described
from dataprep.system.messages import counted, sized


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--level",
    type=click.Choice(["size", "hash", "records", "decode", "reader"]),
    default="hash",
    show_default=True,
    help="size: files are there. hash: and unchanged. records: and well-formed, with the right "
    "labels. decode: and every image decodes. reader: and the format's own reader agrees.",
)
@click.option("--discard", is_flag=True, help="Delete the bad files of the data set.")
@click.option("--json", is_flag=True, help="Print what was found as JSON: dataprep.Verified.")
def command(out: Path, level: str, workers: int | None, discard: bool, json: bool) -> None:
    """Check a finished data set against its manifest, naming every bad shard.

    OUT is the directory that holds manifest.json. Exit code 1 if anything is wrong.
    """
    with watched("nothing was changed") as display:
        found = verify(out, level=level, discard=discard, workers=workers, progress=display)
    if json:
        say(*as_json(found).split("\n"))
    else:
        for problem in found.problems:
            say(f"bad: {problem.path}: {problem.what}")
        for path in found.discarded:
            say(f"deleted: {path}")
    if found.problems:
        bad = len({problem.path for problem in found.problems})
        first = "" if discard else "delete them (--discard) and "
        raise DatasetError(f"{out}: {bad} of {found.files} files bad; {first}{found.remedy}")
    if json:
        return
    if level == "reader":
        from dataprep.sealed.set import SealedSet

        level += f": {SealedSet.read(out).sink.reference}"
    say(
        f"{out}: {counted(found.files, 'file')}, {sized(found.bytes)}, {found.records:,} records: "
        f"all good ({level})" + (f", {described(found.part)}" if found.part else "")
    )


command.params.insert(2, workers_option())
