"""``dataprep imagenet``, ``chestxray14``, ``folder`` and those of plugins: a command a data set."""

from __future__ import annotations

from functools import partial
from inspect import cleandoc
from typing import Any

from dataprep.api.calls import plan, prepare
from dataprep.api.options import prepare_options
from dataprep.cli.help import JobCommand
from dataprep.cli.options import flag, shown
from dataprep.cli.output import show
from dataprep.errors import UsageError
from dataprep.plugins import dataset_class

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
