"""The layout of a job's directories on a parallel file system, set before their first file."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from dataprep.build.job import Job
from dataprep.errors import DatasetError
from dataprep.sinks import ShardName
from dataprep.system.filesystems import filesystem_of
from dataprep.system.lustre.lfs import Lfs, LfsError, find_lfs
from dataprep.system.lustre.rules import Striping
from dataprep.system.lustre.striping import (
    LUSTRE,
    Expected,
    carry_out,
    explain_other,
    plan_directories,
)


def lay_out(
    job: Job, pending: Sequence[ShardName], striping: Striping, report: Callable[[str], None]
) -> None:
    """Set the layout of the directories that shards are written to, temporary files included.

    Shapes no byte of the output, so a job may be resumed with another.

    Args:
        job: what is to be built.
        pending: the shards that are not there yet.
        striping: what the user wants.
        report: takes one line for the user.

    Raises:
        LfsError: a layout was asked for, and `lfs` failed or is not there.
        DatasetError: one was asked for, and the site does not give it.
    """
    if striping.count == "off":
        return
    out = job.workspace.out
    kind = filesystem_of(out)
    if kind != LUSTRE:
        if striping.asked:
            report(explain_other(kind, out))
        return
    try:
        _lay_out(find_lfs(out), _expected(job, pending), striping, report)
    except LfsError as error:
        if not striping.is_optional:
            raise
        report(f"note: no layout is set: {error}")


def _lay_out(
    lfs: Lfs, expected: Sequence[Expected], striping: Striping, report: Callable[[str], None]
) -> None:
    for plan in plan_directories(lfs, expected, striping):
        outcome = carry_out(lfs, plan)
        if outcome.state != "refused":
            report(f"layout of {outcome}")
        elif striping.is_optional:
            report(f"note: layout of {outcome}")
        else:
            raise DatasetError(
                f"layout of {outcome}; nothing was written: ask for what the site allows, or leave "
                "out --lustre_stripe to go on with what is in force"
            )


def _expected(job: Job, pending: Sequence[ShardName]) -> list[Expected]:
    """The directories of the shards' data; sidecars are small, wherever they are."""
    sink, out = job.output.load_sink(), job.workspace.out
    largest: defaultdict[Path, int] = defaultdict(int)
    for split in job.splits:
        shards = [shard for shard in pending if shard.split == split.name]
        if not shards:
            continue
        places = {(out / sink.paths(shard, job.output.layout)[0]).parent for shard in shards}
        # Where each shard has a directory of its own, those inherit from the one around them.
        place = Path(os.path.commonpath(places))
        largest[place] = max(largest[place], job.estimate_bytes(shards) // len(shards))
    return [Expected(place, largest[place]) for place in sorted(largest)]
