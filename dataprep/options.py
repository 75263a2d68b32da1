"""Options: a field of a frozen dataclass each, with its default and its help beside it.

All else is derived from that: the command line and its help, the signature of the Python call, the
pages of docs/, the recipe in the manifest, what makes another job of one.
"""

from __future__ import annotations

import os
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from dataprep.errors import UsageError
from dataprep.system.messages import printable, sized
from dataprep.system.shares import read_share, share_text

StrPath = str | os.PathLike[str]

_KEY: Final = "option"  # in a field's metadata
_SCALES: Final = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_BINARY: Final = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
_KNOWN: Final[dict[type[Any], tuple[Option, ...]]] = {}
_Group = TypeVar("_Group")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What is declared of an option; see `option`.

    Attributes:
        field: its name in the group.
        name: for users; on the command line with dashes before it.
        type: of its value, without None.
        default: the value if nobody gives one; `MISSING`: it must be given.
    """

    field: str
    name: str
    type: Any
    default: Any
    help: str
    metavar: str = ""
    section: str = "Input"
    rare: bool = False
    also: str = ""
    parse: Callable[[Any], Any] | None = None
    least: int | None = None
    most: int | None = None
    place: Literal["", "file", "directory", "any"] = ""
    exists: bool = False
    utf8: bool = False
    repeated: bool = False
    bare: str | None = None
    shown: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """On the command line."""
        return tuple(f"--{name}" for name in (self.name, self.also) if name)

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is MISSING

    @property
    def words(self) -> tuple[str, ...]:
        """The only values there are; empty if there are others."""
        return get_args(self.type) if get_origin(self.type) is Literal else ()

    @property
    def placeholder(self) -> str:
        """What stands for its value in the help."""
        return self.metavar or (f"[{'|'.join(self.words)}]" if self.words else "TEXT")

    @property
    def takes(self) -> Any:
        """The type of what Python callers may give, without None."""
        if self.parse is not None:
            return next(iter(get_type_hints(self.parse).values()))
        return StrPath if self.type is Path else self.type

    def read(self, value: object) -> Any:
        """The value of what a user gave: text of the command line, or what `takes` says.

        Raises:
            UsageError: it cannot have this value.
        """
        try:
            return self._value(value)
        except (ValueError, UsageError) as error:
            hint = " / ".join(f"'{name}'" for name in self.names)
            said = " ".join(str(error).split())
            raise UsageError(f"{hint}: {said}") from error

    def _value(self, value: Any) -> Any:
        expected = "True or False" if self.type is bool else self.placeholder
        other = ValueError(f"{value!r} of type {type(value).__name__}, expected {expected}")
        if isinstance(value, bool) != (self.type is bool):
            raise other
        if self.parse is not None:
            try:
                return self.parse(value)
            except (TypeError, AttributeError):
                raise other from None
        if self.words:
            if value not in self.words:
                raise ValueError(f"{value!r} is not one of {', '.join(map(repr, self.words))}.")
        elif self.type is Path:
            if not isinstance(value, str | os.PathLike) or not os.fspath(value):
                raise other
            return self._path(Path(value))
        elif self.type in (int, float):
            return self._number(value, other)
        elif not isinstance(value, self.type):
            raise other
        return value

    def _number(self, value: Any, other: ValueError) -> int | float:
        if not isinstance(value, str | int | self.type):
            raise other
        try:
            number: int | float = self.type(value)
        except ValueError:
            kind = "integer" if self.type is int else "float"
            raise ValueError(f"{value!r} is not a valid {kind}.") from None
        least, most = self.least, self.most
        if not (least is None or number >= least) or not (most is None or number <= most):
            before = "" if least is None else f"{least}<="
            behind = "" if most is None else f"<={most}"
            bounds = f"{before}x{behind}" if most is not None else f"x>={least}"
            raise ValueError(f"{number} is not in the range {bounds}.")
        return number

    def _path(self, path: Path) -> Path:
        """Absolute, because workers need not have this process's working directory."""
        kind = {"file": "File", "directory": "Directory"}.get(self.place, "Path")
        if self.exists and not path.exists():
            raise ValueError(f"{kind} {str(path)!r} does not exist.")
        if self.place == "file" and path.is_dir():
            raise ValueError(f"File {str(path)!r} is a directory.")
        if self.place == "directory" and path.exists() and not path.is_dir():
            raise ValueError(f"Directory {str(path)!r} is a file.")
        path = path.absolute()
        if self.utf8 and any(0xDC80 <= ord(each) <= 0xDCFF for each in str(path)):
            raise ValueError(
                f"{printable(str(path))} is not UTF-8, and the libraries of Parquet, LMDB and HDF5 "
                "cannot write there; choose or rename a directory"
            )
        return path


