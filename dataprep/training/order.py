"""Which record comes at which position of an epoch: pure functions, computed where they are asked.

The order is one sequence for all ranks, which take turns in it; so it is the same for any number of
them. Each function answers for any positions, in memory that the positions take and, of some
orders, a few numbers a shard, a class or a record.

Permutations and random numbers are functions of a key and a position: any of them is computed
alone, in constant time and without a list. They are ours, with frozen vectors in the tests, since
numpy does not promise equal streams between its versions (NEP 19). Not for cryptography.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dataprep.errors import UsageError

Words: TypeAlias = NDArray[np.uint64]

_ROUNDS: Final = 8  # six mix a large table; of fewer than ten numbers they prefer some orders
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_HALF: Final = np.uint64(32)
MOST: Final = 2**52
"""Numbers that can be permuted: those of which a float of 64 bits has the square root."""

_LARGEST_SHARE: Final = 2**24  # times a position still fits into 64 bits


class Order(ABC):
    """The order of every epoch.

    Args:
        count: positions in an epoch; the first is 0.
        seed: any whole number.
        settings: what else it depends on, for the state of a sampler.
    """

    def __init__(self, count: int, seed: int, settings: dict[str, Any]) -> None:
        if count > MOST:
            raise UsageError(f"{count} examples, at most {MOST} can be shuffled")
        self.count = count
        self.seed = seed
        self.settings = settings

    @abstractmethod
    def numbers(self, epoch: int, positions: Words) -> NDArray[np.int64]:
        """The numbers of the records at some positions of an epoch."""


class InOrder(Order):
    """Every record once, as they were written."""

    def numbers(self, epoch: int, positions: Words) -> NDArray[np.int64]:  # noqa: ARG002
        """The positions themselves."""
        return positions.astype(np.int64)


class Shuffled(Order):
    """Every record once; any order of all of them, another in every epoch."""

    def numbers(self, epoch: int, positions: Words) -> NDArray[np.int64]:
        """A permutation of all."""
        keys = key("global", self.seed, epoch)
        return permuted(positions, _one(self.count), keys, _one(0)).astype(np.int64)


class InBlocks(Order):
    """Every record once: the shards in any order, mixed within windows of a few of them.

    Args:
        seed: see `Order`.
        sizes: how many records each shard has, in order.
        window: how many shards are mixed at a time.
    """

    def __init__(
        self, seed: int, settings: dict[str, Any], sizes: Sequence[int], window: int
    ) -> None:
        super().__init__(sum(sizes), seed, settings)
        self._sizes = np.array(sizes, np.uint64)
        self._window = window
        self._laid: tuple[int, Words, Words] = (-1, self._sizes, self._sizes)

    def numbers(self, epoch: int, positions: Words) -> NDArray[np.int64]:
        """A permutation within the window where each position is."""
        order, starts = self._shards(epoch)
        windows = starts[:: self._window]
        if windows[-1] < self.count:
            windows = np.append(windows, np.uint64(self.count))
        window = np.searchsorted(windows, positions, "right") - 1
        first = windows[window]
        keys = key("window", self.seed, epoch)
        size = windows[window + 1] - first
        place = first + permuted(positions - first, size, keys, window.astype(np.uint64))
        shard = np.searchsorted(starts, place, "right") - 1
        before = np.cumsum(self._sizes) - self._sizes
        found: NDArray[np.int64] = (before[order[shard]] + place - starts[shard]).astype(np.int64)
        return found

    def _shards(self, epoch: int) -> tuple[Words, Words]:
        """Which shard comes when, and the position at which each starts; behind them, the end."""
        if self._laid[0] != epoch:
            count = len(self._sizes)
            keys = key("shards", self.seed, epoch)
            order = permuted(np.arange(count, dtype=np.uint64), _one(count), keys, _one(0))
            starts = np.concatenate([_one(0), np.cumsum(self._sizes[order])])
            self._laid = epoch, order, starts
        return self._laid[1:]


class Weighted(Order):
    """Records as often as their weights say, rounded up or down in each epoch.

    An epoch has as many positions as there are records. Which of two numbers it is, and the order,
    are other ones in every epoch.

    Args:
        seed: see `Order`.
        weights: of every record, 0 or more; what they add up to does not matter.
    """

    def __init__(self, seed: int, settings: dict[str, Any], weights: NDArray[np.float64]) -> None:
        super().__init__(len(weights), seed, settings)
        self._ends = np.cumsum(weights) / np.sum(weights) * len(weights)

    def numbers(self, epoch: int, positions: Words) -> NDArray[np.int64]:
        """Systematic sampling: one record for each step of 1 along the weights, in any order."""
        keys = key("weights", self.seed, epoch)
        steps = permuted(positions, _one(self.count), keys, _one(0))
        shift = uniforms(_one(epoch), keys, 1)[0, 0]
        # Rounding must not step over the last record, nor onto one of weight 0 behind it.
        last = np.searchsorted(self._ends, self._ends[-1])
        found: NDArray[np.int64] = np.searchsorted(self._ends, steps + shift, "right").clip(0, last)
        return found


class InProportion(Order):
    """Groups of records by turns, so that their shares hold in every stretch of the sequence.

    The epochs are one endless sequence. Its stretches of a few positions, as many as the smallest
    share needs to come once, hold each group as often as its share says, in any order; it is
    rounded so that no error adds up. From each group all records are drawn, in any order, before
    any is drawn again.

    Args:
        seed: see `Order`.
        members: the numbers of the records, group behind group.
        sizes: how many each group has, at least 1.
        shares: of each group, in proportion.
    """

    def __init__(
        self,
        seed: int,
        settings: dict[str, Any],
        members: NDArray[np.int64] | None,
        sizes: Sequence[int],
        shares: Sequence[int],
    ) -> None:
        super().__init__(sum(sizes), seed, settings)
        self._members = members
        self._sizes = np.array(sizes, np.uint64)
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._ends = np.concatenate([_one(0), np.cumsum(np.array(shares, np.uint64))])
        self._stretch = _one(-(-int(self._ends[-1]) // min(shares)))

    def numbers(self, epoch: int, positions: Words) -> NDArray[np.int64]:
        """Of the group whose turn it is, the next."""
        everywhere = positions + np.uint64(epoch * self.count)
        stretch, place = np.divmod(everywhere, self._stretch)
        keys = key("turns", self.seed)
        place = permuted(place, self._stretch, keys, stretch)

        # In each stretch the groups have their places one behind another: where do they begin?
        stretches, row = np.unique(stretch, return_inverse=True)
        before = self._until(stretches * self._stretch)
        begins = self._until((stretches + np.uint64(1)) * self._stretch) - before
        apart = np.arange(len(stretches), dtype=np.uint64) * self._stretch
        width = begins.shape[1]
        flat = (begins + apart[:, None]).ravel()
        group = np.searchsorted(flat, place + apart[row], "right") - 1 - row * width

        draw = before[row, group + 1] - before[row, group] + place - begins[row, group]
        turn, place = np.divmod(draw, self._sizes[group])
        again = turn * np.uint64(len(self._sizes)) + group.astype(np.uint64)
        place = permuted(place, self._sizes[group], key("group", self.seed), again)
        found: NDArray[np.int64] = (self._starts[group] + place).astype(np.int64)
        return found if self._members is None else self._members[found]

    def _until(self, positions: Words) -> Words:
        """How many positions before these are of the groups before each, and at last of all."""
        found: Words = positions[:, None] * self._ends // self._ends[-1]
        return found


def whole_shares(weights: Sequence[float], what: Sequence[str]) -> list[int]:
    """Positive weights as whole numbers in the same proportion, exactly as they are written.

    Args:
        weights: of each of several things.
        what: what they are called.

    Raises:
        UsageError: one is not positive, or too small beside the others.
    """
    for name, weight in zip(what, weights, strict=True):
        if not (isinstance(weight, (int, float)) and 0 < weight < math.inf):
            raise UsageError(f"the weight of {name} is {weight!r}, expected a number above 0")
    exact = [Fraction(str(weight)) for weight in weights]
    scale = math.lcm(*(one.denominator for one in exact))
    whole = [int(one * scale) for one in exact]
    divisor = math.gcd(*whole)
    whole = [one // divisor for one in whole]
    if sum(whole) > _LARGEST_SHARE:
        total = sum(exact)
        whole = [round(one / total * _LARGEST_SHARE) for one in exact]
    if not all(whole):
        raise UsageError(
            f"the weight of {what[whole.index(0)]} is below 0.00001 % of all; expected more, or "
            "leave it out"
        )
    return whole


def _one(number: int) -> Words:
    return np.array([number], np.uint64)


def key(*words: str | int) -> Words:
    """Eight words of 64 bits that depend on every bit of what is said."""
    data = hashlib.blake2b("\0".join(map(str, words)).encode(), digest_size=8 * _ROUNDS).digest()
    return np.frombuffer(data, "<u8").astype(np.uint64)


def permuted(positions: Words, count: Words, keys: Words, tweak: Words) -> Words:
    """The number at each position of a permutation of 0 to count - 1.

    A Feistel network over a table of about sqrt(count) rows and columns, whose halves are added
    modulo those (Black and Rogaway, Ciphers with arbitrary finite domains, 2002, section 5). What
    falls outside is permuted again, which is rare: the table is hardly larger than `count`.

    Args:
        positions: each below its count.
        count: how many are permuted, 1 to `MOST`; one for all, or one for each position.
        keys: of `key`.
        tweak: chooses another permutation under the same keys; like `count`.
    """
    rows = np.ceil(np.sqrt(count.astype(np.float64))).astype(np.uint64)
    columns = (count + rows - np.uint64(1)) // rows
    salt = _mixed(tweak + _GOLDEN)
    found = _once(positions, rows, columns, keys, salt)
    while len(outside := np.flatnonzero(found >= count)):
        table = [np.broadcast_to(it, found.shape)[outside] for it in (rows, columns, salt)]
        found[outside] = _once(found[outside], table[0], table[1], keys, table[2])
    return found


def uniforms(positions: Words, keys: Words, draws: int) -> NDArray[np.float64]:
    """Numbers from 0 to below 1, so many for each position: shape (positions, draws)."""
    seeds = _mixed(positions ^ keys[0]) ^ keys[1]
    steps = np.arange(1, draws + 1, dtype=np.uint64) * _GOLDEN
    bits = _mixed(seeds[:, None] + steps) >> np.uint64(11)
    return bits.astype(np.float64) * 2.0**-53


def _once(positions: Words, rows: Words, columns: Words, keys: Words, salt: Words) -> Words:
    left, right = np.divmod(positions, columns)
    for number, one in enumerate(keys):
        if number % 2:
            right = _added(right, left, columns, one ^ salt)
        else:
            left = _added(left, right, rows, one ^ salt)
    return left * columns + right


def _added(half: Words, other: Words, size: Words, secret: Words) -> Words:
    """What the other half says, 0 to size - 1, added modulo the size."""
    moved = half + ((_mixed(other ^ secret) >> _HALF) * size >> _HALF)
    return np.where(moved >= size, moved - size, moved)


def _mixed(words: Words) -> Words:
    """Each word hashed: the finalizer of SplitMix64 (Steele, Lea and Flood, 2014)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
