"""The options that choose a format, shared by every command that writes one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from dataprep.errors import UsageError

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def options(*chosen: Callable[[Decorated], Decorated]) -> Callable[[Decorated], Decorated]:
    """Several options as one decorator, shown in this order."""

    def decorate(function: Decorated) -> Decorated:
        for option in reversed(chosen):
            function = option(function)
        return function

    return decorate


def sink_options(*, default: str | None) -> Callable[[Decorated], Decorated]:
    """``--sink`` and what belongs to it; without a default it must be given."""
    # Not default=None: since click 8.3 that is a default like any other.
    chosen: dict[str, Any] = (
        {"required": True} if default is None else {"default": default, "show_default": True}
    )
    return options(
        click.option(
            "--sink",
            **chosen,
            metavar="NAME",
            help="The format to write; `dataprep sinks` lists them.",
        ),
        click.option(
            "--sink_option",
            "sink_options",
            multiple=True,
            metavar="NAME=VALUE",
            help="An option of the format; `dataprep sinks` lists them. May be repeated.",
        ),
        click.option(
            "--datum",
            type=click.Choice(["encoded", "raw"]),
            help="--sink lmdb: image files, or arrays of pixels, all of one size.",
        ),
        click.option(
            "--build_dir",
            type=click.Path(path_type=Path, file_okay=False, exists=True, writable=True),
            metavar="DIR",
            help="Build LMDB and HDF5 files here, then copy them. [default: node-local scratch if "
            "the output is on a network file system]",
        ),
    )


def chosen_options(options: Mapping[str, Any]) -> dict[str, str]:
    """The format's own options: ``--sink_option NAME=VALUE``, and those that stand for one.

    Raises:
        UsageError: one has no ``=``, or is given twice.
    """
    found: dict[str, str] = {}
    for text in options["sink_options"]:
        name, equals, value = text.partition("=")
        if not equals or not name or name in found:
            raise UsageError(f"--sink_option {text!r}: expected NAME=VALUE, each name once")
        found[name] = value
    if options["datum"] is not None:
        if options["sink"] != "lmdb":
            raise UsageError(f"--datum is an option of --sink lmdb, not of {options['sink']}")
        if found.get("datum", options["datum"]) != options["datum"]:
            raise UsageError("--datum and --sink_option datum= contradict each other")
        found["datum"] = options["datum"]
    if options.get("stats") == "mean" and options["sink"] == "lmdb":
        found["mean"] = "on"
    return found
