"""``dataprep stripe``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dataprep.api.parameters import ByteSize, GivenPath
from dataprep.api.striping_options import LIMITS, check_stripe_size, stripe_count
from dataprep.errors import DatasetError
from dataprep.system.messages import counted, some_of

if TYPE_CHECKING:
    from dataprep.system.lustre.layout import Layout
    from dataprep.system.lustre.lfs import Lfs
    from dataprep.system.lustre.striping import Plan

_SHARD = 150_000_000  # what shards are made to be; any size below 1 GiB means the same


@click.command()
@click.argument("directory", metavar="DIR", type=GivenPath(file_okay=False, resolve=True))
@click.option(
    "--count",
    callback=stripe_count("auto", "pfl"),
    default="auto",
    show_default=True,
    metavar="[auto|COUNT|pfl]",
    help="Stripes a file. auto: 1 for files below 1 GiB and more for larger ones, unless DIR has "
    "a progressive layout; -1: on all targets; pfl: a progressive layout.",
)
@click.option(
    "--stripe_size",
    type=ByteSize(),
    callback=check_stripe_size,
    default="4MiB",
    show_default=True,
    metavar="SIZE",
    help="E.g. 1MiB; a multiple of 64KiB.",
)
@click.option(
    "--file_size",
    type=ByteSize(),
    metavar="SIZE",
    help="Of the largest file that will be there, e.g. 42GB. [default: that of manifest.json or of "
    "the files there; else a shard's, 150MB]",
)
@LIMITS
@click.option(
    "--dry_run", is_flag=True, help="Only print the commands; as comments what needs none."
)
@click.option(
    "--migrate",
    is_flag=True,
    help="Also write anew the files whose layout is another. [default: leave files as they are]",
)
@click.option("--require_lustre", is_flag=True, help="Fail if DIR is not on Lustre.")
def command(directory: Path, **options: Any) -> None:
    """Set the Lustre layout of DIR, and of directories in it that hold files, before it is filled.

    New files get the layout; it is read back, since a site may refuse it without saying so. DIR is
    made if it is not there. Elsewhere than on Lustre nothing is done.
    """
    from dataprep.system.filesystems import filesystem_of
    from dataprep.system.lustre.contents import existing_files, expected_in, promised_files
    from dataprep.system.lustre.lfs import find_lfs
    from dataprep.system.lustre.rules import Striping, wanted_layout
    from dataprep.system.lustre.striping import LUSTRE, explain_other, plan_directories

    striping = Striping(
        count=options["count"],
        stripe_size=options["stripe_size"],
        most=options["lustre_max_stripes"],
        pool=options["lustre_pool"] or "",
        asked=True,
    )
    kind = filesystem_of(directory)
    if kind != LUSTRE:
        wanted = wanted_layout(striping, options["file_size"] or _SHARD, None)
        explained = explain_other(kind, directory, wanted)
        if options["require_lustre"]:
            raise DatasetError(f"{explained}; choose another directory, or no --require_lustre")
        click.echo(explained)
        return
    lfs = find_lfs(directory)
    there = existing_files(directory)
    known = {**promised_files(directory), **there}
    expected = expected_in(directory, known, options["file_size"], _SHARD)
    plans = plan_directories(lfs, expected, striping)
    files = sorted(there)
    if options["dry_run"]:
        _print_commands(lfs, plans, files, migrate=options["migrate"])
        return
    _carry_out(lfs, plans)
    _treat_files(lfs, plans, files, migrate=options["migrate"])


def _carry_out(lfs: Lfs, plans: Sequence[Plan]) -> None:
    from dataprep.system.lustre.striping import carry_out

    outcomes = []
    for plan in plans:
        outcomes.append(carry_out(lfs, plan))
        click.echo(str(outcomes[-1]))
    refused = [outcome for outcome in outcomes if outcome.state == "refused"]
    if refused:
        raise DatasetError(
            f"{len(refused)} of {counted(len(plans), 'directory', 'directories')} did not get the "
            "layout that was asked for; ask for what the site allows (--count, "
            "--lustre_max_stripes, --lustre_pool), or go on with what is in force"
        )


def _treat_files(lfs: Lfs, plans: Sequence[Plan], files: Sequence[Path], *, migrate: bool) -> None:
    from dataprep.system.lustre.migration import files_to_migrate, migrate_files

    others = files_to_migrate(lfs, files, plans)
    if not others:
        return
    many = f"{counted(len(others), 'file')} of {len(files):,}"
    named = some_of([file.name for file, _ in others])
    if not migrate:
        click.echo(f"{many} not touched, in another layout ({named}); --migrate writes them anew")
        return
    click.echo(f"{many} to write anew ({named})")
    failed = migrate_files(lfs, others)
    if failed:
        raise DatasetError(
            f"{counted(len(failed), 'file')} of {len(others):,} did not get the layout though "
            f"`lfs migrate` succeeded ({some_of([file.name for file in failed])}); the site "
            "restricts layouts"
        )
    click.echo(f"{counted(len(others), 'file')} written anew")


def _print_commands(
    lfs: Lfs, plans: Sequence[Plan], files: Sequence[Path], *, migrate: bool
) -> None:
    from dataprep.system.lustre.lfs import migrate_words, setstripe_words
    from dataprep.system.lustre.migration import files_to_migrate

    for plan in plans:
        if not plan.directory.exists():
            click.echo(shlex.join(["mkdir", "-p", str(plan.directory)]))
        if plan.asked is not None and plan.changes:
            click.echo(shlex.join(setstripe_words(plan.asked, plan.directory)))
        else:
            kept = "kept as it is" if plan.asked is None else "already"
            click.echo(f"# {plan.directory}: {kept} ({plan.current})")
    others: Sequence[tuple[Path, Layout]] = files_to_migrate(lfs, files, plans)
    if others and not migrate:
        click.echo(
            f"# {counted(len(others), 'file')} in another layout; --migrate writes them anew"
        )
    for file, layout in others if migrate else ():
        click.echo(shlex.join(migrate_words(layout, file)))
