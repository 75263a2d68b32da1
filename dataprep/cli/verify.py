"""``dataprep verify``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dataprep.api.calls import verify
from dataprep.api.options import workers_option
from dataprep.api.parameters import choice, flag
from dataprep.cli.output import PLACE, json_option, show
from dataprep.cli.signals import watched
from dataprep.errors import DatasetError
from dataprep.sealed.part import described
from dataprep.system.messages import counted, sized

if TYPE_CHECKING:
    from dataprep.sealed.verify import Verified

_LEVELS = ["size", "hash", "records", "decode", "reader"]
_LEVEL = (
    "size: every file is there. hash: and unchanged. records: and well-formed, with the right "
    "labels. decode: and every image decodes. reader: and the format's own reader agrees."
)


@click.command(
    "verify",
    params=[
        click.Argument(["out"], type=PLACE),
        choice("level", _LEVELS, "hash", _LEVEL),
        workers_option(),
        flag("discard", "Delete the bad files."),
        json_option("Verified"),
    ],
)
def command(out: Path | str, level: str, workers: int | None, discard: bool, json: bool) -> None:
    """Check a finished data set against its manifest, and name every bad file.

    OUT is the directory of manifest.json. Exit code 1 if anything is wrong.
    """
    with watched("nothing was changed") as display:
        found = verify(out, level=level, discard=discard, workers=workers, progress=display)
    show(found, json=json, lines=_lines(found, out, level))
    if found.problems:
        bad = len({problem.path for problem in found.problems})
        first = "" if discard else "delete them (--discard) and "
        raise DatasetError(f"{out}: {bad} of {found.files} files bad; {first}{found.remedy}")


def _lines(found: Verified, out: Path | str, level: str) -> Iterator[str]:
    yield from (f"bad: {problem.path}: {problem.what}" for problem in found.problems)
    yield from (f"deleted: {path}" for path in found.discarded)
    if found.problems:
        return
    if level == "reader":
        from dataprep.api.places import located
        from dataprep.sealed.set import SealedSet

        level += f": {SealedSet.read(located(out)).sink.reference}"
    yield (
        f"{out}: {counted(found.files, 'file')}, {sized(found.bytes)}, {found.records:,} records: "
        f"all good ({level})" + (f", {described(found.part)}" if found.part else "")
    )
