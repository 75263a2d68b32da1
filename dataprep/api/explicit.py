"""Calls with every option in their signature, and in the text that ``help()`` shows.

Each is made when it is first asked for, of its declarations.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import MISSING
from functools import cache, partial
from typing import Any, Final

from dataprep.api import calls
from dataprep.api import options as tables
from dataprep.api.parameters import Options
from dataprep.options import Option, StrPath, written
from dataprep.plugins import dataset_class

DATASETS: Final = ("imagenet", "chestxray14", "folder", "shards")
_OTHERS: Final = ("convert", "select", "compact", "stage")
NAMES: Final = (*DATASETS, *_OTHERS)
_LEADING: Final = {"raw", "out", "source", "sources"}


class _Plain(str):
    """An annotation that is shown without quotes."""

    __slots__ = ()

    __repr__ = str.__str__


@cache
def function(name: str) -> Callable[..., Any]:
    """One of `NAMES`."""
    if name in DATASETS:
        kind = dataset_class(name)
        summary = inspect.cleandoc(kind.summary)
        run: Callable[..., Any] = partial(calls.prepare, name)
        return _explicit(name, run, calls.prepare, tables.prepare_options(kind), summary)
    run = getattr(calls, name)
    return _explicit(name, run, run, getattr(tables, f"{name}_options")(), "")


def _explicit(
    name: str, run: Callable[..., Any], told: Callable[..., Any], options: Options, summary: str
) -> Callable[..., Any]:
    """What runs a function that has ``**options``, with each of them in its signature.

    Args:
        told: has its docstring and its signature, perhaps with ``dataset``.
        summary: instead of the first paragraph of the docstring.
    """

    def call(*places: Any, **given: Any) -> Any:
        return run(*places, **given)

    taken = [it for it in inspect.signature(told).parameters.values() if it.name != "dataset"]
    first = [_parameter(it) for it in taken if it.name in _LEADING]
    last = [_parameter(it) for it in taken if it.kind is it.KEYWORD_ONLY]
    known = {it.name for it in first}
    own = [it for it in options.table if it.name not in known]
    result = _Plain(str(inspect.signature(told).return_annotation))
    every = [*first, *(_keyword(it) for it in own), *last]
    vars(call)["__signature__"] = inspect.Signature(every, return_annotation=result)
    call.__name__ = call.__qualname__ = name
    call.__module__ = "dataprep"
    call.__annotations__ = {it.name: it.annotation for it in every} | {"return": result}
    call.__doc__ = _text(str(told.__doc__), own, summary)
    return call


def _parameter(found: inspect.Parameter) -> inspect.Parameter:
    """As it is declared; RAW and OUT have no default, whatever messages need."""
    text = str(found.annotation)
    if found.name in _LEADING:
        text = text.removesuffix(" | None")
        found = found.replace(default=found.empty)
    return found.replace(annotation=_Plain(text))


def _keyword(option: Option) -> inspect.Parameter:
    text = re.sub(r"\b(typing|collections\.abc|fractions)\.", "", _type(option.takes))
    default: Any = inspect.Parameter.empty
    if option.default is not MISSING:
        default = option.default
        text += " | None" * (default is None)
        if not isinstance(default, bool | int | float | str | None):
            default = written(default) if default or default == 0 else None
            text += " | None" * (default is None)
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=_Plain(text)
    )


def _type(hint: Any) -> str:
    text = inspect.formatannotation(hint)
    return text.replace(inspect.formatannotation(StrPath), "StrPath")


def _text(told: str, options: Sequence[Option], summary: str) -> str:
    """A docstring with each option among its arguments."""
    lines = inspect.cleandoc(told)
    head, _, rest = lines.partition("\nArgs:\n")
    args, _, raises = rest.partition("\n\n")
    if summary:
        head = f"{summary}\n{head.partition(chr(10))[2]}"
    args = re.sub(r"    (dataset|options): .*\n(?:     .*\n)*", "", f"{args}\n")
    first, last = re.split(r"(?=^    progress: )", args, maxsplit=1, flags=re.MULTILINE)
    own = "".join(
        textwrap.fill(
            f"{it.name}: {it.help}",
            88,
            initial_indent=" " * 4,
            subsequent_indent=" " * 8,
            break_long_words=False,
            break_on_hyphens=False,
        )
        + "\n"
        for it in options
    )
    return f"{head}\nArgs:\n{first}{own}{last}\n{raises}\n"
