"""A list of classes that fixes their order, so that part of a data set keeps the whole's labels.

One class a line, in the order of the labels. After a tab may follow its name or its number. In a
list without tabs a class may have spaces in it, ``apple pie``; only if every line ends in a space
and a number is that the class's number, as in Places-365's ``/a/airfield 0``.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final
from unicodedata import normalize

from dataprep.errors import SourceError
from dataprep.system.messages import counted, printable, unreadable

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

    def advice(self, unknown: Collection[str]) -> str:
        """Why classes that are not in the list may seem to be; empty if they do not."""
        for identifier, _ in self.classes:
            for name in unknown:
                if identifier.startswith(f"{name} "):
                    return (
                        f"; the list has {printable(identifier)}: what follows a class there needs "
                        "a TAB before it"
                    )
                if normalize("NFC", identifier) == normalize("NFC", name):
                    return (
                        f"; the list has it in another Unicode spelling, {identifier!a} "
                        f"instead of {name!a}"
                    )
        return ""


def load_class_list(path: Path) -> ClassList:
    """Read a list of classes; a second time only if it has changed.

    Raises:
        SourceError: it is unreadable, empty or not UTF-8, names a class twice, has numbers that
            are not 0, 1, 2, … in some order, or names a class like another one's number.
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


def require_distinct(names: Iterable[str]) -> None:
    """Refuse names that are one name in two Unicode spellings.

    macOS writes é as two characters, other systems as one.

    Raises:
        SourceError: two are the same in normal form NFC.
    """
    seen: dict[str, str] = {}
    for name in sorted(name for name in names if not name.isascii()):
        other = seen.setdefault(normalize("NFC", name), name)
        if other != name:
            raise SourceError(
                f"two classes have the same name in two Unicode spellings, {other!a} and "
                f"{name!a}; expected one; rename one, or what belongs to it, as the other "
                "(macOS writes NFD, other systems NFC)"
            )


@lru_cache(maxsize=4)
def _load(path: Path, _size: int, _modified: int) -> ClassList:
    content = path.read_bytes()
    place = printable(os.fspath(path))
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SourceError(f"{place}, line {line}: not UTF-8; save the list as UTF-8") from error
    if "\0" in text:
        raise SourceError(f"{place} is UTF-16 or no text; save it as UTF-8")
    lines = [line.strip() for line in io.StringIO(text, newline=None)]  # ends of any kind
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line]
    if not numbered:
        raise SourceError(f"{place} is empty; expected one class a line")
    pairs = _pairs([line for _, line in numbered], tabs="\t" in text)
    _require_unique(place, pairs, [number for number, _ in numbered])
    ordered, numbers = _ordered(place, pairs)
    if numbers:
        _require_clear(place, pairs, [number for number, _ in numbered])
    indices = {identifier: index for index, (identifier, _) in enumerate(ordered)}
    indices |= {number: index for index, number in enumerate(numbers)}
    return ClassList(place, tuple(ordered), indices, hashlib.sha256(content).hexdigest())


def _pairs(lines: Sequence[str], *, tabs: bool) -> list[tuple[str, str]]:
    """Each line's class and what follows it, which may be nothing.

    Args:
        lines: without blanks round them.
        tabs: whether the list has any, perhaps just at the end of a line.
    """
    if tabs:
        parts = [line.partition("\t")[::2] for line in lines]
    elif all(" " in line and _is_number(line.rpartition(" ")[2]) for line in lines):
        parts = [line.rpartition(" ")[::2] for line in lines]
    else:
        parts = [(line, "") for line in lines]
    return [(identifier.strip().strip("/"), rest.strip()) for identifier, rest in parts]


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def _require_unique(place: str, pairs: Sequence[tuple[str, str]], lines: Sequence[int]) -> None:
    first: dict[str, int] = {}
    for (identifier, rest), line in zip(pairs, lines, strict=True):
        if not identifier:
            raise SourceError(f"{place}, line {line}: no class; expected one class a line")
        if identifier in first:
            advice = f"; if {rest} is part of the name, put a TAB after it"
            raise SourceError(
                f"{place}, line {line}: class {printable(identifier)} is already on line "
                f"{first[identifier]}; expected each class once; remove one of them"
                f"{advice if _is_number(rest) else ''}"
            )
        first[identifier] = line


def _require_clear(place: str, pairs: Sequence[tuple[str, str]], lines: Sequence[int]) -> None:
    """Refuse a class that is called like another's number: a label could be either."""
    owners = {number: line for (_, number), line in zip(pairs, lines, strict=True)}
    for (identifier, number), line in zip(pairs, lines, strict=True):
        if identifier in owners and identifier != number:
            raise SourceError(
                f"{place}, line {line}: class {identifier} is called like the number of the class "
                f"on line {owners[identifier]}, so that a label {identifier} could be either; "
                "correct the list, or leave the numbers out: then the order of the lines counts"
            )


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
            "order of the lines counts; if they are part of the names, put a TAB after each"
        )
    return [(identifier, identifier) for identifier, _ in ordered], numbers
