"""Commands that run a job: common options first in the help, the rest under ``--help-all``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
from click.core import ParameterSource

from dataprep.api.parameters import SECTIONS
from dataprep.cli.options import Shown
from dataprep.cli.output import say
from dataprep.cli.signals import watched

HELP_ALL = "dataprep.help_all"  # in a context's ``meta``: every option is shown


class JobCommand(click.Command):
    """A command with so many options that a newcomer should see the common ones first.

    What follows ``--`` are Beam's own options.

    Args:
        call: is given what the user gave, by name, with ``progress`` and ``beam_options``.
    """

    def __init__(
        self, name: str, call: Callable[..., object], params: Sequence[click.Parameter], text: str
    ) -> None:
        several = [each for each in params if isinstance(each, click.Argument) and each.nargs < 0]

        def run(beam_options: Sequence[str] = (), **values: Any) -> None:
            options = given(click.get_current_context(), values)
            for argument in several:  # which takes what follows ``--`` too
                words = options[str(argument.name)]
                first = next((at for at, each in enumerate(words) if each.startswith("-")), None)
                if first is not None:
                    options[str(argument.name)], beam_options = words[:first], words[first:]
            how = []
            if options.get("dry_run"):
                how = ["nothing was written"]
            elif options.get("overwrite"):
                how = ["finished shards are kept; the same command without --overwrite resumes"]
            with watched(*how) as display:
                call(progress=display, beam_options=beam_options, **options)

        beam = click.Argument(
            ["beam_options"],
            nargs=-1,
            type=click.UNPROCESSED,
            metavar="[-- BEAM_OPTIONS]",
            callback=_no_strays,
        )
        everything = click.Option(
            ["--help-all"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_show_everything,
            help="Show every option.",
        )
        ends = [everything] if several else [beam, everything]
        super().__init__(name, params=[*params, *ends], callback=run, help=text)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The sections; then how to see the rest."""
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in (*SECTIONS, "Help")}
        hidden = 0
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None or isinstance(parameter, click.Argument):
                continue
            if isinstance(parameter, Shown) and parameter.rare and HELP_ALL not in ctx.meta:
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


def _show_everything(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if asked:
        context.meta[HELP_ALL] = True
        say(*context.get_help().split("\n"))
        context.exit()


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
