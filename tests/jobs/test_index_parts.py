"""Parts of the index: reused while they are whole and the raw data is the same, and no longer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from dataprep.datasets.base import Dataset, Found, ScanUnit
from dataprep.errors import SinkError, SourceError
from dataprep.jobs.output.index_parts import (
    IndexParts,
    Scan,
    check_unchanged,
    is_current,
    read_part,
    scan_into,
)
from dataprep.rows import Ignored, Row, Scanned, Unmatched
from dataprep_schemas.fields import Field
from dataprep_schemas.state import IndexPart

UNIT = ScanUnit("train-a", "a.tar")
FOUND = Found((), (UNIT,), ("train",))
ROW = Row("x.png", "a.tar", 512, 9, 1, (0,))


class Given(Dataset):
    """Gives what it was given."""

    name = "given"

    def __init__(self, scanned: Scanned) -> None:
        super().__init__()
        self.scanned = scanned
        self.seen = "1"

    def find(self, raw: Path, splits: Sequence[str] | None) -> Found:
        raise NotImplementedError

    def scan(self, raw: Path, found: Found, unit: ScanUnit) -> Scanned:
        return self.scanned

    def fingerprint(self, raw: Path, unit: ScanUnit) -> str:
        return self.seen


SCANNED = Scanned(
    {"train": [ROW]},
    [Ignored("a.tar", "n.txt", "no image")],
    classes=["cat", "dog"],
    counts={"odd": 3},
    restarts=b"points",
)


def scanned(directory: Path, what: Scanned = SCANNED) -> tuple[Scan, IndexPart]:
    scan = Scan(Given(what), directory, FOUND, directory)
    scan_into(scan, UNIT)
    part = read_part(directory, UNIT)
    assert part is not None
    return scan, part


def test_a_part_says_what_its_unit_holds(tmp_path: Path) -> None:
    scan, part = scanned(tmp_path)
    assert part.classes == ("cat", "dog")
    assert part.statuses == {"image": 1, "ignored": 1}
    assert part.counts == {"odd": 3}
    assert (tmp_path / UNIT.restarts_name).read_bytes() == b"points"
    assert is_current(part, scan, UNIT)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "train-a.json",
        "train-a.parquet",
        "train-a.restarts",
    ]


def test_changed_raw_data_is_noticed(tmp_path: Path) -> None:
    scan, part = scanned(tmp_path)
    cast("Given", scan.dataset).seen = "2"
    with pytest.raises(SourceError, match="changed while it was read"):
        check_unchanged(IndexParts(tmp_path, {UNIT: part}), scan)
    assert not is_current(part, scan, UNIT)


def test_what_else_is_found_is_part_of_it(tmp_path: Path) -> None:
    scan, part = scanned(tmp_path)
    for others in ({"classes": (("cat", "cat"),)}, {"fields": (Field("age", "int"),)}):
        assert not is_current(part, replace(scan, found=replace(FOUND, **others)), UNIT)
    more = replace(FOUND, units=(UNIT, ScanUnit("train-b", "b.tar")), description=("two",))
    assert is_current(part, replace(scan, found=more), UNIT)


def test_a_file_that_was_missing_is_looked_for_again(tmp_path: Path) -> None:
    unmatched = [Unmatched("missing", "gone.png", "list.csv", "train")]
    scan, part = scanned(tmp_path, Scanned({"train": [ROW]}, unmatched=unmatched, classes=["a"]))
    check_unchanged(IndexParts(tmp_path, {UNIT: part}), scan)
    assert not is_current(part, scan, UNIT)


@pytest.mark.parametrize("name", ["train-a.json", "train-a.parquet", "train-a.restarts"])
def test_one_bit_anywhere_makes_a_part_as_if_it_were_not_there(tmp_path: Path, name: str) -> None:
    scan, part = scanned(tmp_path)
    path = tmp_path / name
    data = path.read_bytes()
    for at in range(0, len(data), max(1, len(data) // 97)):
        damaged = bytearray(data)
        damaged[at] ^= 4
        path.write_bytes(damaged)
        assert read_part(tmp_path, UNIT) is None
    path.unlink()
    assert read_part(tmp_path, UNIT) is None
    scan_into(scan, UNIT)
    assert read_part(tmp_path, UNIT) == part


def test_an_index_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    scan = Scan(Given(SCANNED), tmp_path, FOUND, tmp_path / "gone")
    with pytest.raises(SinkError, match="cannot be written while indexing train-a"):
        scan_into(scan, UNIT)
    assert not (tmp_path / f"{UNIT.name}.parquet").exists()
