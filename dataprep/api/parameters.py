"""What an option is: declared once, for the commands, the Python calls, the help and the docs."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from dataprep.errors import UsageError
from dataprep.system.messages import sized
from dataprep.system.shares import read_share, share_text

_SCALES = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_BINARY = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}

# What other tools call what is called otherwise here.
_SYNONYMS: Mapping[str, str] = {
    "raw": "input source src",
    "out": "destination dest dst output target",
    "to": "destination dest dst output target",
    "sink": "format",
    "resize": "height image_size size width",
    "center_crop": "crop",
    "seed": "random",
    "overwrite": "force",
    "workers": "cores jobs processes threads",
    "listing": "csv labels",
    # commands
    "folder": "imagefolder images",
    "verify": "check validate",
    "inspect": "info show",
    "diff": "compare",
    "stage": "copy",
    "hook": "sbatch slurm",
}


class Option(click.Option):
    """An option of a command, and a keyword of the Python call.

    Args:
        rare: whether only ``--help-all`` shows it.

    Attributes:
        section: of the help.
    """

    section = "Input"

    def __init__(self, *names: str, help_text: str, rare: bool = False, **settings: Any) -> None:
        # Not default=None: since click 8.3 that is a default like any other.
        if settings.get("default") is not None:
            settings.setdefault("show_default", True)
        elif not settings.get("is_flag"):
            settings.pop("default", None)
        super().__init__([*names, names[-1].removeprefix("--")], help=help_text, **settings)
        self.rare = rare


def option(name: str, help_text: str, *, also: str = "", **settings: Any) -> Option:
    """``--name``, and perhaps another name for it."""
    names = [f"--{also}", f"--{name}"] if also else [f"--{name}"]
    return Option(*names, help_text=help_text, **settings)


def flag(name: str, help_text: str, **settings: Any) -> Option:
    """``--name``, without a value."""
    return option(name, help_text, is_flag=True, **settings)


def choice(
    name: str, choices: Sequence[str], default: str | None, help_text: str, **settings: Any
) -> Option:
    """One of several words."""
    return option(name, help_text, type=click.Choice(choices), default=default, **settings)


def number(name: str, metavar: str, help_text: str, least: int = 1, **settings: Any) -> Option:
    """A whole number."""
    return option(name, help_text, type=click.IntRange(min=least), metavar=metavar, **settings)


def directory(name: str, metavar: str, help_text: str, **settings: Any) -> Option:
    """A place, which need not be there yet."""
    kind = click.Path(path_type=Path, file_okay=False)
    return option(name, help_text, metavar=metavar, **{"type": kind, **settings})


def in_section(title: str, options: Iterable[Option]) -> list[Option]:
    """The options, shown under a title of the help."""
    found = list(options)
    for one in found:
        one.section = title
    return found


def resolve(
    call: str, table: Sequence[click.Option], given: Mapping[str, object]
) -> dict[str, Any]:
    """The value of every option: what was given, converted and checked, or its default.

    Args:
        given: by any of an option's names; None is as good as nothing.

    Raises:
        UsageError: there is no such option, it cannot have this value, or one is missing.
    """
    by_name = {name.lstrip("-"): option for option in table for name in option.opts}
    chosen: dict[str, object] = {}
    for name, value in given.items():
        if name not in by_name:
            raise UsageError(f"{call} has no option {name!r}{meant(name, by_name)}")
        own = str(by_name[name].name)
        if value is not None and chosen.setdefault(own, value) is not value:
            raise UsageError(f"{call} got {' and '.join(by_name[name].opts)}, which are the same")
    context = click.Context(click.Command(call))
    try:
        return {str(option.name): _value(option, chosen, context) for option in table}
    except click.ClickException as error:
        raise UsageError(f"{call}: {' '.join(error.format_message().split())}") from error


def _value(option: click.Option, chosen: Mapping[str, object], context: click.Context) -> object:
    if option.name in chosen:
        value = chosen[option.name]
        # A number would be taken for an open file, nothing for the current directory, 1.7 for 1.
        wrong = isinstance(value, bool) != option.is_flag
        if isinstance(option.type, click.Path):
            wrong = wrong or not isinstance(value, (str, os.PathLike)) or not os.fspath(value)
        elif isinstance(option.type, click.types.IntParamType):
            wrong = wrong or isinstance(value, float)
        try:
            if not wrong:
                return option.process_value(context, _words(option, value))
        except (TypeError, ValueError, AttributeError):
            pass
        expected = "True or False" if option.is_flag else option.metavar or option.type.name
        found = f"{value!r} of type {type(value).__name__}"
        raise click.BadParameter(f"{found}, expected {expected}", context, option)
    if option.required:
        raise click.MissingParameter(ctx=context, param=option)
    value = option.get_default(context)
    # Since click 8.3 there is a mark of its own for no default.
    if value is None or type(value).__name__ == "Sentinel":
        return () if option.multiple else False if option.is_flag else None
    return option.type_cast_value(context, value)


def _words(option: click.Option, value: object) -> object:
    """A value as click takes it: a list if the option may be repeated, else commas between."""
    if isinstance(value, Mapping):
        value = [f"{name}={text}" for name, text in value.items()]
    if option.multiple:
        return [value] if isinstance(value, str) else value
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else value


def meant(word: str, names: Iterable[str]) -> str:
    """``; did you mean …?`` with a synonym, or the name spelled most alike; or nothing."""
    known = {name.replace("-", "_"): name for name in names}
    asked = word.strip("-").replace("-", "_").lower()
    found = [name for name in known if asked in _SYNONYMS.get(name, "").split()]
    found = found or difflib.get_close_matches(asked, known, n=1)
    return f"; did you mean {known[found[0]]}?" if found else ""


class Parsed(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """A type whose values a function reads; what it refuses is said with the option's name."""

    def __init__(self, parse: Callable[[Any], Any]) -> None:
        self.name = "text"
        self.parse = parse

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        """Read one."""
        try:
            return self.parse(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)


