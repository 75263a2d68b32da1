"""Whether two data sets hold the same examples, whatever their formats, shards and order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dataprep.sealed.set import SealedSet
from dataprep.sealed.split import FinishedSplit
from dataprep.sinks.example import Example, pixels_of
from dataprep.system.messages import printable

SHOWN = 5  # keys named for each kind of difference

# One row an example, of hashes: what it is called, and what it shows. With 128 bits, no two are
# ever taken for the same.
_ROW = np.dtype([("key", "V16"), ("content", "V16")])


@dataclass(frozen=True, slots=True)
class SplitDifference:
    """How the examples of one split differ.

    Attributes:
        only_a: how many keys are in the first data set alone.
        only_b: likewise, in the second.
        changed: how many keys are in both with another image, or with other labels, boxes or
            attributes.
        same_order: whether examples that are in both come in the same order.
        examples: some keys, with what is the matter.
    """

    split: str
    records: tuple[int, int]
    only_a: int
    only_b: int
    changed: int
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
        splits: of every split that both have.
        missing: splits that one of them lacks, in words.
        pixels: whether pixels were compared, because one data set stores them.
        boxes: whether bounding boxes and what they show were compared, because both formats have
            a place for them.
        attributes: whether attributes were compared, because both formats have a place for them,
            and one of the data sets has some.
    """

    splits: tuple[SplitDifference, ...]
    missing: tuple[str, ...]
    pixels: bool
    boxes: bool
    attributes: bool

    @property
    def same(self) -> bool:
        """Whether both hold the same examples."""
        return not self.missing and all(split.same for split in self.splits)


def diff(
    a: Path, b: Path, *, threads: int, progress: Callable[[int], object] | None = None
) -> Difference:
    """Read both data sets once and compare keys, labels and images.

    Images are compared byte for byte; or, if one data set stores arrays of pixels, pixel for
    pixel. Takes about 50 bytes of memory an example.

    Raises:
        DatasetError: there is no intact manifest, or only a part of a data set.
        SinkError: a shard is damaged.
    """
    both = [SealedSet.read(out) for out in (a, b)]
    for each in both:
        each.require_whole("compared")
    sinks = [each.sink for each in both]
    how = _Comparison(
        pixels=any(sink.pixels for sink in sinks),
        boxes=all(sink.keeps_boxes for sink in sinks),
        attributes=all(sink.keeps_attributes for sink in sinks)
        and any(each.info.attributes for each in both),
        max_pixels=max(each.manifest.image.max_pixels for each in both),
    )
    missing = [
        f"{own.out} has no split {split}"
        for own, other in (both, both[::-1])
        for split in other.splits
        if split not in own.splits
    ]
    splits = []
    for split in both[0].splits:
        if split in both[1].splits:
            readers = [FinishedSplit(each, split) for each in both]
            rows = [_rows(records, how, threads, progress) for records in readers]
            splits.append(_compare(readers, rows))
    return Difference(tuple(splits), tuple(missing), how.pixels, how.boxes, how.attributes)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """What of two examples is compared."""

    pixels: bool
    boxes: bool
    attributes: bool
    max_pixels: int

    def row(self, example: Example) -> tuple[bytes, bytes]:
        """A `_ROW`."""
        said: list[object] = [example.labels]
        if self.boxes:
            said += [np.asarray(example.boxes, np.float32).tobytes(), example.box_labels]
        if self.attributes:
            said.append(sorted(example.attributes.items()))
        image = example.encoded
        if self.pixels:
            pixels = pixels_of(example, self.max_pixels)
            said.append(pixels.shape)
            image = pixels.tobytes()
        key = example.key.encode("utf-8", "surrogateescape")
        return _hash(key), _hash(repr(said).encode() + image)


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _rows(
    records: FinishedSplit, how: _Comparison, threads: int, progress: Callable[[int], object] | None
) -> NDArray[np.void]:
    """The row of every example, in order."""
    rows = np.zeros(len(records), _ROW)

    def fill(shard: int) -> int:
        start, stop = records.start(shard), records.ends[shard]
        for number, example in enumerate(records.between(start, stop), start=start):
            rows[number] = how.row(example)
        return stop - start

    with ThreadPoolExecutor(threads) as pool:
        for done in pool.map(fill, range(len(records.ends))):
            if progress is not None:
                progress(done)
    return rows


def _compare(both: list[FinishedSplit], rows: list[NDArray[np.void]]) -> SplitDifference:
    a, b = rows
    # Numbers of the examples that both have, matched pairwise; of a repeated key, the first.
    _, at_a, at_b = np.intersect1d(a["key"], b["key"], return_indices=True)
    in_order = np.argsort(at_a)
    at_a, at_b = at_a[in_order], at_b[in_order]
    changed = at_a[a["content"][at_a] != b["content"][at_b]]
    only_a = np.setdiff1d(np.arange(len(a)), at_a)
    only_b = np.setdiff1d(np.arange(len(b)), at_b)
    kinds = (
        (f"only in {both[0].out}", both[0], only_a),
        (f"only in {both[1].out}", both[1], only_b),
        ("another image, or something else is said of it", both[0], changed),
    )
    return SplitDifference(
        split=both[0].split,
        records=(len(a), len(b)),
        only_a=len(only_a),
        only_b=len(only_b),
        changed=len(changed),
        same_order=bool(np.all(np.diff(at_b) > 0)),
        examples=tuple(
            f"{what}: {_key(records, at)}" for what, records, found in kinds for at in found[:SHOWN]
        ),
    )


def _key(records: FinishedSplit, number: int) -> str:
    return printable(next(records.between(number, number + 1)).key)
