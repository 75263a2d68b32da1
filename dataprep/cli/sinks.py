"""``dataprep sinks``."""

from __future__ import annotations

import click

from dataprep.errors import DataprepError


@click.command()
def command() -> None:
    """List the formats that are installed, with their options.

    A package adds one with an entry point in the group dataprep.sinks.
    """
    from dataprep.plugins import SINKS, installed, load_sink

    for name, point in installed(SINKS).items():
        package = point.dist.name if point.dist is not None else ""
        origin = "" if package in ("", "dataprep") else f" (from {package})"
        try:
            sink = load_sink(name)
        except DataprepError as error:
            click.echo(f"{name}{origin}: cannot be used: {error}")
            continue
        click.echo(f"{name}{origin}: {sink.summary}")
        for option, choices in sink.OPTIONS.items():
            click.echo(f"  --sink_option {option}={'|'.join(choices)} [default: {choices[0]}]")
