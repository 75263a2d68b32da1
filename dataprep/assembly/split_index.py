"""Every row of a split in key order, with only numbers in memory: 40 bytes an image.

While the rows are dealt it is 71, measured with 14.2 million (``python -m benchmarks listing``).
Where there are groups it is 56, and up to twice that while the rows are merged and dealt; where an
image has any number of labels, every label set that occurs is there once besides. The rows
themselves stay in a file and are fetched one at a time, so that planning fourteen million images
needs no more memory than a login node gives away.
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dataprep.assembly.key_order import Entry, in_key_order
from dataprep.assembly.workspace import storage_error
from dataprep.deal import Hashes, as_hashes, digest, new_game
from dataprep.durable_files import partial_path
from dataprep.errors import SourceError
from dataprep.index import Row
from dataprep.keys import KEY_HASH, key_hash
from dataprep.label_sets import LabelSet, rank_label_sets
from dataprep.sources.containers.descriptors import read_at
from dataprep.wording import printable

_NO_GROUP = bytes(KEY_HASH.itemsize)


@dataclass(frozen=True, slots=True)
class SplitIndex:
    """The rows of a split, in key order.

    Attributes:
        descriptor: an open file that holds the rows' lines.
        offsets: int64, where each line starts.
        lengths: int32, how long it is, newline included.
        hashes: uint64, shape (rows, 2), for `dataprep.deal`.
        classes: int32, the category of each row for `dataprep.deal`: its 0-based class index or,
            where an image has any number of labels, the place of its label set in the deck.
        groups: `KEY_HASH`, of each row's group, zeros where it has none; None if no row has one.
        sizes: int64, of the images, in bytes.
        input_sha256: over every `Row.facts`: the same for every raw layout.
    """

    descriptor: int
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int32]
    hashes: Hashes
    classes: npt.NDArray[np.int32]
    groups: npt.NDArray[Any] | None
    sizes: npt.NDArray[np.int64]
    input_sha256: str

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.offsets)

    def lines(self, positions: Iterable[int]) -> Iterator[bytes]:
        """The rows at ``positions``, as lines with their newline."""
        for position in positions:
            yield read_at(self.descriptor, int(self.offsets[position]), int(self.lengths[position]))

    def take(self, positions: npt.NDArray[np.int64]) -> SplitIndex:
        """The rows at ``positions``, which ascend."""
        total = hashlib.sha256()
        for line in self.lines(positions.tolist()):
            total.update(Row.from_json(line).facts())
        return replace(
            self,
            offsets=self.offsets[positions],
            lengths=self.lengths[positions],
            hashes=self.hashes[positions],
            classes=self.classes[positions],
            groups=None if self.groups is None else self.groups[positions],
            sizes=self.sizes[positions],
            input_sha256=total.hexdigest(),
        )


@contextmanager
def open_index(
    parts: Sequence[Path],
    directory: Path,
    *,
    seed: int,
    split: str,
    classes: Sequence[str] | None,
    multilabel: bool = False,
) -> Iterator[SplitIndex]:
    """Merge the parts of a split into one index, kept in temporary files in ``directory``.

    Args:
        parts: the index parts; those without rows of the split do not matter.
        directory: takes the rows, and what merging them needs; see `in_key_order`.
        seed: of the shuffle.
        split: its name.
        classes: what the rows' labels shall be indices into; see `in_key_order`.
        multilabel: whether an image has any number of labels.

    Raises:
        SourceError: two rows have the same key, a row has no label or several where each must
            have one, a part is not in key order, or there are no rows at all.
        SinkError: the directory cannot be written.
    """
    path = partial_path(directory / f"{split}.rows")
    try:
        try:
            with in_key_order(parts, split, scratch=path, classes=classes) as entries:
                index = _write(entries, path, _Collected(split, seed, multilabel=multilabel))
        except OSError as error:
            raise storage_error(error, directory, f"ordering {split}") from error
        try:
            yield index
        finally:
            os.close(index.descriptor)
    finally:
        path.unlink(missing_ok=True)


def _write(entries: Iterable[Entry], path: Path, collected: _Collected) -> SplitIndex:
    with path.open("xb") as file:
        for entry in entries:
            file.write(entry.line)
            collected.add(entry)
    return collected.index(path)


class _Collected:
    """The numbers of the rows, as they come by in key order."""

    def __init__(self, split: str, seed: int, *, multilabel: bool) -> None:
        self._split = split
        self._game = new_game(seed=seed, split=split)
        self._before: str | None = None
        self._line = b""
        self._lengths, self._categories, self._sizes = array("i"), array("i"), array("q")
        self._digests, self._groups = bytearray(), bytearray()
        self._total = hashlib.sha256()
        self._label_sets: dict[LabelSet, int] | None = {} if multilabel else None

    def add(self, entry: Entry) -> None:
        """Take the next entry."""
        key = entry.key
        if self._before is not None and key <= self._before:
            raise self._disorder(entry)
        self._before, self._line = key, entry.line
        self._categories.append(self._category(entry))
        if entry.group:
            self._fill_groups()
            self._groups += key_hash(entry.group)
        self._lengths.append(len(entry.line))
        self._sizes.append(entry.size)
        self._digests += digest(key, self._game)
        self._total.update(entry.facts)

    def index(self, path: Path) -> SplitIndex:
        """All of them, of rows whose lines are in the file."""
        if self._before is None:
            raise SourceError(
                f"{self._split}: no images found; leave it out with --splits; or, if it was cut "
                "by a share, take a larger one or another --split_seed"
            )
        lengths = np.asarray(self._lengths, dtype=np.int32)
        offsets = np.cumsum(lengths, dtype=np.int64)
        offsets -= lengths
        groups = None
        if self._groups:
            self._fill_groups()
            groups = np.frombuffer(self._groups, dtype=KEY_HASH)
        return SplitIndex(
            offsets=offsets,
            lengths=lengths,
            hashes=as_hashes(self._digests),
            classes=self._ranked_categories(),
            groups=groups,
            sizes=np.asarray(self._sizes, dtype=np.int64),
            input_sha256=self._total.hexdigest(),
            descriptor=os.open(path, os.O_RDONLY),  # last, so that no error leaves it open
        )

    def _category(self, entry: Entry) -> int:
        if any(one >= other for one, other in pairwise(entry.labels)):
            raise SourceError(
                f"{self._split}: {printable(entry.key)} has the labels {entry.labels}, expected "
                "each once and ascending; that is a defect of the data set"
            )
        if self._label_sets is not None:
            return self._label_sets.setdefault(entry.labels, len(self._label_sets))
        if len(entry.labels) != 1:
            raise SourceError(
                f"{self._split}: {printable(entry.key)} has {len(entry.labels)} labels, expected "
                "exactly one; a data set whose images have any number must say so (multilabel)"
            )
        return entry.labels[0]

    def _ranked_categories(self) -> npt.NDArray[np.int32]:
        found = np.asarray(self._categories, dtype=np.int32)
        if self._label_sets is None:
            return found
        counts = np.bincount(found).tolist()
        ranks = rank_label_sets(dict(zip(self._label_sets, counts, strict=True)))
        return np.asarray([ranks[labels] for labels in self._label_sets], dtype=np.int32)[found]

    def _fill_groups(self) -> None:
        """Say of the rows since the last one with a group that they have none."""
        self._groups += _NO_GROUP * (len(self._lengths) - len(self._groups) // len(_NO_GROUP))

    def _disorder(self, entry: Entry) -> SourceError:
        key = entry.key
        if key == self._before:
            places = (Row.from_json(line).container for line in (self._line, entry.line))
            return SourceError(
                f"{self._split}: two images have the same name, {printable(key)}, in "
                f"{' and '.join(map(printable, places))}; rename one"
            )
        return SourceError(
            f"{self._split}: the scan gave {printable(key)} after {printable(self._before or '')}, "
            "expected ascending keys; the data set's scan must sort its rows"
        )
