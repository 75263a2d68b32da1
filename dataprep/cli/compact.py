"""``dataprep compact``."""

from __future__ import annotations

import click

from dataprep.api.calls import compact
from dataprep.api.options import compact_options
from dataprep.cli.help import JobCommand
from dataprep.cli.output import PATH

_HELP = """\
Rebalance the data set in OUT, extended with --append, without its raw data.

All images are spread over new shards, as many in each as at first. The result is, byte for byte,
what all images prepared at once would give, except that new classes come after the others. The old
shards stay until all new ones are written, so there must be room for both. If it is killed, run it
again to resume.
"""

command = JobCommand(
    "compact", compact, [click.Argument(["out"], type=PATH), *compact_options()], _HELP
)
