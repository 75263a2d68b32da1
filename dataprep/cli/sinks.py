"""``dataprep sinks``."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click

from dataprep.errors import DataprepError

if TYPE_CHECKING:
    from dataprep.sinks import Sink

_WIDTH = 80
_MANY = 1024  # the training shards of formats that are read in any number


@click.command()
def command() -> None:
    """List the formats that are installed, with their files and options.

    A package adds one with an entry point in the group dataprep.sinks.
    """
    from dataprep.plugins import OUR_PACKAGE, SINKS, ignored, installed, load_sink, package_of

    for name, point in installed(SINKS).items():
        package = package_of(point)
        origin = "" if package in ("", OUR_PACKAGE) else f" (from {package})"
        try:
            sink = load_sink(name)
        except DataprepError as error:
            click.echo(f"{name}{origin}: cannot be used: {error}")
            continue
        _echo(f"{name}{origin}: {sink.summary}")
        _show(sink)
    for point in ignored(SINKS):
        package = package_of(point) or "an unknown package"
        _echo(f"ignored: {point.name} of {package} ({point.value}), the name is taken")


def _show(sink: Sink) -> None:
    from dataprep.sinks import ShardName

    shard = ShardName("train", 0, sink.usual_shards or _MANY)
    files = [
        *sink.paths(shard, "split"),
        *sink.split_paths(shard.split, shard.count, "split"),
    ]
    _echo(f"files: {', '.join(map(str, files))}", indent=2)
    for option, choices in sink.OPTIONS.items():
        _echo(f"--sink_option {option}={'|'.join(choices)} [default: {choices[0]}]", indent=2)
    _echo(f"verify --level reader: {sink.reference or 'none'}", indent=2)


def _echo(text: str, indent: int = 0) -> None:
    """A line, continued further to the right where the terminal would break it."""
    click.echo(
        textwrap.fill(
            text,
            _WIDTH,
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent + 4),
            break_long_words=False,
            break_on_hyphens=False,
        )
    )
