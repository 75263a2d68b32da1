"""Types of option values, and the nearest name to a wrong one: for the commands and for Python."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from dataprep.errors import UsageError
from dataprep.system.messages import sized

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_SCALES = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_BINARY = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}

# What other tools call what is called otherwise here.
_SYNONYMS: Mapping[str, str] = {
    "raw": "in input source src",
    "out": "destination dest dir dst output target",
    "to": "destination dest dir dst output target",
    "sink": "format type",
    "num_shards": "batch",
    "resize": "height image_size max_size size width",
    "center_crop": "crop",
    "filter": "interpolation resampling",
    "quality": "compression",
    "color": "grayscale greyscale",
    "seed": "random",
    "limit": "max_images",
    "overwrite": "force",
    "workers": "cores jobs processes threads",
    "listing": "csv labels",
    "bbox_csv": "boxes",
    "dask_client_address": "scheduler",
    "replicas": "copies",
    # commands
    "imagenet": "ilsvrc prepare",
    "chestxray14": "cxr nih",
    "folder": "cifar directory imagefolder images",
    "verify": "check test validate",
    "inspect": "info show",
    "diff": "compare",
    "stage": "copy",
    "sinks": "formats list",
    "status": "progress",
    "stripe": "lustre",
    "hook": "sbatch slurm",
}


def options(*chosen: Callable[[Decorated], Decorated]) -> Callable[[Decorated], Decorated]:
    """Several options as one decorator, shown in this order."""

    def decorate(function: Decorated) -> Decorated:
        for option in reversed(chosen):
            function = option(function)
        return function

    return decorate


def parameters_of(decorate: Callable[[Any], Any]) -> list[click.Parameter]:
    """The parameters that a decorator made of `click.option` gives a function."""

    def probe() -> None:
        """Takes them."""

    decorate(probe)
    return list(reversed(probe.__click_params__))  # type: ignore[attr-defined]  # click's mark


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The name that was probably meant: a synonym, one that shares a word, or one spelled alike."""
    known = {name.replace("-", "_"): name for name in names}
    asked = word.strip("-").replace("-", "_").lower()
    for name in known:
        if asked in _SYNONYMS.get(name, "").split():
            return known[name]
    alike = difflib.get_close_matches(asked, known, n=1, cutoff=0.75)
    parts = {part.rstrip("s") for part in asked.split("_") if len(part) > 2}
    alike = alike or difflib.get_close_matches(
        asked,
        [name for name in known if parts & {part.rstrip("s") for part in name.split("_")}],
        n=1,
        cutoff=0.0,
    )
    alike = alike or difflib.get_close_matches(asked, known, n=1, cutoff=0.6)
    return known[alike[0]] if alike else None


class ByteSize(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """A number of bytes as people write it: ``150MB``, ``4MiB``; a plain number in Python.

    Args:
        least: bytes that make sense.
    """

    name = "size"

    def __init__(self, least: int = 1) -> None:
        self._least = least

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Parse one."""
        try:
            return self.parse(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)

    def parse(self, text: str) -> int:
        """The bytes that ``500MB`` and the like are.

        Raises:
            UsageError: it is no size, or too small a one.
        """
        text = text.strip()
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]i?|)B?", text)
        size = int(float(found[1]) * (_SCALES | _BINARY)[found[2]]) if found else 0
        if size < 1:
            raise UsageError(f"{text!r}: expected a size such as 500MB, 4MiB or 42GB.")
        if size < self._least:
            raise UsageError(f"{text!r}: expected {sized(self._least)} or more, e.g. 500MB.")
        return size


class GivenPath(click.Path):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.5
    """Like `click.Path`, but not the current directory for want of a name."""

    def __init__(
        self, *, file_okay: bool = True, dir_okay: bool = True, resolve: bool = False
    ) -> None:
        super().__init__(
            path_type=Path, file_okay=file_okay, dir_okay=dir_okay, resolve_path=resolve
        )

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | os.PathLike[str]:
        """Check one.

        Raises:
            UsageError: it is empty: a variable that was not set.
        """
        if value == "":
            raise UsageError(f"{_name(param)} is empty; is a variable not set?")
        return super().convert(value, param, ctx)


def _name(param: click.Parameter | None) -> str:
    if isinstance(param, click.Argument):
        return (param.metavar or param.opts[0]).strip("[]")
    return "a path" if param is None else param.opts[0]


class Names(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """Names with commas between them; in Python a sequence does as well."""

    name = "names"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Parse them."""
        given = value.split(",") if isinstance(value, str) else value
        if not isinstance(given, Sequence):
            self.fail(f"{value!r}: expected names such as train,validation.", param, ctx)
        return tuple(name for name in (str(word).strip() for word in given) if name)


class ShardCounts(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since 8.2
    """``train=1024,validation=128``, or one number for every split; in Python a dict as well."""

    name = "counts"

    def convert(
        self,
        value: object,
        param: click.Parameter | None,  # noqa: ARG002  # click's signature
        ctx: click.Context | None,  # noqa: ARG002  # likewise
    ) -> dict[str, int]:
        """Parse them.

        Raises:
            UsageError: they are neither.
        """
        from dataprep.build.request import EVERY_SPLIT

        text = (
            ",".join(f"{name}={count}" for name, count in value.items())
            if isinstance(value, Mapping)
            else str(value).strip()
        )
        if text.isdecimal() and int(text) > 0:
            return {EVERY_SPLIT: int(text)}
        counts: dict[str, int] = {}
        for item in text.split(","):
            name, equals, count = item.strip().partition("=")
            if not equals or not count.isdecimal() or int(count) < 1 or name in counts:
                raise UsageError(
                    f"--num_shards {text!r}: expected SPLIT=COUNT once a split, "
                    "such as train=1024,validation=128, or one number for every split"
                )
            counts[name] = int(count)
        return counts
