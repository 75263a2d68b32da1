"""Commands that make a data set of finished ones: ``convert``, ``select`` and ``compact``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from dataprep.api.calls import compact, convert, select
from dataprep.api.options import compact_options, convert_options, select_options
from dataprep.cli.help import JobCommand
from dataprep.cli.options import shown
from dataprep.cli.output import PATH, PLACE
from dataprep.errors import UsageError

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
