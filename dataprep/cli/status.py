"""``dataprep status``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dataprep.system.messages import counted, printable

if TYPE_CHECKING:
    from dataprep.build.status import Holder, Status


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
def command(out: Path) -> None:
    """Tell how far the job in OUT is: running, dead or finished.

    Reads only what is in the directory, so it works from any host, during a run or after it.
    """
    from dataprep.build.status import read_status
    from dataprep.index.records import conspicuous

    status = read_status(out)
    click.echo(f"{out}: {_state(status)}")
    for split in status.splits:
        click.echo(
            f"{split.name}: {split.shards_done} of {split.shards} shards, "
            f"{split.images_done:,} of {split.images:,} images"
        )
    if status.under_way and status.works:
        click.echo(f"{status.under_way:,} images in unfinished shards")
    if status.images_per_second is not None and status.works:
        left = sum(split.images - split.images_done for split in status.splits)
        minutes = left / status.images_per_second / 60
        click.echo(f"{status.images_per_second:,.0f} images/s; about {minutes:.0f} minutes left")
    columns = ("status", "key", "container", "reason")
    for record in status.records:
        if record.rejected or record.noted:
            for kind, key, container, reason in conspicuous(out / record.rows.path, columns):
                where = f"{key} in {container}" if kind == "rejected" else key
                click.echo(f"{kind}: {record.split}: {printable(where)}: {reason}")


def _state(status: Status) -> str:
    if status.holder is not None and status.holder.is_running is not False:
        return _describe_run(status.holder)
    missing = sum(split.shards - split.shards_done for split in status.splits)
    if status.sealed and missing:
        return f"sealed, but {counted(missing, 'shard')} missing; run the same command again"
    if status.sealed:
        return f"sealed, {status.part}" if status.part else "sealed"
    if missing or not status.splits:
        return "not running and not finished; run the same command again to resume"
    rejected = sum(record.rejected for record in status.records)
    if rejected:
        return f"not sealed: --max_bad {rejected} with the same command accepts what was rejected"
    return "every shard is there, not sealed; run the same command again to seal it"


def _describe_run(holder: Holder) -> str:
    who = f"process {holder.process} on {holder.host}"
    if holder.is_running:
        return f"running, {who}"
    sign = f"last sign of life {holder.silent_seconds:,.0f} s ago"
    if holder.works:
        return f"running, {who}, {sign}"
    return f"probably dead, {who}, {sign}; run the same command again: it makes sure and resumes"
