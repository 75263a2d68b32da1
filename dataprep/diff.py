"""Whether two data sets hold the same examples, whatever their formats, shards and order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dataprep.dataset import Records
from dataprep.errors import ImageError, SinkError
from dataprep.example import Example
from dataprep.images.decode import to_pixels
from dataprep.manifest import manifest_sink, read_manifest
from dataprep.wording import printable

SHOWN = 5  # keys named for each kind of difference

# One row an example: what it is called, and what it is.
_ROW = np.dtype([("key", "V16"), ("content", "V16")])


@dataclass(frozen=True, slots=True)
class SplitDifference:
    """How the examples of one split differ.

    Attributes:
        only_a: how many keys are in the first data set alone.
        only_b: likewise, in the second.
        changed: how many keys are in both with another image or other labels.
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
    """

    splits: tuple[SplitDifference, ...]
    missing: tuple[str, ...]
    pixels: bool

    @property
    def same(self) -> bool:
        """Whether both hold the same examples."""
        return not self.missing and all(split.same for split in self.splits)


def diff(
    a: Path, b: Path, *, threads: int, progress: Callable[[int], object] | None = None
) -> Difference:
    """Read both data sets once and compare keys, labels and images.

    Images are compared byte for byte; or, if one data set stores arrays of pixels, pixel for
    pixel. Takes about 32 bytes of memory an example.

    Args:
        a: the directory of the first data set's manifest.
        b: likewise of the second.
        threads: shards read at the same time.
        progress: told the number of examples read.

    Raises:
        DatasetError: there is no intact manifest.
        SinkError: a shard is damaged.
    """
    manifests = [read_manifest(out) for out in (a, b)]
    pixels = any(manifest_sink(manifest).pixels for manifest in manifests)
    missing = [
        f"{mine} has no split {split}"
        for mine, own, other in ((a, manifests[0], manifests[1]), (b, manifests[1], manifests[0]))
        for split in other["splits"]
        if split not in own["splits"]
    ]
    splits = []
    for split in manifests[0]["splits"]:
        if split in manifests[1]["splits"]:
            both = [Records(out, split) for out in (a, b)]
            rows = [_rows(records, pixels, threads, progress) for records in both]
            splits.append(_compare(split, both, rows))
    return Difference(tuple(splits), tuple(missing), pixels)


def _rows(
    records: Records, pixels: bool, threads: int, progress: Callable[[int], object] | None
) -> NDArray[np.void]:
    """Key and content hashes of every example, in order."""
    rows = np.zeros(len(records), _ROW)
    bounds = [0, *records.ends]

    def fill(shard: int) -> int:
        start, stop = bounds[shard], bounds[shard + 1]
        for number, example in enumerate(records.between(start, stop), start=start):
            rows[number] = (_key_hash(example), _content_hash(example, pixels))
        return stop - start

    with ThreadPoolExecutor(threads) as pool:
        for done in pool.map(fill, range(len(bounds) - 1)):
            if progress is not None:
                progress(done)
    return rows


def _key_hash(example: Example) -> bytes:
    return hashlib.blake2b(example.key.encode("utf-8", "surrogateescape"), digest_size=16).digest()


def _content_hash(example: Example, pixels: bool) -> bytes:
    digest = hashlib.blake2b(repr(example.labels).encode(), digest_size=16)
    if not pixels:
        digest.update(example.encoded)
        return digest.digest()
    color: Literal["gray", "rgb"] = "gray" if example.colorspace == "Grayscale" else "rgb"
    try:
        found = to_pixels(example.encoded, example.format, example.height, example.width, color)
    except ImageError as error:
        raise SinkError(f"{printable(example.key)} cannot be decoded: {error}") from error
    digest.update(repr(found.shape).encode())
    digest.update(np.ascontiguousarray(found).data)
    return digest.digest()


def _compare(split: str, both: list[Records], rows: list[NDArray[np.void]]) -> SplitDifference:
    a, b = rows
    # Numbers of the examples that both have, matched pairwise; keys are unique in a split.
    _, at_a, at_b = np.intersect1d(a["key"], b["key"], assume_unique=True, return_indices=True)
    changed = np.sort(at_a[a["content"][at_a] != b["content"][at_b]])
    only_a = np.setdiff1d(np.arange(len(a)), at_a)
    only_b = np.setdiff1d(np.arange(len(b)), at_b)
    same_order = bool(np.all(np.diff(at_b[np.argsort(at_a)]) > 0))
    named = [
        *(f"only in {both[0].out}: {_key(both[0], at)}" for at in only_a[:SHOWN]),
        *(f"only in {both[1].out}: {_key(both[1], at)}" for at in only_b[:SHOWN]),
        *(f"differs: {_key(both[0], at)}" for at in changed[:SHOWN]),
    ]
    return SplitDifference(
        split=split,
        records=(len(a), len(b)),
        only_a=len(only_a),
        only_b=len(only_b),
        changed=len(changed),
        same_order=same_order,
        examples=tuple(named),
    )


def _key(records: Records, number: int) -> str:
    return printable(records[number].key)
