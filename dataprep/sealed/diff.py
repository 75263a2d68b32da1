"""Whether two data sets hold the same examples, whatever their formats, shards and order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dataprep.formats.example import Example, pixels_of
from dataprep.sealed.set import SealedSet, first_rows
from dataprep.sealed.split import FinishedSplit
from dataprep.system.messages import printable
from dataprep.system.state_files import differing
from dataprep.tables.records import RecordsTable
from dataprep_schemas.fields import MASK

SHOWN = 5  # keys named for each kind of difference

# One row an example, of hashes: what it is called, which labels it has, and what it shows and what
# else is said of it. With 128 bits, no two are ever taken for the same.
_ROW = np.dtype([("key", "V16"), ("labels", "V16"), ("content", "V16")])


@dataclass(frozen=True, slots=True)
class SplitDifference:
    """How the examples of one split differ: numbers of keys, and some of them.

    Attributes:
        split: its name.
        records: how many the first data set has, and the second.
        only_a: how many are in this split of the first data set alone.
        only_b: likewise, of the second.
        moved: of `only_a`, in another split of the second.
        changed: in both with another image, or other labels or fields.
        relabelled: of `changed`, with other labels and the same else.
        same_order: whether examples that are in both come in the same order.
        examples: lines on a few keys of each kind, with what is the matter.
    """

    split: str
    records: tuple[int, int]
    only_a: int
    only_b: int
    moved: int
    changed: int
    relabelled: int
    same_order: bool
    examples: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Whether both hold the same examples, in whatever order."""
        return not (self.only_a or self.only_b or self.changed)


@dataclass(frozen=True, slots=True)
class Difference:
    """How two data sets differ.

    Attributes:
        splits: how each split that both have differs, or that it does not.
        missing: splits that one of them lacks, in words.
        pixels: whether pixels were compared, because one data set stores them.
        versions: what both name in other versions: ``pillow 11.3.0 and 12.0.0``.
        masks: whether those were compared, pixel for pixel, or only how many pixels each of their
            numbers has, because one data set stores none; empty if there are none.
    """

    splits: tuple[SplitDifference, ...]
    missing: tuple[str, ...]
    pixels: bool
    versions: tuple[str, ...] = ()
    masks: Literal["", "compared", "counted"] = ""

    @property
    def same(self) -> bool:
        """Whether both hold the same examples."""
        return not self.missing and all(split.same for split in self.splits)


def diff(
    a: Path, b: Path, *, threads: int, progress: Callable[[int], object] = lambda _count: None
) -> Difference:
    """Compare keys, labels, fields and images, as both tables have them.

    Images are compared by the hash of their bytes, which no shard is read for; or, if one data set
    stores arrays of pixels, pixel for pixel. So are masks, if both store them. Takes about 70 bytes
    of memory an example.

    Raises:
        DatasetError: there is no intact manifest or table, or only a part of a data set.
        SinkError: a shard of which the pixels are compared is damaged.
    """
    both = [SealedSet.read(out) for out in (a, b)]
    for each in both:
        each.require_whole("compared")
    pixels = any(each.sink.pixels for each in both)
    masked = [MASK in each.info.fields for each in both]
    stored = _Stored(
        pixels, all(masked), max(each.manifest.image.max_pixels for each in both), threads
    )
    missing = [
        f"{own.out} has no split {split}"
        for own, other in (both, both[::-1])
        for split in other.splits
        if split not in own.splits
    ]
    rows: list[dict[str, NDArray[np.void]]] = [{}, {}]
    shared = [split for split in both[0].splits if split in both[1].splits]
    for each, found in zip(both, rows, strict=True):
        for split in each.splits:
            found[split] = own = _rows(each, split, hashes=not pixels)
            looked = (pixels or all(masked)) and split in shared
            steps = stored.add(own, each, split) if looked else [len(own)]
            for done in steps:
                progress(done)
    splits = [_compare(both, split, rows) for split in shared]
    versions = differing(both[0].manifest.versions, both[1].manifest.versions, " and")
    masks: Literal["", "compared", "counted"] = ""
    if any(masked):
        masks = "compared" if all(masked) else "counted"
    return Difference(tuple(splits), tuple(missing), pixels, versions, masks)


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _rows(sealed: SealedSet, split: str, *, hashes: bool) -> NDArray[np.void]:
    """A `_ROW` of every example, of what the table says of it, the hash of its image or not."""
    rows = np.zeros(sealed.splits[split].records, _ROW)
    first = first_rows(sealed.manifest)[split][0]
    with RecordsTable(sealed.out, sealed.manifest.records_table) as table:
        own = sorted(field.name for field in table.fields)
        columns = ("key", "xxh3", "labels", *own)
        found = table.rows(first, first + len(rows), columns)
        for number, (key, xxh3, labels, *values) in enumerate(found):
            known = [it for it in zip(own, values, strict=True) if it[1] is not None]
            said = (known, xxh3 if hashes else "")
            rows[number] = tuple(
                map(_hash, (str(key).encode(), repr(labels).encode(), repr(said).encode()))
            )
    return rows


