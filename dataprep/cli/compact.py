"""``dataprep compact``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from dataprep.api.calls import compact
from dataprep.api.options import compact_options
from dataprep.cli.help import SectionedCommand, beam_argument, given, help_all_option
from dataprep.cli.signals import watched


@click.pass_context
def _compact(
    context: click.Context, /, *, out: Path, beam_options: Sequence[str], **values: Any
) -> None:
    """Make the data set in OUT, which grew by --append, one generation, without its raw data.

    All images are dealt over shards anew, as many in each as at first: what would have been made of
    all of them at once, byte for byte, but that new classes stay behind the others. Until all new
    shards are there the old ones stay, so there must be room for both. Resumes like any other job.
    """
    with watched() as display:
        compact(out, progress=display, beam_options=beam_options, **given(context, values))


command = SectionedCommand(
    "compact",
    params=[
        click.Argument(["out"], metavar="OUT", type=click.Path(path_type=Path)),
        *compact_options(),
        beam_argument(),
        help_all_option(),
    ],
    callback=_compact,
    help=_compact.__doc__,
)
