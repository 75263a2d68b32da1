"""Finding sinks and data sets by name, through entry points; nothing is imported until used."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from dataprep.datasets.base import Dataset
from dataprep.errors import DataprepError, UsageError
from dataprep.sinks.base import Sink

SINKS = "dataprep.sinks"
DATASETS = "dataprep.datasets"

OUR_PACKAGE = "dataprep-shards"

# Where pip calls a library otherwise than Python does.
_PIP_NAMES = {"PIL": "pillow", "google_crc32c": "google-crc32c"}


def installed(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name, sorted; of several with one name, our own.

    Otherwise the one of the package that comes first in the alphabet.
    """
    return {name: points[0] for name, points in _by_name(group).items()}


def ignored(group: str) -> list[EntryPoint]:
    """Those whose name is taken by one of `installed`."""
    return [point for points in _by_name(group).values() for point in points[1:]]


def package_of(point: EntryPoint) -> str:
    """The distribution that brings an entry point; empty if that is not known."""
    return "" if point.dist is None else point.dist.name


def _by_name(group: str) -> dict[str, list[EntryPoint]]:
    """Every name's entry points, the one that counts first; the order of the path has no say."""
    found: dict[str, list[EntryPoint]] = {}
    for point in sorted(entry_points(group=group), key=_precedence):
        found.setdefault(point.name, []).append(point)
    return found


def _precedence(point: EntryPoint) -> tuple[str, bool, str, str]:
    package = package_of(point)
    return point.name, package != OUR_PACKAGE, package, point.value


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
    return cast("Sink", _construct(point, _plugin_class(point, Sink), dict(options)))


def dataset_class(name: str) -> type[Dataset]:
    """Import the class of the data set called ``name``; raises as `load_sink` does."""
    return cast("type[Dataset]", _plugin_class(_find(DATASETS, name), Dataset))


def load_dataset(name: str, options: Mapping[str, str] | None = None) -> Dataset:
    """Construct the data set called ``name``, with values for its options; raises as `load_sink`.

    Equal requests get the same object until ``load_dataset.cache_clear()``.
    """
    return _load_dataset(name, tuple(sorted((options or {}).items())))


@cache
def _load_dataset(name: str, options: tuple[tuple[str, str], ...]) -> Dataset:
    point = _find(DATASETS, name)
    return cast("Dataset", _construct(point, dataset_class(name), dict(options)))


# Tests install and remove plugins while they run.
load_sink.cache_clear = _load_sink.cache_clear  # type: ignore[attr-defined]
load_dataset.cache_clear = _load_dataset.cache_clear  # type: ignore[attr-defined]


def _plugin_class(point: EntryPoint, base: type) -> type:
    """Import a plugin, and refuse what cannot be one."""
    kind = _import(point)
    if not (isinstance(kind, type) and issubclass(kind, base)):
        plug = f"{base.__module__.rpartition('.')[0]}.{base.__name__}"
        raise DataprepError(f"{_called(point)} is not a subclass of {plug}")
    found = getattr(kind, "name", None)
    if found != point.name:
        raise DataprepError(f"{_called(point)} calls itself {found!r}; the two must be equal")
    return kind


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
    except ImportError as error:
        raise DataprepError(
            f"{_called(point)} cannot be loaded: {_one_line(error)}{_remedy(point, error)}"
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


def _remedy(point: EntryPoint, error: ImportError) -> str:
    """How to install what the plugin needs: by its distribution's extra, or the library itself.

    The extra is that in brackets behind the entry point, or the one of the plugin's name. Of ours
    none is named: on a public index, our name may be somebody else's.
    """
    if point.dist is not None and point.dist.name != OUR_PACKAGE:
        declared = point.dist.metadata.get_all("Provides-Extra") or []
        for extra in (*point.extras, point.name):
            if extra in declared:
                return f"; pip install '{point.dist.name}[{extra}]'"
    library = error.name if isinstance(error, ModuleNotFoundError) else None
    own = point.module.partition(".")[0]
    if not library or "." in library or library == own:
        return ""  # a part of something that is there
    return f"; pip install {_PIP_NAMES.get(library, library)}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
