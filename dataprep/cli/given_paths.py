"""Paths as a command line gives them; an empty one is a variable that was not set."""

from __future__ import annotations

import os
from pathlib import Path

import click

from dataprep.errors import UsageError


class GivenPath(click.Path):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.5
    """Like `click.Path`, but not the current directory for want of a name."""

    def __init__(
        self, *, file_okay: bool = True, dir_okay: bool = True, resolve: bool = False
    ) -> None:
        super().__init__(
            path_type=Path, file_okay=file_okay, dir_okay=dir_okay, resolve_path=resolve
        )

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | os.PathLike[str]:
        """Check one.

        Raises:
            UsageError: it is empty.
        """
        if value == "":
            raise UsageError(f"{_name(param)} is empty; is a variable not set?")
        return super().convert(value, param, ctx)


def _name(param: click.Parameter | None) -> str:
    if isinstance(param, click.Argument):
        return (param.metavar or param.opts[0]).strip("[]")
    return "a path" if param is None else param.opts[0]
