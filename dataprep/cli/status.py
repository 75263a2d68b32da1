"""``dataprep status``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from dataprep.api.calls import status
from dataprep.api.results import as_json
from dataprep.cli.output import say
from dataprep.system.messages import printable

_WATCH_SECONDS = 2.0  # on a terminal; workers note how far they are as often
_LINE_SECONDS = 10.0


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--watch", is_flag=True, help="Tell it again and again until the run ends.")
@click.option("--json", is_flag=True, help="Print it as JSON: dataprep.JobStatus.")
def command(out: Path, watch: bool, json: bool) -> None:
    """Tell how far the job in OUT is: running, dead or finished.

    Reads only what is in the directory, so it works from any host, during a run or after it.
    """
    terminal = sys.stdout.isatty()
    found = status(out)
    while watch and found.state == "running":
        if terminal:
            click.clear()
        say(*(as_json(found) if json else str(found)).split("\n"))
        time.sleep(_WATCH_SECONDS if terminal else _LINE_SECONDS)
        found = status(out)
    if watch and terminal:
        click.clear()
    say(*(as_json(found) if json else str(found)).split("\n"))
    if found.rejected + found.noted and not json:
        for line in _conspicuous(out):
            say(line)


def _conspicuous(out: Path) -> list[str]:
    """Images of the finished shards that are not just stored, and why."""
    from dataprep.jobs.commit import finished_shards
    from dataprep.jobs.workspace import Workspace
    from dataprep.tables.records import conspicuous

    lines = []
    for record in finished_shards(Workspace(out)):
        if record.rejected or record.noted:
            columns = ("status", "key", "container", "reason")
            for kind, key, container, reason in conspicuous(out / record.rows.path, columns):
                where = f"{key} in {container}" if kind == "rejected" else key
                lines.append(f"{kind}: {record.shard.split}: {printable(where)}: {reason}")
    return lines
