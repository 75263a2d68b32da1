"""Commands whose help has sections, the common options first; the rest under ``--help-all``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from click.core import ParameterSource

from dataprep.api.options import SECTIONS
from dataprep.api.parameters import Option
from dataprep.cli.output import say

HELP_ALL = "dataprep.help_all"
"""In a context's ``meta``: every option is shown."""


class SectionedCommand(click.Command):
    """A command with so many options that a newcomer should see the common ones first."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The sections; then how to see the rest."""
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in (*SECTIONS, "Help")}
        hidden = 0
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None or isinstance(parameter, click.Argument):
                continue
            if isinstance(parameter, Option) and parameter.rare and HELP_ALL not in ctx.meta:
                hidden += 1
            else:
                sections[getattr(parameter, "section", "Help")].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        if hidden:
            formatter.write_paragraph()
            formatter.write_text(f"{hidden} more options: {ctx.command_path} --help-all")


def help_all_option() -> click.Option:
    """``--help-all``."""

    def show(ctx: click.Context, option: click.Parameter, asked: bool) -> None:
        if asked:
            ctx.meta[HELP_ALL] = True
            say(*ctx.get_help().split("\n"))
            ctx.exit()

    return click.Option(
        ["--help-all"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="Show every option.",
    )


def beam_argument() -> click.Argument:
    """What follows ``--``: Beam's own options."""
    return click.Argument(
        ["beam_options"],
        nargs=-1,
        type=click.UNPROCESSED,
        metavar="[-- BEAM_OPTIONS]",
        callback=_no_strays,
    )


def _no_strays(
    context: click.Context, parameter: click.Parameter, words: tuple[str, ...]
) -> tuple[str, ...]:
    # Only the first: later ones may be the values of Beam's options.
    if words and not words[0].startswith("-"):
        raise click.UsageError(
            f"Got unexpected extra argument {words[0]!r}: places are named by options.", context
        )
    return words


def given(context: click.Context, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that the user gave; defaults are the call's own business."""
    default = (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)
    return {
        name: value
        for name, value in values.items()
        if context.get_parameter_source(name) not in default
    }
