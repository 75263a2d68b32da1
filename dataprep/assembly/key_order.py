"""The rows of many index parts in the order of all keys, without having them all in memory.

Every part is in key order. Parts that do not overlap, as class folders do not, follow one another
in a lane and only one of them is open; lanes are merged. If there are more lanes than files
may be open, some are merged into temporary files first.
"""

from __future__ import annotations

import heapq
import json
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from dataprep.assembly.index_parts import Section, read_header, read_lines
from dataprep.durable_files import partial_path
from dataprep.index import Row

MOST_OPEN = 128
"""How many lanes are merged at a time; each has one file open."""

_BLOCK = 4096

_DIGITS = b"0123456789"

# Half of what json.loads does to so short a text is to look for spaces around it.
_decode = json.JSONDecoder().raw_decode


class Entry(NamedTuple):
    """One row, read once.

    Attributes:
        key: the row's key.
        line: all of the row, with the newline.
        size: `Row.size`.
        labels: `Row.labels`.
        group: `Row.group`.
        facts: `Row.facts`.
    """

    key: str
    line: bytes
    size: int
    labels: tuple[int, ...]
    group: str
    facts: bytes


@contextmanager
def in_key_order(
    parts: Iterable[Path], split: str, *, scratch: Path, classes: Sequence[str] | None
) -> Iterator[Iterator[Entry]]:
    """The rows of a split, in key order; equal keys are neighbours.

    Args:
        parts: the index parts; those without rows of the split do not matter.
        split: its name.
        scratch: temporary files get names like this one, if more than `MOST_OPEN` parts have
            overlapping ranges of keys. They hold no row twice, or with many thousands of such
            parts no row three times.
        classes: every class of the data set, in the order of its index, where the labels of each
            part are indices into that part's own classes; they become indices into this. None
            where they already are indices into the data set's classes.
    """
    numbers = None if classes is None else {name: number for number, name in enumerate(classes)}
    with ExitStack() as stack:
        # Nothing is open before a lane's first row is asked for.
        lanes = [_read_parts(lane, split, numbers) for lane in _arrange(_ranges(parts, split))]
        yield _merge(_few_enough(lanes, scratch, stack))


@dataclass(frozen=True, slots=True)
class _Range:
    """The keys that a part has of a split."""

    first: str
    last: str
    path: Path


def _ranges(parts: Iterable[Path], split: str) -> Iterator[_Range]:
    for path in parts:
        section = read_header(path).sections.get(split)
        if section is not None and section.rows:
            first, last = _outer_lines(path, section)
            yield _Range(Row.from_json(first).key, Row.from_json(last).key, path)


def _outer_lines(path: Path, section: Section) -> tuple[bytes, bytes]:
    """The first and the last line of a section; those between are not read."""
    with path.open("rb") as file:
        file.readline()
        start = file.tell() + section.offset
        file.seek(start)
        first = file.readline()
        length = min(_BLOCK, section.size)
        while True:
            file.seek(start + section.size - length)
            tail = file.read(length)
            newline = tail.rfind(b"\n", 0, -1)
            if newline >= 0 or length == section.size:
                return first, tail[newline + 1 :]
            length = min(2 * length, section.size)


def _arrange(ranges: Iterable[_Range]) -> list[list[_Range]]:
    """As few lanes as possible in which each part ends before the next one starts."""
    lanes: list[list[_Range]] = []
    ends: list[tuple[str, int]] = []  # a heap: the last key of each lane, and which lane it is
    for part in sorted(ranges, key=lambda part: (part.first, part.last)):
        if ends and ends[0][0] < part.first:
            number = heapq.heappop(ends)[1]
        else:
            number = len(lanes)
            lanes.append([])
        lanes[number].append(part)
        heapq.heappush(ends, (part.last, number))
    return lanes


def _read_parts(
    parts: Iterable[_Range], split: str, numbers: Mapping[str, int] | None
) -> Iterator[Entry]:
    for part in parts:
        lines = read_lines(part.path, split)
        renumbered = _label_numbers(part.path, numbers)
        yield from map(_entry, lines if renumbered is None else _renumber(lines, renumbered))


def _label_numbers(path: Path, numbers: Mapping[str, int] | None) -> Sequence[int] | None:
    """What a part's own labels become; None if they stay.

    Only numbers are kept: every open part may have every class, and the names of 21,841 classes
    in 42 parts would be 60 MB.
    """
    own = None if numbers is None else read_header(path).classes
    if numbers is None or own is None:
        return None
    return array("i", [numbers[name] for name in own])


def _renumber(lines: Iterable[bytes], numbers: Sequence[int]) -> Iterator[bytes]:
    for line in lines:
        if _is_plain(line):
            start, _, end = line.rpartition(b",")
            yield b"%b,%d]\n" % (start, numbers[int(end[:-2])])
            continue
        row = Row.from_json(line)
        renumbered = replace(
            row,
            labels=tuple(sorted(numbers[label] for label in row.labels)),
            box_labels=tuple(numbers[label] for label in row.box_labels),
        )
        yield renumbered.to_json().encode() + b"\n"


def _is_plain(line: bytes) -> bool:
    """Whether a row has one label and nothing unusual, so that the label is its last field.

    All of ImageNet's fourteen million do. Such a row is read in half the time without a `Row`.
    """
    return line[-3] in _DIGITS  # otherwise it ends in a list or an object


def _entry(line: bytes) -> Entry:
    if _is_plain(line):
        key, _, _, size, _, label = _decode(line.decode())[0]
        facts = f"{key}\0{size}\0{label}\n".encode("utf-8", "surrogateescape")
        return Entry(key, line, size, (label,), "", facts)
    row = Row.from_json(line)
    return Entry(row.key, line, row.size, row.labels, row.group, row.facts())


def _merge(lanes: Sequence[Iterator[Entry]]) -> Iterator[Entry]:
    return lanes[0] if len(lanes) == 1 else heapq.merge(*lanes, key=itemgetter(0))


def _few_enough(
    lanes: Iterable[Iterator[Entry]], scratch: Path, stack: ExitStack
) -> list[Iterator[Entry]]:
    """Merge some of the lanes, until there are no more of them than may be open."""
    left = list(lanes)
    while len(left) > MOST_OPEN:
        count = min(MOST_OPEN, len(left) - MOST_OPEN + 1)
        path = partial_path(scratch)
        stack.callback(path.unlink, missing_ok=True)
        with path.open("xb") as file:
            file.writelines(entry.line for entry in _merge(left[:count]))
        left = [*left[count:], _read_merged(path)]
    return left


def _read_merged(path: Path) -> Iterator[Entry]:
    with path.open("rb") as file:
        yield from map(_entry, file)
