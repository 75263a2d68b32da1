"""``dataprep push``."""

from __future__ import annotations

from pathlib import Path

import click

from dataprep.api.calls import push
from dataprep.api.parameters import flag
from dataprep.cli.output import PATH, json_option, show
from dataprep.cli.signals import watched


def _push(out: Path, to: str, overwrite: bool, dry_run: bool, json: bool) -> None:
    """Copy a finished data set into a bucket: its files, each checked, and its manifest last.

    TO is s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX; credentials are taken
    from where the tools of each have them. Without its manifest there is no data set, so what is
    in the bucket is whole or is none. Killed and started again it uploads what is missing.
    """
    with watched("run the same command again to go on") as display:
        found = push(out, to, overwrite=overwrite, dry_run=dry_run, progress=display)
    show(found, json=json)


command = click.Command(
    "push",
    params=[
        click.Argument(["out"], type=PATH),
        click.Argument(["to"]),
        flag("overwrite", "Replace a data set there that this one does not descend from."),
        flag("dry_run", "Only say what would be uploaded."),
        json_option("Pushed"),
    ],
    callback=_push,
    help=_push.__doc__,
)
