"""``dataprep select``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from dataprep.api.calls import select
from dataprep.api.options import select_options
from dataprep.cli.help import JobCommand
from dataprep.errors import UsageError

_HELP = """\
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


command = JobCommand(
    "select",
    _select,
    [
        click.Argument(["sources"], metavar="[NAME=]SRC...", nargs=-1, required=True),
        *select_options(),
    ],
    _HELP,
)
