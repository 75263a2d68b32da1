"""Everything that a data set finds and scans, for the tests of the suite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dataprep.index import Row, Scanned
from dataprep.sources.base import Dataset, Found, ScanUnit


@dataclass(frozen=True)
class Scan:
    """What `Dataset.find` found, and what `Dataset.scan` made of each unit."""

    found: Found
    units: Sequence[tuple[ScanUnit, Scanned]]

    def rows(self) -> Iterator[tuple[str, Row]]:
        """Every row of every unit with its split."""
        for _, scanned in self.units:
            for split, rows in scanned.rows.items():
                for row in rows:
                    yield split, row

    def splits(self) -> tuple[str, ...]:
        """Those announced or, if only scanning could tell, those there are; sorted then."""
        if self.found.splits is not None:
            return self.found.splits
        return tuple(sorted({split for split, _ in self.rows()}))


def scan_all(dataset: Dataset, raw: Path, splits: Sequence[str] | None = None) -> Scan:
    """Find and scan everything."""
    found = dataset.find(raw, splits)
    return Scan(found, [(unit, dataset.scan(raw, unit)) for unit in found.units])


def made_again(dataset: Dataset) -> Dataset:
    """Another object with the same options, as another process has it."""
    return type(dataset)(**dataset.options)


def class_count(dataset: Dataset, scanned: Scanned) -> int:
    """How many classes the labels of a unit may be indices into."""
    own = dataset.classes()
    if scanned.classes is not None:
        return len(scanned.classes)
    assert own is not None, "neither Dataset.classes nor Scanned.classes says what labels mean"  # noqa: S101
    return len(own)
