"""``dataprep convert``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from dataprep.api.calls import convert
from dataprep.api.options import convert_options
from dataprep.api.progress import Progress
from dataprep.cli.help import SectionedCommand, beam_argument, given, help_all_option
from dataprep.cli.signals import watched


@click.pass_context
def _convert(
    context: click.Context, /, *, source: Path, beam_options: Sequence[str], **values: Any
) -> None:
    """Make another format of the data set in OUT, without its raw data.

    Order and labels stay. So do the bytes of the images, unless --resize, --quality or the like
    encodes them anew; arrays of pixels become PNG where a format stores image files. The manifest
    says what it was made from. Resumes like any other job.
    """
    with watched() as display:
        options = given(context, values)
        sealed = convert(source, progress=display, beam_options=beam_options, **options)
        display(Progress(message=str(sealed)))


command = SectionedCommand(
    "convert",
    params=[
        click.Argument(["source"], metavar="OUT", type=click.Path(path_type=Path)),
        *convert_options(),
        beam_argument(),
        help_all_option(),
    ],
    callback=_convert,
    help=_convert.__doc__,
)
