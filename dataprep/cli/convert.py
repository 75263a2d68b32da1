"""``dataprep convert``."""

from __future__ import annotations

import click

from dataprep.api.calls import convert
from dataprep.api.options import convert_options
from dataprep.cli.help import JobCommand
from dataprep.cli.output import PLACE

_HELP = """\
Convert the data set in OUT to another format, without its raw data.

Order and labels stay. So do the bytes of the images, unless --resize, --quality or the like
re-encodes them; pixel arrays become PNGs where the format stores image files. The manifest names
the source. If it is killed, run it again to resume.
"""

command = JobCommand(
    "convert",
    convert,
    [click.Argument(["source"], metavar="OUT", type=PLACE), *convert_options()],
    _HELP,
)