def option(help: str, default: Any = MISSING, **said: Any) -> Any:  # noqa: A002  # what it is
    """A field that is an option.

    Its type says what values there are: a `Literal` of words, a `Path`, a number, a bool, which is
    a flag, or what `parse` makes of what users give, whose own annotation says what that may be; a
    class with a method `parse` needs none.

    Args:
        help: for ``--help`` and all else.
        default: None if it then has none; without it, the option must be given.
        said: ``metavar``; ``least`` and ``most``; ``place``, of a path, whether it ``exists`` and
            must be ``utf8``; ``rare``, if only ``--help-all`` shows it; ``repeated`` on the
            command line; ``bare``, the value if it is given without one there; ``also``, another
            name there; ``name``, if it is not the field's; ``section`` of the help; ``shown``
            False, if the help says the default.
    """
    metadata = {_KEY: {"help": help, "default": default, **said}}
    if isinstance(default, dict):
        return field(default_factory=lambda: default, metadata=metadata)
    return field(default=default, metadata=metadata)


def like(group: type, field_name: str, /, **said: Any) -> Any:
    """A field that is an option of another group too, as it is there but for what is said here."""
    there = next(each for each in fields(group) if each.name == field_name)
    told = {**there.metadata[_KEY], **said}
    return option(told.pop("help"), told.pop("default"), **told)


def options_of(group: type[Any]) -> tuple[Option, ...]:
    """What is declared in a group and its bases, in order.

    The class in which a field stands may have a `section`.
    """
    if (known := _KNOWN.get(group)) is not None:
        return known
    hints, found = get_type_hints(group), []
    for each in fields(group):
        if _KEY not in each.metadata:
            continue
        said = dict(each.metadata[_KEY])
        owner = next(it for it in group.__mro__ if each.name in vars(it).get("__annotations__", ()))
        kind = _without_none(hints[each.name])
        if "parse" not in said and isinstance(kind, type):
            said["parse"] = getattr(kind, "parse", None)
        section = said.pop("section", vars(owner).get("section", "Input"))
        name = said.pop("name", each.name)
        found.append(Option(field=each.name, name=name, type=kind, section=section, **said))
    return _KNOWN.setdefault(group, tuple(found))


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        kept = [each for each in get_args(hint) if each is not type(None)]
        return kept[0] if len(kept) == 1 else Union[tuple(kept)]  # noqa: UP007  # made here
    return hint


def built(group: type[_Group], values: Mapping[str, Any], **more: Any) -> _Group:
    """A group, of values by the names of options, and of what is no option of it."""
    return group(**{each.field: values[each.name] for each in options_of(group)}, **more)


def stated(group: object) -> dict[str, Any]:
    """What is said in a group of options, by their names; nothing of those without a value."""
    values = {each.name: getattr(group, each.field) for each in options_of(type(group))}
    return {name: value for name, value in values.items() if value not in (None, False, "", ())}


def read(group: type[_Group], given: Mapping[str, object], whose: str) -> _Group:
    """A group of what was given by name; None is as good as nothing.

    Args:
        whose: options they are, for messages.

    Raises:
        UsageError: there is no such option, it cannot have this value, or it is missing.
    """
    known = {each.name: each for each in options_of(group)}
    if unknown := given.keys() - known.keys():
        listed = ", ".join(known) or "none"
        raise UsageError(f"{whose} has no option {min(unknown)!r}; it has: {listed}")
    values = {name: each.default for name, each in known.items()}
    for name, value in given.items():
        if value is not None and value != values[name]:
            values[name] = known[name].read(value)
    return built(group, values)


