"""``dataprep push``."""

from __future__ import annotations

from pathlib import Path

import click

from dataprep.api.calls import push
from dataprep.api.parameters import flag
from dataprep.cli.output import PATH, json_option, show
from dataprep.cli.signals import watched


@click.command(
    "push",
    params=[
        click.Argument(["out"], type=PATH),
        click.Argument(["to"]),
        flag("overwrite", "Replace a data set there that this one does not descend from."),
        flag(
            "delete_others",
            "At the end, delete all that is there and that this data set does not name. Who reads "
            "an older generation of it loses shards.",
        ),
        flag("dry_run", "Only say what would be done."),
        json_option("Pushed"),
    ],
)
def command(out: Path, to: str, json: bool, **options: bool) -> None:
    """Copy a finished data set into a bucket: its files, each checked, and its manifest last.

    TO is s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX; credentials are taken
    from where the tools of each have them. Without its manifest there is no data set, so what is
    in the bucket is whole or is none. Killed and started again it uploads what is missing.
    """
    with watched("run the same command again to go on") as display:
        found = push(out, to, progress=display, **options)
    show(found, json=json)
