"""What follows ``--``: Beam's own options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def beam_options(function: Decorated) -> Decorated:
    """Hand what follows ``--`` over as ``beam_options``, a tuple of words."""
    return click.argument(
        "beam_options",
        nargs=-1,
        type=click.UNPROCESSED,
        metavar="[-- BEAM_OPTIONS]",
        callback=_no_strays,
    )(function)


def _no_strays(
    context: click.Context, parameter: click.Parameter, words: tuple[str, ...]
) -> tuple[str, ...]:
    # Only the first: later ones may be the values of Beam's options.
    if words and not words[0].startswith("-"):
        raise click.UsageError(
            f"Got unexpected extra argument {words[0]!r}: places are named by options.", context
        )
    return words
