"""``dataprep sinks``."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import click

from dataprep.cli.output import say
from dataprep.errors import DataprepError

_MANY = 1024  # the training shards of formats that are read in any number


@click.command()
def sinks_command() -> None:
    """List the installed formats, with their files and options.

    A package adds one with an entry point in the group dataprep.sinks.
    """
    from dataprep.plugins import OUR_PACKAGE, SINKS, installed, package_of

    for name, point in installed(SINKS).items():
        package = package_of(point)
        origin = "" if package in ("", OUR_PACKAGE) else f" (from {package})"
        for number, line in enumerate(_lines(name, origin)):
            indent = "  " if number else ""
            wrapped = textwrap.fill(
                line,
                80,
                initial_indent=indent,
                subsequent_indent=f"{indent}    ",
                break_long_words=False,
                break_on_hyphens=False,
            )
            say(*wrapped.split("\n"))


def _lines(name: str, origin: str) -> Iterator[str]:
    from dataprep.plugins import load_sink
    from dataprep.sinks import ShardName

    try:
        sink = load_sink(name)
    except DataprepError as error:
        yield f"{name}{origin}: cannot be used: {error}"
        return
    yield f"{name}{origin}: {sink.summary}"
    shard = ShardName("train", 0, sink.usual_shards or _MANY)
    files = [*sink.paths(shard, "split"), *sink.split_paths(shard.split, shard.count, "split")]
    yield f"files: {', '.join(map(str, files))}"
    for option, choices in sink.OPTIONS.items():
        if len(choices) > 1:
            yield f"--sink_option {option}={'|'.join(choices)} [default: {choices[0]}]"
    yield f"verify --level reader: {sink.reference or 'none'}"
