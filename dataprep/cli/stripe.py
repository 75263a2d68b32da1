"""``dataprep stripe``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from dataprep.api.parameters import options
from dataprep.cli.options import given, shown
from dataprep.cli.output import say
from dataprep.errors import DatasetError, UsageError
from dataprep.jobs.request import Lustre
from dataprep.options import byte_size, like, option, read
from dataprep.system.filesystems import walk
from dataprep.system.lustre import (
    LUSTRE,
    SIZE_LIMIT,
    SIZE_UNIT,
    STRIPE_SIZE,
    Striping,
    carry_out,
    explain_other,
    plan_directories,
    stripes,
)
from dataprep.system.messages import counted
from dataprep.system.site import site

_SHARD = 150_000_000  # what shards are made to be; any size below 1 GiB means the same
_DIRECTORY = click.Path(path_type=Path, file_okay=False, resolve_path=True)


def _count(value: int | str) -> int | Literal["auto", "off"]:
    if value == "off":
        raise ValueError("'off' is none of auto, a number of stripes and -1 (all targets)")
    return stripes(value)


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    """What layout is asked for."""

    count: int | Literal["auto", "off"] = option(
        "Stripes a file. auto: 1 for files below 1 GiB and more for larger ones, unless DIR has a "
        "progressive layout; -1: on all targets.",
        "auto",
        metavar="[auto|COUNT]",
        parse=_count,
    )
    stripe_size: int = option(
        "E.g. 1MiB; a multiple of 64KiB. [default: 4MiB]",
        STRIPE_SIZE,
        metavar="SIZE",
        parse=byte_size,
        shown=False,
    )
    file_size: int | None = option(
        "Of the largest file that will be there, e.g. 42GB. [default: that of the files there; "
        "else a shard's, 150MB]",
        None,
        metavar="SIZE",
        parse=byte_size,
    )
    lustre_pool: str | None = like(Lustre, "lustre_pool")


@click.command(
    "stripe",
    params=[
        click.Argument(["directory"], metavar="DIR", type=_DIRECTORY),
        *shown(options("dataprep stripe", _Wanted).table),
    ],
)
@click.pass_context
def stripe_command(context: click.Context, /, *, directory: Path, **values: Any) -> None:
    """Set the Lustre layout of DIR, and of directories in it that hold files, before it is filled.

    New files get the layout; it is read back, since a site may refuse it without saying so. DIR is
    made if it is not there. Elsewhere than on Lustre nothing is done.
    """
    from dataprep.system.filesystems import filesystem_of

    asked = read(_Wanted, given(context, values), "dataprep stripe")
    pool = asked.lustre_pool or getattr(site(), "lustre_pool", None) or ""
    striping = Striping(asked.count, asked.stripe_size, pool, asked=True)
    if striping.stripe_size >= SIZE_LIMIT or striping.stripe_size % SIZE_UNIT:
        raise UsageError(
            f"--stripe_size: {striping.stripe_size:,} bytes; a stripe is a multiple of 64 KiB and "
            "less than 4 GiB, such as 1MiB or 4MiB; MB are powers of 1000"
        )
    kind = filesystem_of(directory)
    if kind != LUSTRE:
        say(explain_other(kind, directory))
        return
    there = _files_in(directory)
    largest = {directory: 0 if there else _SHARD}
    for file, size in there.items():
        for place in (directory, file.parent):
            largest[place] = max(size, largest.get(place, 0))
    if asked.file_size is not None:
        largest = dict.fromkeys(largest, asked.file_size)
    plans = plan_directories(largest, striping)
    moving = there and any(plan.changes for plan in plans)
    outcomes = []
    for plan in plans:
        done, line = carry_out(plan)
        say(line)
        outcomes.append(done)
    if refused := outcomes.count(False):
        raise DatasetError(
            f"{refused} of {counted(len(plans), 'directory', 'directories')} did not get the "
            "layout that was asked for; ask for what the site allows (--count, --lustre_pool), "
            "or go on with what is in force"
        )
    if moving:
        say(
            f"{counted(len(there), 'file')} there already: the layout stays as it is; "
            "copy them into the directory again, or run `lfs migrate`, to change it"
        )


def _files_in(root: Path) -> dict[Path, int]:
    """The regular files below, and their sizes.

    Hidden ones are left out, and what is in hidden directories: unfinished files, and what
    programs keep for themselves.
    """
    found = {}
    for _, entries in walk(root, lambda it: it.is_dir(follow_symlinks=False) and it.name[0] != "."):
        for entry in entries:
            if entry.name[0] != "." and entry.is_file(follow_symlinks=False):
                found[Path(entry.path)] = entry.stat().st_size
    return found