def byte_size(least: int = 1) -> Parsed:
    """A number of bytes as people write it: ``150MB``, ``4MiB``; a plain number in Python."""

    def parse(value: object) -> int:
        text = str(value).strip()
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]i?|)B?", text)
        size = int(float(found[1]) * (_SCALES | _BINARY)[found[2]]) if found else 0
        if size < 1:
            raise UsageError(f"{text!r}: expected a size such as 500MB, 4MiB or 42GB")
        if size < least:
            raise UsageError(f"{text!r}: expected {sized(least)} or more, e.g. 500MB")
        return size

    return Parsed(parse)


def names(value: object) -> tuple[str, ...]:
    """Names with commas between them."""
    if not isinstance(value, str):
        raise UsageError(f"{value!r}: expected names such as train,validation")
    return tuple(name for name in map(str.strip, value.split(",")) if name)


def part(value: object) -> int | str:
    """A number from 1 on, or a share of all as people write it: ``10%``."""
    text = str(value).strip()
    if re.fullmatch(r"0*[1-9]\d{0,17}", text, re.ASCII):
        return int(text)
    return share_text(_share(text, "a number such as 1000, or a share such as 10%"))


def share_of(value: object) -> Fraction:
    """A share of all, exactly: ``0.1`` or ``10%``."""
    return _share(value, "a share such as 0.1 or 10%")


def _share(value: object, expected: str) -> Fraction:
    with suppress(ValueError):
        if share := read_share(value):
            return share
    raise UsageError(f"{str(value).strip()!r}: expected {expected}")


def shard_counts(value: object) -> dict[str, int]:
    """``train=1024,validation=128``, or one number for every split."""
    from dataprep.jobs.request import EVERY_SPLIT

    text = str(value).strip()
    items = [f"{EVERY_SPLIT}={text}"] if text.isdecimal() else text.split(",")
    found = [re.fullmatch(r"\s*([^=]+)=0*([1-9]\d*)\s*", item, re.ASCII) for item in items]
    counts = {match[1]: int(match[2]) for match in found if match}
    if len(counts) < len(items):
        raise UsageError(
            f"{text!r}: expected SPLIT=COUNT once a split, such as train=1024,validation=128, or "
            "one number for every split"
        )
    return counts


def stripes(*words: str) -> Parsed:
    """One of the words, or a number of stripes; -1 for all targets."""

    def parse(value: object) -> int | str:
        from dataprep.system.lustre import MOST_STRIPES

        text = str(value)
        if text in words:
            return text
        if not re.fullmatch(r"-1|[1-9]\d{0,3}", text, re.ASCII) or int(text) > MOST_STRIPES:
            choices = ", ".join(words)
            raise UsageError(
                f"{text!r} is none of {choices}, 1 to {MOST_STRIPES} and -1 (all targets)"
            )
        return int(text)

    return Parsed(parse)
