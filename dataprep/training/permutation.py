"""Permutations and random numbers as pure functions of a key and a position.

Any of them is computed alone, in constant time and without a list, so that any process can tell
what comes at any position of any epoch. They are ours, with frozen vectors in the tests, since
numpy does not promise equal streams between its versions (NEP 19). Not for cryptography.
"""

from __future__ import annotations

import hashlib
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.uint64]

_ROUNDS: Final = 8  # six mix a large table; of fewer than ten numbers they prefer some orders
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_HALF: Final = np.uint64(32)
MOST: Final = 2**52
"""Numbers that can be permuted: those of which a float of 64 bits has the square root."""


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
