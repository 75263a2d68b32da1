"""Every row of a split in key order, with only numbers in memory: about 40 bytes an image.

The rows themselves stay in a file and are fetched one at a time, so that planning fourteen
million images needs no more memory than a login node gives away.
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dataprep.assembly.index_parts import read_lines
from dataprep.assembly.workspace import partial_path
from dataprep.deal import Hashes, as_hashes, digest, new_game
from dataprep.errors import SourceError
from dataprep.index import Row
from dataprep.wording import printable


@dataclass(frozen=True, slots=True)
class SplitIndex:
    """The rows of a split, in key order.

    Attributes:
        descriptor: an open file that holds the rows' lines.
        offsets: int64, where each line starts.
        lengths: int32, how long it is, newline included.
        hashes: uint64, shape (rows, 2), for `dataprep.deal`.
        classes: int32, 0-based class indices.
        sizes: int64, of the images, in bytes.
        input_sha256: over every (key, size, class index): the same for every raw layout.
    """

    descriptor: int
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int32]
    hashes: Hashes
    classes: npt.NDArray[np.int32]
    sizes: npt.NDArray[np.int64]
    input_sha256: str

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.offsets)

    def lines(self, positions: Iterable[int]) -> Iterator[bytes]:
        """The rows at ``positions``, as lines with their newline."""
        for position in positions:
            yield os.pread(
                self.descriptor, int(self.lengths[position]), int(self.offsets[position])
            )

    def take(self, positions: npt.NDArray[np.int64]) -> SplitIndex:
        """The rows at ``positions``, which ascend."""
        total = hashlib.sha256()
        for line in self.lines(positions.tolist()):
            total.update(_input(Row.from_json(line)))
        return SplitIndex(
            self.descriptor,
            self.offsets[positions],
            self.lengths[positions],
            self.hashes[positions],
            self.classes[positions],
            self.sizes[positions],
            total.hexdigest(),
        )


@contextmanager
def open_index(
    parts: Sequence[Path], directory: Path, *, seed: int, split: str
) -> Iterator[SplitIndex]:
    """Merge the parts of a split into one index, kept in a temporary file in ``directory``.

    Raises:
        SourceError: two rows have the same key, or there are no rows at all.
    """
    path = partial_path(directory / f"{split}.rows")
    try:
        index = _merge(parts, path, seed=seed, split=split)
        try:
            yield index
        finally:
            os.close(index.descriptor)
    finally:
        path.unlink(missing_ok=True)


def _merge(parts: Sequence[Path], path: Path, *, seed: int, split: str) -> SplitIndex:
    game = new_game(seed=seed, split=split)
    lengths, classes, sizes = array("i"), array("i"), array("q")
    digests = bytearray()
    total = hashlib.sha256()
    before: str | None = None
    with path.open("xb") as file:
        for line in _lines_in_key_order(parts):
            row = Row.from_json(line)
            if row.key == before:
                raise SourceError(
                    f"{split}: two images have the same name, {printable(row.key)}; rename one"
                )
            before = row.key
            file.write(line)
            lengths.append(len(line))
            classes.append(row.class_index)
            sizes.append(row.size)
            digests += digest(row.key, game)
            total.update(_input(row))
    if before is None:
        raise SourceError(f"{split}: no images found; nothing to do")
    ends = np.cumsum(np.asarray(lengths, dtype=np.int64))
    return SplitIndex(
        descriptor=os.open(path, os.O_RDONLY),
        offsets=ends - np.asarray(lengths),
        lengths=np.asarray(lengths, dtype=np.int32),
        hashes=as_hashes(digests),
        classes=np.asarray(classes, dtype=np.int32),
        sizes=np.asarray(sizes, dtype=np.int64),
        input_sha256=total.hexdigest(),
    )


def _input(row: Row) -> bytes:
    return f"{row.key}\0{row.size}\0{row.class_index}\n".encode("utf-8", "surrogateescape")


def _lines_in_key_order(parts: Sequence[Path]) -> Iterator[bytes]:
    """Every line of the parts, each of which is in key order, in the order of all keys.

    Parts rarely overlap: a class folder is a range of keys. Those that do are sorted together.
    """
    together: list[Path] = []
    last = ""
    for first_key, last_key, part in sorted(_key_ranges(parts)):
        if together and first_key > last:
            yield from _sorted_lines(together)
            together = []
        together.append(part)
        last = max(last, last_key)
    yield from _sorted_lines(together)


def _key_ranges(parts: Sequence[Path]) -> Iterator[tuple[str, str, Path]]:
    for part in parts:
        first = last = None
        for line in read_lines(part):
            first = first or line
            last = line
        if first is not None and last is not None:
            yield Row.from_json(first).key, Row.from_json(last).key, part


def _sorted_lines(parts: Sequence[Path]) -> Iterator[bytes]:
    if len(parts) == 1:
        yield from read_lines(parts[0])
        return
    lines = [line for part in parts for line in read_lines(part)]
    yield from sorted(lines, key=lambda line: Row.from_json(line).key)
