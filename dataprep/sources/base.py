"""What a data set is to the rest of the program: an interface and the types it speaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from dataprep.index import Ignored, Scanned


@dataclass(frozen=True, slots=True)
class ScanUnit:
    """One piece of raw data to scan: a directory, an archive, or an archive in an archive.

    Attributes:
        split: ``train`` or ``validation``.
        name: unique and stable within a data set, safe as a file name: ``train-n01440764``.
        kind: whether `container` is a directory of images or a tar archive.
        container: the directory or archive, relative to the raw directory.
        offset: where in the container the archive starts, in bytes; 0 unless it is nested.
        size: how many bytes a nested archive has; None for everything else.
        inner: the nested archive's name inside the container; empty unless it is nested.
        category: the class all images of the unit have; empty when labels come from a list.
        labels: the list of labels, relative to the raw directory; empty for the shipped list.
        stray: what lay next to the unit and belongs to none; reported when this unit is scanned.
    """

    split: str
    name: str
    kind: Literal["folder", "archive"]
    container: str
    offset: int = 0
    size: int | None = None
    inner: str = ""
    category: str = ""
    labels: str = ""
    stray: tuple[Ignored, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """What lies under the raw directory.

    Attributes:
        description: one line a split, for the terminal.
        units: what to scan, in a stable order.
        official_counts: how many images each split of the complete data set has.
    """

    description: tuple[str, ...]
    units: tuple[ScanUnit, ...]
    official_counts: Mapping[str, int]


class Dataset(Protocol):
    """A data set in its published form: how to find it, list it and label it.

    Attributes:
        name: what the command line calls it.
        splits: the splits it is published in, in the order they are prepared.
    """

    name: str
    splits: tuple[str, ...]

    def classes(self) -> Sequence[tuple[str, str]]:
        """Every class as (identifier, English name); the position is the 0-based class index."""
        ...

    def find(self, raw: Path, splits: Sequence[str] | None) -> Found:
        """Detect what lies under `raw`, reading directories and archive headers only.

        Args:
            raw: the raw directory, as the user gave it.
            splits: the splits wanted; None demands every split of the data set.

        Raises:
            SourceError: nothing was found, or two things that contradict each other.
            UsageError: `splits` names a split the data set does not have.
        """
        ...

    def scan(self, raw: Path, unit: ScanUnit) -> Scanned:
        """List one unit: rows sorted by key, and whatever was left out.

        Raises:
            SourceError: the unit is damaged, unreadable, mislabelled or holds a key twice.
        """
        ...

    def fingerprint(self, raw: Path, unit: ScanUnit) -> str:
        """Identify what `scan` would read, cheaply, so that an earlier index can be reused.

        Raises:
            SourceError: something the unit needs is gone or unreadable.
        """
        ...
