"""``dataprep status``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click

from dataprep.api.calls import status
from dataprep.cli.options import flag
from dataprep.cli.output import PATH, json_option, say, show
from dataprep.system.messages import printable

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
