"""Finding sinks and data sets by name, through entry points; nothing is imported until used."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, cast

from dataprep.errors import DataprepError, UsageError

if TYPE_CHECKING:  # sinks load Pillow, which the help of a data set does without
    from dataprep.datasets.base import Dataset
    from dataprep.formats.base import Sink

SINKS = "dataprep.sinks"
DATASETS = "dataprep.datasets"

OUR_PACKAGE = "dataprep-shards"


def installed(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name, sorted; of several with one name, our own.

    Otherwise the one of the package that comes first in the alphabet.
    """
    points = sorted(entry_points(group=group), key=_precedence, reverse=True)
    return dict(sorted({point.name: point for point in points}.items()))


def package_of(point: EntryPoint) -> str:
    """The distribution that brings an entry point; empty if that is not known."""
    return "" if point.dist is None else point.dist.name


def _precedence(point: EntryPoint) -> tuple[bool, str, str]:
    package = package_of(point)
    return package != OUR_PACKAGE, package, point.value


def load_sink(name: str, options: Mapping[str, str] | None = None) -> Sink:
    """Import and construct the sink called ``name``, with values for its options.

    Equal requests get the same object.

    Raises:
        UsageError: no such sink is installed, or it has no such option; the message lists those
            that there are.
        DataprepError: it is installed but cannot be used; the message says what is missing, or
            what is wrong with it.
    """
    return _sink(name, tuple(sorted((options or {}).items())))


def load_dataset(name: str, options: Mapping[str, str] | None = None) -> Dataset:
    """Construct the data set called ``name``, with values for its options.

    Each time a new one: it keeps what it has read, and in a notebook a list may be another by then.

    Raises:
        UsageError: as `load_sink`.
        DataprepError: likewise.
    """
    return cast("Dataset", _load(DATASETS, name, options or {}))


def dataset_class(name: str) -> type[Dataset]:
    """Import the class of the data set called ``name``; raises as `load_sink` does."""
    return cast("type[Dataset]", _plugin_class(_find(DATASETS, name)))


@cache
def _sink(name: str, options: tuple[tuple[str, str], ...]) -> Sink:
    return cast("Sink", _load(SINKS, name, dict(options)))


def _load(group: str, name: str, options: Mapping[str, str]) -> object:
    point = _find(group, name)
    kind = _plugin_class(point)
    try:
        return kind(**options)
    except DataprepError:
        raise
    except Exception as error:
        raise _broken(point, error) from error


def _plugin_class(point: EntryPoint) -> type:
    """Import a plugin, and refuse what cannot be one."""
    kind, base = _import(point), _base(point.group)
    if not (isinstance(kind, type) and issubclass(kind, base)):
        plug = f"{base.__module__.rpartition('.')[0]}.{base.__name__}"
        raise DataprepError(f"{_called(point)} is not a subclass of {plug}")
    found = getattr(kind, "name", None)
    if found != point.name:
        raise DataprepError(f"{_called(point)} calls itself {found!r}; the two must be equal")
    return kind


def _base(group: str) -> type:
    if group == SINKS:
        from dataprep.formats.base import Sink

        return Sink
    from dataprep.datasets.base import Dataset

    return Dataset


def _find(group: str, name: str) -> EntryPoint:
    found = installed(group)
    if name not in found:
        kind = group.rpartition(".")[2].removesuffix("s")
        alike = difflib.get_close_matches(name, found, n=1)
        hint = f" (did you mean {alike[0]}?)" if alike else ""
        there = ", ".join(found)
        raise UsageError(f"no {kind} called {name!r} is installed{hint}; there are: {there}")
    return found[name]


def _import(point: EntryPoint) -> object:
    try:
        return point.load()
    except DataprepError:
        raise
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        raise DataprepError(
            f"{_called(point)} cannot be loaded: {error}; pip install {library}"
        ) from error
    except Exception as error:
        raise _broken(point, error) from error


def _broken(point: EntryPoint, error: Exception) -> DataprepError:
    said = " ".join(str(error).split())
    return DataprepError(f"{_called(point)} cannot be loaded: {type(error).__name__}: {said}")


def _called(point: EntryPoint) -> str:
    """What to call the plugin in a message: ``sink lmdb (dataprep.formats.lmdb…:LmdbSink)``."""
    kind = {SINKS: "sink", DATASETS: "data set"}.get(point.group, "plugin")
    return f"{kind} {point.name} ({point.value})"
