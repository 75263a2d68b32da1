"""Pairs of nearly the same picture: perceptual hashes that differ in few bits.

Every picture is compared with the others, with their mirror images and with their middles (a copy
that was cut, or an original without the border of its copy), and the middles with each other: in
copies that were turned a little, the corners differ most.

Comparing every pair would take hours for a million images. But two hashes that are close agree in
most of their lowest frequencies, which hardly change: pictures are compared if they agree in some
12 to 24 of the 64 lowest ones, for any of 64 choices of those (locality-sensitive hashing by bit
sampling: Indyk and Motwani 1998). `docs/review.md` says how many are missed by that.

Pictures without contrast have noise for a hash, and are left to other rules.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from math import ceil, log2
from typing import TYPE_CHECKING, Final

from dataprep.images.fingerprint import mirroring

if TYPE_CHECKING:
    from dataprep.tables.database import Database

# With more, the distance is too large for such pictures, and nobody would read them.
MOST_PAIRS: Final = 1_000_000
FLATTEST: Final = 3.0  # grey levels of contrast; pictures with less have noise for a hash
CHOICES: Final = 64  # of bits that must agree; each is looked at once
USUAL: Final = 66  # bits in which copies of photographs may differ, measured: ``docs/review.md``
# Of the bits that may differ, those between a picture and the middle of another: a smooth picture
# without its edges is like many others.
_CUT_SHARE: Final = 10 / 11
_ALIKE: Final = 100  # of photographs, 1 pair in 100 differs in 108 bits or fewer
_SAMPLE: Final = 1_000  # pictures
_FEWEST_PAIRS: Final = 5_000
_APART: Final = " + ".join(f"bit_count(xor(a.w{word}, b.w{word}))::integer" for word in range(4))

_POOL: Final = 64  # lowest frequencies: in copies that are found, one in ten changes
_FEW: Final = 2_000  # pictures: all pairs of them are compared in a second
_FEWEST_BITS, _MOST_BITS = 12, 24

# The middles are compared with each other, pictures with all else of another: with its cuts
# whichever comes first, with what has no direction once.
WHOLE, MIRRORED, CUT, MIDDLE = range(4)  # the ways
_WITHIN: Final = f"{_APART} <= if(b.how = {CUT}, $cut, $most)"
_COMPARED: Final = (
    f"a.middle = b.middle and a.number != b.number and (a.number < b.number or b.how = {CUT})"
)


def usual_distance(database: Database) -> tuple[int, str | None]:
    """How many bits may differ in copies among these pictures, and why if not the usual number.

    Photographs of different things differ in half of the bits; radiographs, or frames of a film,
    are alike by nature, and hardly any of their pairs should be taken for copies.

    Args:
        database: has the table ``images``, as `find_near_pairs` wants it.
    """
    _make_hashes(database)
    (pairs, least, few) = database.execute(
        f"with sampled as (select number from hashes order by md5(phash) limit {_SAMPLE}), "
        f"apart as (select a.number as a, b.number as b, b.how as how, {_APART} as distance "
        "from (from sides semi join sampled using (number)) a "
        f"join (from versions semi join sampled using (number)) b on {_COMPARED}), "
        "closest as (select min(distance) as distance, "
        f"min(distance) filter (how = {WHOLE}) as plain from apart group by least(a, b), "
        "greatest(a, b)) "
        "select count(*), quantile_disc(distance, 0.0001), quantile_disc(plain, 0.01) from closest"
    ).fetchall()[0]
    if pairs < _FEWEST_PAIRS or few >= _ALIKE:
        return USUAL, None
    distance = min(USUAL, least * 2 // 3)
    return distance, (
        f"these images are alike by nature (1 pair in 100 differs in {few} of 255 bits): "
        f"only pairs within {distance} bits are taken for copies, not {USUAL}; --distance decides"
    )


def _make_hashes(database: Database) -> None:
    """Hashes of pictures: ``sides``, whole and in the middle, and ``versions`` of them.

    Those of the middle, without 10 % at every edge, have ``middle``; ``how`` is the way.
    """
    database.execute(
        "create table if not exists hashes as select min(number) as number, phash, "
        f"min(phash_cut) as cuts from images where contrast >= {FLATTEST} group by phash"
    )
    whole, inner = _words("phash"), _words("substr(cuts, 65)")
    database.execute(
        f"create table if not exists sides as select number, false as middle, {whole} from hashes "
        f"union all select number, true, {inner} from hashes where cuts is not null"
    )
    mirrored = ", ".join(
        f"xor(w{word}, ('0x' || substr('{mirroring()}', {1 + 16 * word}, 16))::ubigint)"
        for word in range(4)
    )
    database.execute(
        "create table if not exists versions as "
        f"select number, middle, if(middle, {MIDDLE}, {WHOLE})::utinyint as how, "
        "w0, w1, w2, w3 from sides "
        f"union all select number, false, {MIRRORED}, {mirrored} from sides where not middle "
        f"union all select number, false, {CUT}, {_words('cuts')} from hashes "
        "where cuts is not null "
        f"union all select number, false, {CUT}, w0, w1, w2, w3 from sides where middle"
    )


def _words(digits: str) -> str:
    return ", ".join(
        f"('0x' || substr({digits}, {1 + 16 * word}, 16))::ubigint as w{word}" for word in range(4)
    )


def find_near_pairs(
    database: Database, distance: int, advance: Callable[[int], None] = lambda _count: None
) -> bool:
    """Make the table ``near`` (a, b, distance, how): numbers of images that differ, but hardly.

    The distance is the least of all that are compared, and ``how`` what that was: `WHOLE`,
    `MIRRORED`, `CUT` (one of them without its edges) or `MIDDLE` (both).

    Args:
        database: has the table ``images``, with columns number, phash, phash_cut, contrast, xxh3.
        distance: bits of 255 that may differ.
        advance: told of each choice of bits that was looked at; of none, as it begins.

    Returns:
        Whether all were found; False if there are more than `MOST_PAIRS`.
    """
    advance(0)
    _make_hashes(database)
    database.execute("create or replace table pairs (a bigint, b bigint)")
    bounds = {"most": distance, "cut": int(distance * _CUT_SHARE)}
    complete = True
    for mask in _masks(_count(database, "hashes")):
        if complete:
            database.execute(
                "insert into pairs select distinct least(a.number, b.number) as one, "
                "greatest(a.number, b.number) as other from sides a join versions b on "
                f"(a.w0 & $mask::ubigint) = (b.w0 & $mask::ubigint) and {_COMPARED} "
                f"where {_WITHIN} and not exists (from pairs p where "
                "p.a = least(a.number, b.number) and p.b = greatest(a.number, b.number)) "
                f"limit {MOST_PAIRS + 1}",
                {"mask": mask, **bounds},
            )
            complete = _count(database, "pairs") <= MOST_PAIRS
        advance(1 if mask else CHOICES)
    database.execute(
        f"create or replace table closest as select pairs.a, pairs.b, min({_APART}) as distance, "
        f"arg_min(how, ({_APART}, how)) as how from pairs "
        "join sides a on a.number in (pairs.a, pairs.b) "
        f"join versions b on b.number = pairs.a + pairs.b - a.number and {_COMPARED} "
        f"where {_WITHIN} group by pairs.a, pairs.b",
        bounds,
    )
    # Images of one hash: each with the first of them, and all with those of a close one.
    members = "(select hashes.number as hash, images.* from hashes join images using (phash))"
    database.execute(
        "create or replace table near as "
        "select least(a.number, b.number) as a, greatest(a.number, b.number) as b, distance, how "
        f"from closest join {members} a "
        f"on a.hash = closest.a join {members} b on b.hash = closest.b "
        f"union all select a.number, b.number, 0, {WHOLE} from {members} b join images a "
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
    size = min(max(ceil(log2(count)) - 1, _FEWEST_BITS), _MOST_BITS)
    chosen = random.Random(0)  # noqa: S311  # nothing to guess: any will do
    for _ in range(CHOICES):
        yield sum(1 << (63 - bit) for bit in chosen.sample(range(_POOL), size))
