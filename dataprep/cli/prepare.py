"""``dataprep imagenet``, ``chestxray14``, ``folder`` and those of plugins: a command a data set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from dataprep.api.calls import prepare
from dataprep.api.options import prepare_options, summary_of
from dataprep.api.progress import Progress
from dataprep.cli.help import SectionedCommand, beam_argument, given, help_all_option
from dataprep.cli.signals import watched
from dataprep.plugins import dataset_class

_RESUMING = """\
Killed at any moment, the same command resumes: only missing shards are made, and the result
is the same, byte for byte, for any number of workers on any engine. Options after -- are Beam's
own, e.g. --runner FlinkRunner -- --flink_master=HOST:PORT.
"""


def dataset_command(name: str) -> click.Command:
    """The command of a data set: what all share, and the data set's own options.

    Raises:
        DataprepError: the data set cannot be loaded.
    """
    dataset = dataset_class(name)

    @click.pass_context
    def command(context: click.Context, /, *, beam_options: Sequence[str], **values: Any) -> None:
        with watched() as display:
            options = given(context, values)
            sealed = prepare(name, progress=display, beam_options=beam_options, **options)
            display(Progress(message=str(sealed)))

    return SectionedCommand(
        name,
        params=[*prepare_options(dataset), beam_argument(), help_all_option()],
        callback=command,
        help=f"{summary_of(dataset)}\n\n{_RESUMING}",
    )
