"""A list of classes that fixes their order, so that part of a data set keeps the whole's labels.

One class a line, in the order of the labels. What may follow is the class's name
(``n01440764 tench``) or its number, as in Places-365's ``/a/airfield 0``.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from dataprep.errors import SourceError
from dataprep.wording import counted, printable, unreadable

_NUMBER: Final = re.compile(r"[0-9]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class ClassList:
    """The classes of a data set, in the order of their labels.

    Attributes:
        place: what messages call the list.
        classes: (identifier, name), by 0-based index.
        indices: the index of each identifier and, where the list gives numbers, of each number
            as text: a listing may use either.
        sha256: of the file.
    """

    place: str
    classes: tuple[tuple[str, str], ...]
    indices: dict[str, int]
    sha256: str


def load_class_list(path: Path) -> ClassList:
    """Read a list of classes; a second time only if it has changed.

    Raises:
        SourceError: it is unreadable or empty, names a class twice, or has numbers that are not
            0, 1, 2, … in some order.
    """
    try:
        status = path.stat()
        return _load(path, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise unreadable(str(path), error) from error


def numbers_in_order(found: Iterable[str]) -> list[str]:
    """Class identifiers by name; by value if all are whole numbers, so that 10 comes after 9."""
    names = sorted(found)
    if all(_NUMBER.fullmatch(name) for name in names):
        # Compared as text of equal length: int() refuses thousands of digits.
        names.sort(key=lambda name: (len(name.lstrip("0")), name.lstrip("0")))
    return names


@lru_cache(maxsize=4)
def _load(path: Path, _size: int, _modified: int) -> ClassList:
    content = path.read_bytes()
    place = printable(os.fspath(path))
    text = content.decode("utf-8-sig", "surrogateescape")
    lines = [line.strip() for line in text.split("\n")]
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line]
    if not numbered:
        raise SourceError(f"{place} is empty; expected one class a line")
    pairs = _pairs([line for _, line in numbered])
    _require_unique(place, pairs, [number for number, _ in numbered])
    ordered, numbers = _ordered(place, pairs)
    indices = {identifier: index for index, (identifier, _) in enumerate(ordered)}
    for index, number in enumerate(numbers):
        indices.setdefault(number, index)
    return ClassList(place, tuple(ordered), indices, hashlib.sha256(content).hexdigest())


def _pairs(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Each line's class and what follows it, which may be nothing."""
    if any("\t" in line for line in lines):
        parts = [line.partition("\t")[::2] for line in lines]
    elif all(_NUMBER.fullmatch(line.rpartition(" ")[2]) and " " in line for line in lines):
        parts = [line.rpartition(" ")[::2] for line in lines]
    else:
        parts = [line.partition(" ")[::2] for line in lines]
    return [(identifier.strip().strip("/"), rest.strip()) for identifier, rest in parts]


def _require_unique(place: str, pairs: Sequence[tuple[str, str]], lines: Sequence[int]) -> None:
    first: dict[str, int] = {}
    for (identifier, _), line in zip(pairs, lines, strict=True):
        if not identifier:
            raise SourceError(f"{place}, line {line}: no class; expected one class a line")
        if identifier in first:
            raise SourceError(
                f"{place}, line {line}: class {printable(identifier)} is already on line "
                f"{first[identifier]}; expected each class once; remove one of them"
            )
        first[identifier] = line


def _ordered(
    place: str, pairs: Sequence[tuple[str, str]]
) -> tuple[list[tuple[str, str]], list[str]]:
    """The classes as (identifier, name) in the order of their labels, and their numbers if any."""
    if not all(_NUMBER.fullmatch(rest) for _, rest in pairs):
        return [(identifier, rest or identifier) for identifier, rest in pairs], []
    ordered = sorted(pairs, key=lambda pair: (len(pair[1]), pair[1]))
    numbers = [number for _, number in ordered]
    if numbers != [str(index) for index in range(len(ordered))]:
        raise SourceError(
            f"{place} has {counted(len(ordered), 'class number')} that are not 0 to "
            f"{len(ordered) - 1}, each once; correct them, or leave the numbers out: then the "
            "order of the lines counts"
        )
    return [(identifier, identifier) for identifier, _ in ordered], numbers
