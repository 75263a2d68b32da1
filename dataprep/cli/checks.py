"""Is a data set whole, are two the same, how far is one: ``verify``, ``diff``, ``status``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dataprep.api.calls import diff, status, verify
from dataprep.cli.options import WORKERS, flag, own
from dataprep.cli.output import PATH, PLACE, json_option, say, show
from dataprep.cli.signals import watched
from dataprep.errors import DatasetError
from dataprep.sealed.set import described
from dataprep.sealed.verify import Level
from dataprep.system.messages import counted, printable, sized

if TYPE_CHECKING:
    from dataprep.sealed.diff import Difference
    from dataprep.sealed.verify import Verified

_LEVEL = (
    "size: every file is there. hash: and unchanged. records: and well-formed, with the right "
    "labels. decode: and every image decodes. reader: and the format's own reader agrees."
)


@click.command(
    "verify",
    params=[
        click.Argument(["out"], type=PLACE),
        own("level", _LEVEL, "hash", Level),
        WORKERS,
        flag("discard", "Delete the damaged files; not those that cannot be read."),
        json_option("Verified"),
    ],
)
def verify_command(
    out: Path | str, level: str, workers: int | None, discard: bool, json: bool
) -> None:
    """Check a finished data set against its manifest, and name every bad file.

    OUT is the directory of manifest.json, or a .tar that `dataprep push` made (size, hash). Exit
    code 1 if anything is wrong.
    """
    with watched("nothing was changed") as display:
        found = verify(out, level=level, discard=discard, workers=workers, progress=display)
    show(found, json=json, lines=_verified_lines(found, out, level))
    if found.problems:
        bad = len({problem.path for problem in found.problems})
        raise DatasetError(f"{out}: {bad} of {found.files} files bad; {found.remedy}")


def _verified_lines(found: Verified, out: Path | str, level: str) -> Iterator[str]:
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


@click.command(
    "diff",
    params=[
        click.Argument(["a"], type=PLACE),
        click.Argument(["b"], type=PLACE),
        WORKERS,
        json_option("Difference"),
    ],
)
def diff_command(a: Path | str, b: Path | str, workers: int | None, json: bool) -> None:
    """Compare two data sets, A and B: keys, labels, fields and images.

    Format, shards and order may differ. The tables of records are compared, with the hashes of the
    images; only if either data set stores pixel arrays, or both store masks, are shards read, and
    pixels compared. Exit code 1 if the examples differ.
    """
    with watched("nothing was changed") as display:
        found = diff(a, b, workers=workers, progress=display)
    show(found, json=json, lines=_difference_lines(found, a, b))
    if not found.same:
        raise DatasetError(f"{a} and {b} do not hold the same examples")


def _difference_lines(found: Difference, a: Path | str, b: Path | str) -> Iterator[str]:
    yield from found.missing
    for split in found.splits:
        yield from (f"{split.split}: {text}" for text in split.examples)
        if split.same:
            order = "the same order" if split.same_order else "another order"
            what = f"the same {counted(split.records[0], 'example')}, in {order}"
        else:
            moved = f" ({split.moved:,} in another split of {b})" if split.moved else ""
            what = (
                f"{split.only_a:,} only in {a}{moved}, {split.only_b:,} only in {b}, "
                f"{split.relabelled:,} with other labels, "
                f"{split.changed - split.relabelled:,} with another image or fields"
            )
        yield f"{split.split}: {what}"
    if found.same:
        images = "pixels" if found.pixels else "image bytes"
        masks = ", masks" * (found.masks == "compared")
        left = "; of masks only the numbers: one of them stores none" * (found.masks == "counted")
        yield f"same: keys, labels, fields{masks} and {images}{left}"
    elif found.versions:
        yield (
            f"made with {'; '.join(found.versions)}: images that are encoded anew may differ for "
            "that; make both with the same versions"
        )


_WATCH_SECONDS = 2.0  # on a terminal; workers note how far they are as often
_LINE_SECONDS = 10.0


@click.command(
    "status",
    params=[
        click.Argument(["out"], type=PATH),
        flag("watch", "Refresh until the run ends."),
        json_option("JobStatus"),
    ],
)
def status_command(out: Path, watch: bool, json: bool) -> None:
    """Show the state of the job in OUT: running, dead or finished.

    It reads only that directory, so it works from any host, during a run and after it.
    """
    terminal = sys.stdout.isatty()
    found = status(out)
    while watch and found.state == "running":
        if terminal:
            click.clear()
        show(found, json=json)
        time.sleep(_WATCH_SECONDS if terminal else _LINE_SECONDS)
        found = status(out)
    if watch and terminal:
        click.clear()
    show(found, json=json)
    if found.rejected + found.noted and not json:
        say(*_conspicuous(out))


def _conspicuous(out: Path) -> Iterator[str]:
    """Images of the finished shards that are not just stored, and why."""
    from dataprep.jobs.output.commit import finished_shards
    from dataprep.jobs.output.workspace import Workspace
    from dataprep.tables.records import conspicuous

    for record in finished_shards(Workspace(out)):
        if record.rejected or record.noted:
            columns = ("status", "key", "container", "reason")
            for kind, key, container, reason in conspicuous(out / record.rows.path, columns):
                where = f"{key} in {container}" if kind == "rejected" else key
                yield f"{kind}: {record.shard.split}: {printable(where)}: {reason}"