@dataclass(frozen=True, slots=True)
class _Stored:
    """What is compared that only shards have."""

    pixels: bool
    masks: bool
    max_pixels: int  # of an image
    threads: int

    def add(self, rows: NDArray[np.void], sealed: SealedSet, split: str) -> Iterator[int]:
        """Make it belong to the row of every example; yields how many more are done."""
        records = FinishedSplit(sealed, split)

        def add(shard: int) -> int:
            start, stop = records.start(shard), records.ends[shard]
            for number, example in enumerate(records.take(range(start, stop)), start=start):
                said = [rows["content"][number].tobytes()]
                for found in self._arrays(example):
                    said += [repr(found.shape).encode(), found.tobytes()]
                rows["content"][number] = _hash(b"".join(said))
            return stop - start

        with ThreadPoolExecutor(self.threads) as pool:
            yield from pool.map(add, range(len(records.ends)))

    def _arrays(self, example: Example) -> Iterator[NDArray[np.uint8]]:
        if self.pixels:
            yield pixels_of(example, self.max_pixels)
        if self.masks:
            yield example.mask()


def _compare(
    both: list[SealedSet], split: str, rows: list[dict[str, NDArray[np.void]]]
) -> SplitDifference:
    a, b = (found[split] for found in rows)
    # Numbers of the examples that both have, matched pairwise; of a repeated key, the first.
    _, at_a, at_b = np.intersect1d(a["key"], b["key"], return_indices=True)
    in_order = np.argsort(at_a)
    at_a, at_b = at_a[in_order], at_b[in_order]
    shown = a["content"][at_a] != b["content"][at_b]
    labelled = a["labels"][at_a] != b["labels"][at_b]
    relabelled, changed = at_a[labelled & ~shown], at_a[shown]
    only_a = np.setdiff1d(np.arange(len(a)), at_a)
    only_b = np.setdiff1d(np.arange(len(b)), at_b)
    others = [found["key"] for name, found in rows[1].items() if name != split]
    has_moved = np.isin(a["key"][only_a], np.concatenate([a["key"][:0], *others]))
    kinds = (
        (f"only in {both[0].out}", both[0], only_a[~has_moved]),
        (f"in another split of {both[1].out}", both[0], only_a[has_moved]),
        (f"only in {both[1].out}", both[1], only_b),
        ("other labels", both[0], relabelled),
        ("another image, or something else is said of it", both[0], changed),
    )
    return SplitDifference(
        split=split,
        records=(len(a), len(b)),
        only_a=len(only_a),
        only_b=len(only_b),
        moved=int(has_moved.sum()),
        changed=len(changed) + len(relabelled),
        relabelled=len(relabelled),
        same_order=bool(np.all(np.diff(at_b) > 0)),
        examples=tuple(
            f"{what}: {_key(sealed, split, at)}"
            for what, sealed, found in kinds
            for at in found[:SHOWN]
        ),
    )


def _key(sealed: SealedSet, split: str, number: int) -> str:
    row = first_rows(sealed.manifest)[split][0] + int(number)
    with RecordsTable(sealed.out, None) as table:
        return printable(str(next(table.rows(row, row + 1, ["key"]))[0]))