def written(value: object) -> str:
    """A value as a user would write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Fraction):
        return share_text(value)
    if isinstance(value, Mapping):
        return ",".join(f"{name}={written(each)}" for name, each in value.items())
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


# --- how values are read that are more than a word, a number or a path ---


def names(value: str | Sequence[str]) -> tuple[str, ...]:
    """Names, with commas between them if it is text."""
    found = value.split(",") if isinstance(value, str) else [*value]
    if not all(isinstance(name, str) for name in found):
        raise ValueError(f"{value!r}: expected names such as train,validation")
    return tuple(name for name in map(str.strip, found) if name)


def paths(value: StrPath | Sequence[StrPath]) -> tuple[Path, ...]:
    """Files that must be there, with commas between them if it is text."""
    if isinstance(value, str | os.PathLike):
        value = value.split(",") if isinstance(value, str) else [value]
    found = [Path(each) for each in value]
    if missing := [path for path in found if not path.is_file()]:
        raise ValueError(f"File {str(missing[0])!r} does not exist.")
    return tuple(path.absolute() for path in found)


def assignments(value: str | Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """``NAME=VALUE``, each name once."""
    if isinstance(value, Mapping):
        value = [f"{name}={text}" for name, text in value.items()]
    found: dict[str, str] = {}
    for text in [value] if isinstance(value, str) else value:
        name, equals, rest = text.partition("=")
        if not equals or not name or name in found:
            raise ValueError(f"{text!r}: expected NAME=VALUE, each name once")
        found[name] = rest
    return found


def byte_size(value: int | str, least: int = 1) -> int:
    """A number of bytes as people write it: ``150MB``, ``4MiB``; a plain number in Python."""
    text = str(value).strip()
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]i?|)B?", text)
    size = int(float(found[1]) * (_SCALES | _BINARY)[found[2]]) if found else 0
    if size < 1:
        raise ValueError(f"{text!r}: expected a size such as 500MB, 4MiB or 42GB")
    if size < least:
        raise ValueError(f"{text!r}: expected {sized(least)} or more, e.g. 500MB")
    return size


def rate(value: int | str) -> int:
    """Bytes a second; below 100 KB, a forgotten unit is likelier than the wish."""
    return byte_size(value, 100_000)


def share(value: float | str | Fraction) -> Fraction:
    """A share of all, exactly: ``0.1``, ``10%`` or ``1/10``."""
    return _share(value, "a share such as 0.1 or 10%")


def part(value: float | str | Fraction) -> int | Fraction:
    """A number from 1 on, or a share of all as people write it: ``10%`` or ``1/10``."""
    text = str(value).strip()
    if re.fullmatch(r"0*[1-9]\d{0,17}", text, re.ASCII):
        return int(text)
    return _share(value, "a number such as 1000, or a share such as 10%")


def _share(value: object, expected: str) -> Fraction:
    try:
        found = read_share(value)
    except ValueError:
        found = Fraction(0)
    if not found:
        raise ValueError(f"{str(value).strip()!r}: expected {expected}")
    return found


FILE: Final[Mapping[str, Any]] = {"metavar": "FILE", "place": "file", "exists": True}
"""Of the declaration of a file that must be there."""

EVERY_SPLIT: Final = "*"
"""In `counts`: the count of every split that is not named."""


def counts(value: int | str | Mapping[str, int]) -> dict[str, int]:
    """``train=1024,validation=128``, or one number for every split."""
    text = written(value) if isinstance(value, Mapping) else str(value).strip()
    items = [f"{EVERY_SPLIT}={text}"] if text.isdecimal() else text.split(",")
    found = [re.fullmatch(r"\s*([^=]+)=0*([1-9]\d*)\s*", item, re.ASCII) for item in items]
    known = {match[1]: int(match[2]) for match in found if match}
    if len(known) < len(items):
        raise ValueError(
            f"{text!r}: expected SPLIT=COUNT once a split, such as train=1024,validation=128, or "
            "one number for every split"
        )
    return known
