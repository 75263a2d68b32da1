"""The order of a data set: a pure function of keys, categories, seed, split and shard count.

This is the shuffle. Like a card game: sort each category's examples by a keyed hash, lay the
categories end to end, deal that deck round the shards, then sort every hand by a second hash.
Because one category is a run of consecutive cards, and consecutive cards go to consecutive
shards, two things hold for every input:

* shard sizes differ by at most 1;
* the count of every category differs by at most 1 between any two shards.

Nothing depends on the order in which examples were found, on the number of workers or on
the machine: there is no random generator, only BLAKE2b (RFC 7693) of the example's key.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from dataprep.errors import UsageError
from dataprep.wording import counted

Shuffle = Literal["stratified", "global", "none"]

Hashes = npt.NDArray[np.uint64]

_PERSON = b"dataprep.deal.v1"  # BLAKE2b's personalisation: a new order would be a new version


@dataclass(frozen=True, slots=True)
class Deck:
    """Which example is where.

    Attributes:
        order: int64, shape (examples,): positions in the caller's list, shard after shard,
            each shard in the order in which it is written.
        starts: int64, shape (shards + 1,): shard s is ``order[starts[s]:starts[s + 1]]``.
    """

    order: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]

    def shard(self, number: int) -> npt.NDArray[np.int64]:
        """The positions of the examples of one shard, in writing order."""
        return self.order[self.starts[number] : self.starts[number + 1]]


def digest(key: str, game: hashlib.blake2b) -> bytes:
    """The hash of one key: 16 bytes, of which `as_hashes` makes two numbers."""
    keyed = game.copy()
    keyed.update(key.encode("utf-8", "surrogateescape"))
    return keyed.digest()


def new_game(*, seed: int, split: str) -> hashlib.blake2b:
    """The keyed hash of one shuffle: another seed or split is another game."""
    key = hashlib.blake2b(f"{seed}\0{split}".encode(), digest_size=32).digest()
    return hashlib.blake2b(digest_size=16, key=key, person=_PERSON)


def as_hashes(digests: bytes | bytearray) -> Hashes:
    """Digests laid end to end as uint64, shape (examples, 2)."""
    return np.frombuffer(bytes(digests), dtype="<u8").reshape(-1, 2)


def deal(
    hashes: Hashes,
    categories: npt.NDArray[np.int32],
    shards: int,
    *,
    split: str,
    shuffle: Shuffle,
) -> Deck:
    """Give every example its shard and its place in it.

    Args:
        hashes: uint64, shape (examples, 2), of the examples in the order of their keys. Column
            0 orders the deck, column 1 the shard.
        categories: int32, shape (examples,): each example's category.
        shards: how many shards to fill, 1 to the number of examples.
        split: its name, for the error.
        shuffle: ``stratified`` as described above; ``global`` deals one deck sorted by hash
            alone (sizes within 1, categories only on average); ``none`` cuts the examples, in
            the order of their keys, into consecutive runs with sizes within 1.

    Raises:
        UsageError: ``shards`` would leave a shard empty, or is less than 1.
    """
    count = len(hashes)
    check_shard_count(count, shards, split)
    if shuffle == "none":
        return Deck(np.arange(count, dtype=np.int64), _run_starts(count, shards))
    first, second = hashes[:, 0], hashes[:, 1]
    # lexsort takes its least significant key first; the other hash settles 64-bit ties.
    levels = (second, first) if shuffle == "global" else (second, first, categories)
    shard_of = np.empty(count, dtype=np.int32)
    shard_of[np.lexsort(levels)] = np.arange(count) % shards
    order = np.lexsort((first, second, shard_of)).astype(np.int64, copy=False)
    starts = np.zeros(shards + 1, dtype=np.int64)
    np.cumsum(np.bincount(shard_of, minlength=shards), out=starts[1:])
    return Deck(order, starts)


def sample(hashes: Hashes, limit: int) -> npt.NDArray[np.int64]:
    """A sample of at most ``limit`` examples, those with the smallest hashes.

    Returns:
        int64, shape (min(limit, examples),): positions, ascending.
    """
    chosen = np.lexsort((hashes[:, 1], hashes[:, 0]))[:limit]
    return np.sort(chosen).astype(np.int64, copy=False)


def check_shard_count(count: int, shards: int, split: str) -> None:
    """Refuse a shard count that would leave a shard empty.

    Raises:
        UsageError: with the count that would work in its text.
    """
    if shards < 1:
        raise UsageError(f"--num_shards {split}={shards}: a split needs at least 1 shard")
    if shards > count:
        raise UsageError(
            f"--num_shards {split}={shards}: {split} has {counted(count, 'image')}, so "
            f"{counted(shards - count, 'shard')} would be empty; use at most {split}={count}"
        )


def default_shard_count(count: int, preferred: int, *, smallest: int = 100) -> int:
    """The shard count to use where the user gave none.

    ``preferred`` where that gives at least ``smallest`` examples a shard, else the largest
    power of two that does, and never less than 1.
    """
    if count >= preferred * smallest:
        return preferred
    fitting = max(count // smallest, 1)
    return int(1 << (fitting.bit_length() - 1))


def _run_starts(count: int, shards: int) -> npt.NDArray[np.int64]:
    numbers = np.arange(shards + 1, dtype=np.int64)
    return numbers * (count // shards) + np.minimum(numbers, count % shards)
