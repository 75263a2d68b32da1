"""Writes a listing of any number of images that are not there, in seconds and in bounded memory.

Their sizes are listed, so nothing looks for the files. The rows are shuffled: that is the hardest
input for what sorts them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

CLASSES = 21_841  # as many as ImageNet-22K has
FINDINGS = tuple(f"finding-{number:02d}" for number in range(14))
LABEL_SETS = 800  # ChestX-ray14 has 836
SEPARATOR = "|"

_HEADER = "path,label,size\n"
_CHUNK = 1 << 16  # rows
_FIRST, _APART = 4_475, 601  # numbers of made-up synsets, so that they have eight digits

WriteRow = Callable[[int], str]


def write_classes(path: Path, rows: int) -> None:
    """List so many images, each of one of `CLASSES` classes."""
    _write(path, rows, _class_row)


def write_findings(path: Path, rows: int) -> None:
    """List so many images with labels of `FINDINGS`, in `LABEL_SETS` sets, some far more often."""
    sets = [SEPARATOR.join(labels) for labels in _label_sets()]

    def row(number: int) -> str:
        # Frequencies fall as a power of the rank, as those of real label sets do.
        place = int(len(sets) * (_scattered(number) / (1 << 32)) ** 3)
        return f"{number:08d}_{number % 7:03d}.png,{sets[place]},{_size(number)}\n"

    _write(path, rows, row)


def _write(path: Path, rows: int, row: WriteRow) -> None:
    """Make the file, unless it is there; it appears only when it is complete."""
    if path.exists():
        return
    order = np.random.default_rng(0).permutation(rows).astype(np.int32)
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("w") as file:
        file.write(_HEADER)
        for start in range(0, rows, _CHUNK):
            file.write("".join(map(row, order[start : start + _CHUNK].tolist())))
    partial.replace(path)


def _class_row(number: int) -> str:
    synset = f"n{_FIRST + number % CLASSES * _APART:08d}"
    return f"{synset}/{synset}_{number // CLASSES}.JPEG,{synset},{_size(number)}\n"


def _size(number: int) -> int:
    """Of a tiny image: before it writes, a job looks whether all of them have room."""
    return 100 + _scattered(number) % 400


def _scattered(number: int) -> int:
    """A number below 2 ** 32 that looks like chance: Knuth's multiplicative hash."""
    return number * 2_654_435_761 % (1 << 32)


def _label_sets() -> Sequence[tuple[str, ...]]:
    """No label, then the sets of one label, of two and so on."""
    by_size = sorted(range(1 << len(FINDINGS)), key=lambda bits: (bits.bit_count(), bits))
    return [
        tuple(name for place, name in enumerate(FINDINGS) if bits >> place & 1)
        for bits in islice(by_size, LABEL_SETS)
    ]
