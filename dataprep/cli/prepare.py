"""``dataprep imagenet``, ``chestxray14``, ``folder`` and those of plugins: a command a data set."""

from __future__ import annotations

from functools import partial
from inspect import cleandoc

from dataprep.api.calls import prepare
from dataprep.api.options import prepare_options
from dataprep.cli.help import JobCommand
from dataprep.plugins import dataset_class

_RESUMING = """\
If it is killed, run the same command again to resume: only missing shards are made. The result is
the same, byte for byte, for any number of workers on any engine. Options after -- are Beam's own,
e.g. --runner FlinkRunner -- --flink_master=HOST:PORT.
"""


def dataset_command(name: str) -> JobCommand:
    """The command of a data set: what all share, and the data set's own options.

    Raises:
        DataprepError: the data set cannot be loaded.
    """
    dataset = dataset_class(name)
    text = f"{cleandoc(dataset.summary)}\n\n{_RESUMING}"
    return JobCommand(name, partial(prepare, name), prepare_options(dataset), text)
