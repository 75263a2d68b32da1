"""Finding sinks and data sets by name, through entry points; nothing is imported until used."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from dataprep.errors import DataprepError, UsageError
from dataprep.sinks.base import Sink
from dataprep.sources.base import Dataset

SINKS = "dataprep.sinks"
DATASETS = "dataprep.datasets"


def installed(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name, sorted."""
    found = {point.name: point for point in entry_points(group=group)}
    return dict(sorted(found.items()))


@cache
def load_sink(name: str) -> Sink:
    """Import and construct the sink called ``name``.

    Raises:
        UsageError: no such sink is installed; the message lists those that are.
        DataprepError: it is installed but cannot be imported; the message says what is missing.
    """
    return cast("Sink", _load(SINKS, name))


@cache
def load_dataset(name: str) -> Dataset:
    """Import and construct the data set called ``name``; raises as `load_sink` does."""
    return cast("Dataset", _load(DATASETS, name))


def _load(group: str, name: str) -> object:
    found = installed(group)
    if name not in found:
        kind = group.rpartition(".")[2].removesuffix("s")
        raise UsageError(f"no {kind} called {name!r} is installed; there are: {', '.join(found)}")
    try:
        return found[name].load()()
    except ImportError as error:
        raise DataprepError(f"{name} ({found[name].value}) cannot be loaded: {error}") from error
