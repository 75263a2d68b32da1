"""Pairs of nearly the same picture: perceptual hashes that differ in few bits.

Comparing every pair would take hours for a million images. But two hashes that are close agree in
most of their lowest frequencies, which hardly change: pictures are compared if they agree in some
16 of the 48 lowest ones, for any of 64 choices of those (locality-sensitive hashing by bit
sampling: Indyk and Motwani 1998). On copies of the 400 photographs that `docs/lint.md` names, that
finds as many as comparing all does, but for a few of those that were cut at every edge.

Pictures without contrast have noise for a hash, and are left to other rules.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from math import ceil, log2
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dataprep.tables.database import Database

MOST_PAIRS: Final = 1_000_000
"""With more, the distance is too large for such pictures, and nobody would read them."""

FLATTEST: Final = 3.0
"""Grey levels of contrast; pictures with less have noise for a hash."""

CHOICES: Final = 64
"""Of bits that must agree; each is looked at once."""

USUAL: Final = 72
"""Bits in which copies of photographs may differ, measured: ``docs/lint.md``."""

_ALIKE: Final = 100  # of photographs, 1 pair in 100 differs in 108 bits or fewer
_SAMPLE: Final = 1_000  # pictures
_FEWEST_PAIRS: Final = 5_000
_APART: Final = " + ".join(f"bit_count(xor(a.w{word}, b.w{word}))::integer" for word in range(4))

_POOL: Final = 48  # lowest frequencies: of a copy cut by 3 % at every edge, 4 of them change
_FEW: Final = 5_000  # pictures: all pairs of them are compared in a second
_FEWEST_BITS, _MOST_BITS = 16, 24


def usual_distance(database: Database) -> tuple[int, str | None]:
    """How many bits may differ in copies among these pictures, and why if not the usual number.

    Photographs of different things differ in half of the bits; radiographs, or frames of a film,
    are alike by nature, and hardly any of their pairs should be taken for copies.

    Args:
        database: has the table ``images``, as `find_near_pairs` wants it.
    """
    _make_hashes(database)
    (pairs, least, few) = database.execute(
        f"with sampled as (from hashes order by md5(phash) limit {_SAMPLE}), apart as "
        f"(select {_APART} as distance from sampled a join sampled b on a.number < b.number) "
        "select count(*), quantile_disc(distance, 0.0001), quantile_disc(distance, 0.01) from apart"
    ).fetchall()[0]
    if pairs < _FEWEST_PAIRS or few >= _ALIKE:
        return USUAL, None
    distance = min(USUAL, least * 2 // 3)
    return distance, (
        f"these images are alike by nature (1 pair in 100 differs in {few} of 255 bits): "
        f"only pairs within {distance} bits are taken for copies, not {USUAL}; --distance decides"
    )


def _make_hashes(database: Database) -> None:
    words = ", ".join(
        f"('0x' || substr(phash, {1 + 16 * word}, 16))::ubigint as w{word}" for word in range(4)
    )
    database.execute(
        "create or replace table hashes as "
        f"select min(number) as number, phash, {words} from images "
        f"where contrast >= {FLATTEST} group by phash"
    )


def find_near_pairs(
    database: Database, distance: int, advance: Callable[[int], None] = lambda _count: None
) -> bool:
    """Make the table ``near`` (a, b, distance): numbers of images that differ, but hardly.

    Args:
        database: has the table ``images``, with columns number, phash, contrast and xxh3.
        distance: bits of 255 that may differ.
        advance: told of each choice of bits that was looked at; of none, as it begins.

    Returns:
        Whether all were found; False if there are more than `MOST_PAIRS`.
    """
    advance(0)
    _make_hashes(database)
    database.execute("create or replace table pairs (a bigint, b bigint, distance integer)")
    complete = True
    for mask in _masks(_count(database, "hashes")):
        if complete:
            database.execute(
                f"insert into pairs select a.number, b.number, {_APART} as distance "
                "from hashes a join hashes b on "
                "(a.w0 & $mask::ubigint) = (b.w0 & $mask::ubigint) and a.number < b.number "
                "where distance <= $distance and not exists "
                "(from pairs p where p.a = a.number and p.b = b.number) limit $most",
                {"mask": mask, "distance": distance, "most": MOST_PAIRS + 1},
            )
            complete = _count(database, "pairs") <= MOST_PAIRS
        advance(1 if mask else CHOICES)
    # Images of one hash: each with the first of them, and all with those of a close one.
    members = "(select hashes.number as hash, images.* from hashes join images using (phash))"
    database.execute(
        "create or replace table near as "
        "select least(a.number, b.number) as a, greatest(a.number, b.number) as b, distance "
        f"from pairs join {members} a "
        f"on a.hash = pairs.a join {members} b on b.hash = pairs.b "
        f"union all select a.number, b.number, 0 from {members} b join images a "
        f"on a.number = b.hash where a.number < b.number and a.xxh3 != b.xxh3 "
        f"limit {MOST_PAIRS + 1}"
    )
    return complete and _count(database, "near") <= MOST_PAIRS


def _count(database: Database, table: str) -> int:
    return int(database.execute(f"select count(*) from {table}").fetchall()[0][0])


def _masks(count: int) -> Iterator[int]:
    """Choices among the first bits of the first word, always the same ones."""
    if count <= _FEW:
        yield 0
        return
    size = min(max(ceil(log2(max(count, 2))) - 5, _FEWEST_BITS), _MOST_BITS)
    chosen = random.Random(0)  # noqa: S311  # nothing to guess: any will do
    for _ in range(CHOICES):
        yield sum(1 << (63 - bit) for bit in chosen.sample(range(_POOL), size))
