"""What a user sees passes here: whatever a manifest or an archive says, a line stays a line."""

from __future__ import annotations

import click

from dataprep.system.messages import one_line


def say(*lines: object, err: bool = False) -> None:
    """Print a line each, in which a terminal finds nothing to obey."""
    for line in lines:
        click.echo(one_line(str(line)), err=err)  # noqa: TID251  # the one place


def hand_on(text: str) -> None:
    """Print what a program takes in, as it is; of what the user said, and of nothing else."""
    click.echo(text, nl=False)  # noqa: TID251  # the one place
