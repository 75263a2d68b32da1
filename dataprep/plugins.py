"""Finding sinks and data sets by name, through entry points; nothing is imported until used."""

from __future__ import annotations

from collections.abc import Mapping
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


def load_sink(name: str, options: Mapping[str, str] | None = None) -> Sink:
    """Import and construct the sink called ``name``, with values for its options.

    Equal requests get the same object until ``load_sink.cache_clear()``.

    Raises:
        UsageError: no such sink is installed, or it has no such option; the message lists those
            that there are.
        DataprepError: it is installed but cannot be used; the message says what is missing, or
            what is wrong with it.
    """
    return _load_sink(name, tuple(sorted((options or {}).items())))


@cache
def _load_sink(name: str, options: tuple[tuple[str, str], ...]) -> Sink:
    point = _find(SINKS, name)
    kind = _import(point)
    if not (isinstance(kind, type) and issubclass(kind, Sink)):
        raise DataprepError(f"{_called(point)} is not a subclass of dataprep.sinks.Sink")
    found = getattr(kind, "name", None)
    if found != name:
        raise DataprepError(f"{_called(point)} calls itself {found!r}; the two must be equal")
    return cast("Sink", _construct(point, kind, dict(options)))


# Tests install and remove sinks while they run.
load_sink.cache_clear = _load_sink.cache_clear  # type: ignore[attr-defined]


@cache
def load_dataset(name: str) -> Dataset:
    """Import and construct the data set called ``name``; raises as `load_sink` does."""
    point = _find(DATASETS, name)
    return cast("Dataset", _construct(point, _import(point), {}))


def _find(group: str, name: str) -> EntryPoint:
    found = installed(group)
    if name not in found:
        kind = group.rpartition(".")[2].removesuffix("s")
        raise UsageError(f"no {kind} called {name!r} is installed; there are: {', '.join(found)}")
    return found[name]


def _import(point: EntryPoint) -> object:
    try:
        return point.load()
    except DataprepError:
        raise
    except ImportError as error:
        raise DataprepError(
            f"{_called(point)} cannot be loaded: {_one_line(error)}{_remedy(point)}"
        ) from error
    except Exception as error:
        raise _broken(point, error) from error


def _construct(point: EntryPoint, kind: object, options: Mapping[str, str]) -> object:
    try:
        return cast("type[object]", kind)(**options)
    except DataprepError:
        raise
    except Exception as error:
        raise _broken(point, error) from error


def _broken(point: EntryPoint, error: Exception) -> DataprepError:
    return DataprepError(
        f"{_called(point)} cannot be loaded: {type(error).__name__}: {_one_line(error)}"
    )


def _called(point: EntryPoint) -> str:
    """What to call the plugin in a message: ``sink lmdb (dataprep.sinks.lmdb:LmdbSink)``."""
    kind = {SINKS: "sink", DATASETS: "data set"}.get(point.group, "plugin")
    return f"{kind} {point.name} ({point.value})"


def _remedy(point: EntryPoint) -> str:
    """How to install what the plugin needs, if its distribution has an extra for it.

    That is the extra in brackets behind the entry point, or the one of the plugin's name.
    """
    if point.dist is None:
        return ""
    declared = point.dist.metadata.get_all("Provides-Extra") or []
    extras = [extra for extra in (*point.extras, point.name) if extra in declared]
    if not extras:
        return ""
    return f"; pip install '{point.dist.name}[{extras[0]}]'"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
