"""Commands that make a data set: of raw data, or of finished ones (convert, select, compact)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from inspect import cleandoc
from typing import Any

import click

from dataprep.api.calls import compact, convert, plan, prepare, select
from dataprep.api.options import compact_options, convert_options, prepare_options, select_options
from dataprep.api.parameters import SECTIONS
from dataprep.cli.options import Shown, flag, given, shown
from dataprep.cli.output import PATH, PLACE, say, show
from dataprep.cli.signals import watched
from dataprep.errors import UsageError
from dataprep.plugins import dataset_class

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


_CONVERT = """\
Convert the data set in OUT to another format, without its raw data.

Order and labels stay. So do the bytes of the images, unless --resize, --quality or the like
re-encodes them; pixel arrays become PNGs where the format stores image files. The manifest names
the source. If it is killed, run it again to resume.
"""

convert_command = JobCommand(
    "convert",
    convert,
    [click.Argument(["source"], metavar="OUT", type=PLACE), *shown(convert_options().table)],
    _CONVERT,
)


_SELECT = """\
Make a data set of chosen images of finished ones, without their raw data.

Images are taken, left out, given other labels or splits, and shuffled anew; images that are not
re-encoded come out byte for byte as if they had been prepared so from the raw data. Of several SRC,
one data set is made: their classes are joined by name. NAME=SRC puts the name before its keys. The
manifest names the sources, and what was done. If it is killed, run it again to resume.
"""


def _select(*, sources: Sequence[str], **options: Any) -> object:
    pairs = [word.partition("=") for word in sources]
    if not all(equals for _, equals, _ in pairs):
        return select(*sources, **options)
    named = {name: path for name, _, path in pairs}
    if len(named) < len(pairs) or not all(named) or any("/" in name for name in named):
        raise UsageError("each NAME=SRC needs a name of its own, without a slash")
    return select(named, **options)


select_command = JobCommand(
    "select",
    _select,
    [
        click.Argument(["sources"], metavar="[NAME=]SRC...", nargs=-1, required=True),
        *shown(select_options().table),
    ],
    _SELECT,
)


_COMPACT = """\
Rebalance the data set in OUT, extended with --append, without its raw data.

All images are spread over new shards, as many in each as at first. The result is, byte for byte,
what all images prepared at once would give, except that new classes come after the others. The old
shards stay until all new ones are written, so there must be room for both. If it is killed, run it
again to resume.
"""

compact_command = JobCommand(
    "compact",
    compact,
    [click.Argument(["out"], type=PATH), *shown(compact_options().table)],
    _COMPACT,
)


_RESUMING = """\
If it is killed, run the same command again to resume: only missing shards are made. The result is
the same, byte for byte, for any number of workers on any engine. Options after -- are Beam's own,
e.g. --runner FlinkRunner -- --flink_master=HOST:PORT.
"""
_DRY_RUN = (
    "Write nothing, not even into OUT: show what was found, what splits, classes and shards there "
    "would be, what of 200 images would be rejected, and about how much room and time it takes."
)
_JSON = "With --dry_run: print the result as JSON: dataprep.Plan."


def dataset_command(name: str) -> JobCommand:
    """The command of a data set: what all share, and the data set's own options.

    Raises:
        DataprepError: the data set cannot be loaded.
    """
    dataset = dataset_class(name)
    text = f"{cleandoc(dataset.summary)}\n\n{_RESUMING}"
    looking = flag("dry_run", _DRY_RUN, section="Output"), flag("json", _JSON, section="Output")
    table = shown(prepare_options(dataset).table)
    return JobCommand(name, partial(_run, name), [*table, *looking], text)


def _run(name: str, *, dry_run: bool = False, json: bool = False, **given: Any) -> None:
    if dry_run:
        show(plan(name, **given), json=json)
    elif json:
        raise UsageError("--json prints what --dry_run finds out; give both, or leave it out")
    else:
        prepare(name, **given)
