"""No leak: the images of a patient, or of whatever else a group is, are all in one split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from dataprep.assembly.split_index import SplitIndex
from dataprep.errors import SourceError
from dataprep.index import Row
from dataprep.keys import KEY_HASH
from dataprep.wording import printable

_MOST_NAMED = 3

Hashes = npt.NDArray[Any]


def check_groups(splits: Mapping[str, SplitIndex], word: str) -> None:
    """Refuse splits that share a group.

    Args:
        splits: every split's rows, by its name.
        word: what a group is: ``patient``.

    Raises:
        SourceError: a group is in two splits; the first few are named, with an image of each split.
    """
    present = {split: _distinct(index) for split, index in splits.items()}
    shared = [
        np.intersect1d(one, other, assume_unique=True)
        for one, other in combinations(present.values(), 2)
    ]
    leaks = np.unique(np.concatenate(shared)) if shared else _none()
    if not len(leaks):
        return
    named = [_describe(place, word) for place in _first_places(splits, leaks)]
    if (more := len(leaks) - len(named)) > 0:
        named.append(f"and {more:,} more")
    raise SourceError(
        f"{', '.join(named)}; a {word} must be in one split only: give all images of a {word} "
        "the same split, or let dataprep make the splits, and run again"
    )


def _none() -> Hashes:
    return np.empty(0, dtype=KEY_HASH)


def _distinct(index: SplitIndex) -> Hashes:
    """The groups of a split."""
    if index.groups is None:
        return _none()
    found: Hashes = np.unique(index.groups)
    grouped: Hashes = found[found != np.zeros((), dtype=KEY_HASH)]
    return grouped


Place = dict[str, Row]
"""One image of a group in every split that has the group."""


def _first_places(splits: Mapping[str, SplitIndex], leaks: Hashes) -> Iterator[Place]:
    """Those of the groups whose images come first, the same on every machine."""
    positions: dict[bytes, dict[str, int]] = {}
    for split, index in splits.items():
        if index.groups is None:
            continue
        found, first = np.unique(index.groups, return_index=True)
        leaking = np.isin(found, leaks)
        members = zip(found[leaking].tolist(), first[leaking].tolist(), strict=True)
        for group, position in sorted(members, key=lambda member: member[1]):
            positions.setdefault(group, {})[split] = position
    for place in list(positions.values())[:_MOST_NAMED]:
        yield {
            split: Row.from_json(line)
            for split, position in place.items()
            for line in splits[split].lines([position])
        }


def _describe(place: Place, word: str) -> str:
    """``patient 10007 is in train (00010007_000.png) and test (00010007_003.png)``."""
    group = next(iter(place.values())).group
    *others, last = (f"{split} ({printable(row.key)})" for split, row in place.items())
    return f"{word} {printable(group)} is in {', '.join(others)} and {last}"
