"""Splits: what they are called, and seeded cuts into them.

A cut is a pure function of the name of a group, so that no group is ever in two splits.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Final

from dataprep.system.messages import printable
from dataprep.system.shares import read_share
from dataprep.tables.cut import StratifiedCut

_USUAL: Final = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "validate": "validation",  # MIMIC-CXR-JPG's
    "test": "test",
    "testing": "test",
}
_NAME: Final = re.compile(r"[a-z0-9_-]+")

_DIGITS = 16  # hexadecimal, of a place
_PLACES = 1 << 4 * _DIGITS


SPLIT_FOLDERS: Final = ", ".join(_USUAL)  # the names that a split's folder may have, for messages
USUAL_ORDER: Final = ("train", "validation", "test")  # in which the splits are prepared and told


def in_usual_order(splits: Iterable[str]) -> tuple[str, ...]:
    """Names of splits: train, validation, test, then the others by name."""
    names = sorted(splits)
    usual = [split for split in USUAL_ORDER if split in names]
    return (*usual, *(split for split in names if split not in usual))


def split_of_folder(name: str) -> str:
    """The split that a folder of this name holds; empty if it is none of the usual names."""
    return _USUAL.get(name.lower(), "")


def is_held_out(split: str) -> bool:
    """Whether a split of this name is one to evaluate on: ``validation``, ``val2017``, ``dev``."""
    words = {_USUAL.get(word, word) for word in re.findall("[a-z]+", split.lower())}
    return bool(words & {"validation", "test", "dev", "eval"}) and "train" not in words


def split_in_name(name: str) -> str:
    """The one split that is a word of a name, ``train2017`` or ``seg_train``; empty without one."""
    splits = {split_of_folder(word) for word in re.findall(r"[a-z]+", name.lower())} - {""}
    return splits.pop() if len(splits) == 1 else ""


def split_name(text: str) -> str:
    """The name of a split as this project writes it: ``validation`` for ``Val``.

    Raises:
        ValueError: it has other characters than ``a-z``, ``0-9``, ``_`` and ``-``.
    """
    name = text.strip().lower()
    if not _NAME.fullmatch(name):
        raise ValueError("a split's name has the characters a-z, 0-9, _ and - only")
    return _USUAL.get(name, name)


@dataclass(frozen=True, slots=True)
class Cut:
    """How to cut one set of groups into splits.

    Every group has a fixed place, by its hash, from 0 to below 1. The share of validation is cut
    from the upper end, those of the others from the lower end, in their order. So changing the
    share of validation moves no group into or out of the other splits with shares, and changing
    theirs moves none into or out of validation: groups only come from `rest` and go to it.
    """

    # Another one, another cut. Not the seed of the shuffle: who is in the test split must not
    # change with the order of the training images.
    seed: int
    # (split, share of the groups); shares add up to at most 1.
    shares: tuple[tuple[str, Fraction], ...]
    rest: str  # the split of all other groups
    _ranges: tuple[tuple[str, int, int], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_ranges", tuple(_ranges(self.shares)))

    @property
    def splits(self) -> tuple[str, ...]:
        """Those it makes, in the usual order."""
        return in_usual_order({self.rest, *(split for split, _ in self.shares)})

    @property
    def stratified(self) -> StratifiedCut:
        """The same shares of each class; here, too, validation is at the upper end."""
        rest = Fraction(1) - sum(share for _, share in self.shares)
        shares = [*self.shares, (self.rest, rest)]
        shares.sort(key=lambda it: (it[0] == "validation", it[0] == self.rest, it[0]))
        return StratifiedCut(self.seed, tuple(shares))

    def split_of(self, group: str) -> str:
        """The split of a group, wherever and with whatever other groups it is found.

        A share is reached only on average, but adding or removing groups moves no other group.
        """
        place = _hash(self.seed, group)
        for split, begin, end in self._ranges:
            if begin <= place < end:
                return split
        return self.rest

    def split_sql(self, group: str) -> tuple[str, dict[str, str]]:
        """SQL for `split_of`, of an expression of text that is never null, and its parameters."""
        # Whole numbers in as many hexadecimal digits each compare as text.
        place = f"substr(sha256($seed || chr(0) || {group}), 1, {_DIGITS})"
        cases, values = "", {"rest": self.rest}
        for number, (split, begin, end) in enumerate(self._ranges):
            if begin < end:
                cases += f" when {place} between $begin{number} and $end{number} then $in{number}"
                values[f"begin{number}"] = f"{begin:0{_DIGITS}x}"
                values[f"end{number}"] = f"{end - 1:0{_DIGITS}x}"
                values[f"in{number}"] = split
        if not cases:
            return "$rest", values
        return f"case{cases} else $rest end", {"seed": str(self.seed), **values}


def parse_split(value: str) -> str:
    """The name of a split, as `split_name`; the message says what was given.

    Raises:
        ValueError: it can be none.
    """
    try:
        return split_name(value)
    except ValueError as error:
        raise ValueError(f"{printable(value)}: {error}") from error


def parse_share(value: float | str | Fraction) -> Fraction:
    """A share of the groups, ``0.1``, ``10%`` or ``1/10``, exactly.

    Raises:
        ValueError: it is no number from 0 to below 1.
    """
    try:
        share = read_share(value)
    except ValueError:
        share = Fraction(1)
    if share == 1:
        raise ValueError(
            f"{printable(str(value))}: expected a number from 0 to below 1, such as 0.1"
        )
    return share


def _ranges(shares: Sequence[tuple[str, Fraction]]) -> Iterator[tuple[str, int, int]]:
    """Each split's places, from a first one to before an end: whole numbers, which compare fast."""
    end = Fraction(0)
    for split, share in shares:
        if split == "validation":
            yield split, ceil((1 - share) * _PLACES), _PLACES
        else:
            begin, end = end, end + share
            yield split, ceil(begin * _PLACES), ceil(end * _PLACES)


def _hash(seed: int, group: str) -> int:
    text = f"{seed}\0{group}".encode("utf-8", "surrogateescape")
    return int(hashlib.sha256(text).hexdigest()[:_DIGITS], 16)
