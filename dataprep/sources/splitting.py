"""Seeded splits by group: a pure function of the group's name, so that no group straddles."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dataprep.errors import UsageError

_PERSON = b"dataprep.split.1"  # BLAKE2b's personalisation: a new rule would be a new version


@dataclass(frozen=True, slots=True)
class Cut:
    """How to cut one set of groups into splits.

    Attributes:
        seed: another one, another cut. Not the seed of the shuffle: who is in the test split must
            not change with the order of the training images.
        shares: (split, share of the groups); shares add up to at most 1.
        rest: the split of all other groups.
    """

    seed: int
    shares: tuple[tuple[str, Fraction], ...]
    rest: str

    def split_of(self, group: str) -> str:
        """The split of a group, wherever and with whatever other groups it is found.

        A share is reached only on average, but adding or removing groups moves no other group.
        """
        place = Fraction(_hash(self.seed, group), 1 << 64)
        for split, share in self.shares:
            if place < share:
                return split
            place -= share
        return self.rest


def parse_share(option: str, text: str) -> Fraction:
    """A share of the groups, ``0.1``, exactly.

    Raises:
        UsageError: it is no number from 0 to below 1.
    """
    try:
        share = Fraction(text)
    except (ValueError, ZeroDivisionError):
        share = Fraction(-1)
    if not 0 <= share < 1:
        raise UsageError(f"--{option} {text}: expected a number from 0 to below 1, such as 0.1")
    return share


def parse_seed(option: str, text: str) -> int:
    """A seed.

    Raises:
        UsageError: it is no whole number.
    """
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"--{option} {text}: expected a whole number, such as 0") from None


def check_shares(option: str, shares: Sequence[Fraction]) -> None:
    """Refuse shares that leave nothing over.

    Raises:
        UsageError: they add up to 1 or more.
    """
    if sum(shares) >= 1:
        raise UsageError(f"--{option}: the shares add up to {float(sum(shares)):g}, not below 1")


def _hash(seed: int, group: str) -> int:
    text = f"{seed}\0{group}".encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8, person=_PERSON).digest(), "big")
