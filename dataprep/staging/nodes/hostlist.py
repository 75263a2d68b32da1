"""Slurm's compact lists of hosts: ``n[0-2,5],m-a[01-10]b`` and the names they stand for."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

_MOST_HOSTS = 1 << 16  # Slurm's own limit of a range (hostlist.h)
_ENTRY = re.compile(r"(?:[^\[\],\s]|\[[^\[\]]*\])+")
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")


def expand_hosts(text: str) -> list[str]:
    """Every host of a list, in its order, as ``scontrol show hostnames`` prints them.

    A number has at least as many digits as the one its range begins with. With several brackets
    in a name the last one counts fastest.

    Raises:
        ValueError: it is not such a list.
    """
    hosts = list(itertools.islice(_hosts(text), _MOST_HOSTS + 1))
    if len(hosts) > _MOST_HOSTS:
        raise ValueError(f"it stands for more than {_MOST_HOSTS:,} hosts")
    return hosts


def _hosts(text: str) -> Iterator[str]:
    position = 0
    while True:
        entry = _ENTRY.match(text, position)
        if entry is None:
            raise ValueError(f"no host name at character {position + 1}")
        yield from _expanded(entry[0])
        position = entry.end()
        if position == len(text):
            return
        if text[position] != ",":
            raise ValueError(f"unexpected {text[position]!r} at character {position + 1}")
        position += 1


def _expanded(entry: str) -> Iterator[str]:
    """Every name of one entry such as ``r[0-1]n[00-03]``."""
    literal, *rest = re.split(r"\[([^\[\]]*)\]", entry)
    if not rest:
        yield literal
        return
    numbers, tail = rest[0], entry[len(literal) + len(rest[0]) + 2 :]
    for number in _numbers(numbers):
        for end in _expanded(tail):
            yield f"{literal}{number}{end}"


def _numbers(text: str) -> Iterator[str]:
    """Every number of what is between brackets, such as ``0-2,5``."""
    for part in text.split(","):
        bounds = _RANGE.fullmatch(part)
        if bounds is None:
            raise ValueError(f"{part!r} is not a range of numbers")
        first, last = int(bounds[1]), int(bounds[2] or bounds[1])
        if last < first:
            raise ValueError(f"{part!r} goes backwards")
        for number in range(first, last + 1):
            yield str(number).zfill(len(bounds[1]))
