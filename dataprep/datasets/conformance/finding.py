"""Conformance: what `Dataset.find` returns, and refuses."""

# ruff: noqa: S101, D102 - these are tests: asserts, and names that say what they are

from __future__ import annotations

import pickle
import re
from pathlib import Path, PurePosixPath

import pytest

from dataprep.datasets.base import Dataset, ScanUnit
from dataprep.datasets.conformance.scanning import made_again, scan_all
from dataprep.errors import DataprepError, SourceError, UsageError

_MOST_CHARACTERS = 200  # a file name has 255 bytes at most; index files add endings
_UNKNOWN = "no-such-split"


class FindingTests:
    """Units and splits."""

    def test_what_is_found_is_described(self, dataset: Dataset, raw: Path) -> None:
        found = dataset.find(raw, None)
        assert found.units
        assert found.description
        assert all(line.isprintable() and line for line in found.description)
        if found.splits is not None:
            assert found.splits
            assert len(set(found.splits)) == len(found.splits)
            assert all(re.fullmatch(r"[a-z0-9_-]+", split) for split in found.splits)
            assert set(found.official_counts) <= {"train", "validation", "test", *found.splits}

    def test_units_have_names_that_are_safe_as_file_names(
        self, dataset: Dataset, raw: Path
    ) -> None:
        names = [unit.name for unit in dataset.find(raw, None).units]
        for name in names:
            assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", name)
            assert len(name) <= _MOST_CHARACTERS
        # Some file systems take names that differ in case for the same.
        assert len({name.lower() for name in names}) == len(names)

    def test_units_name_a_place_below_the_raw_directory(self, dataset: Dataset, raw: Path) -> None:
        for unit in dataset.find(raw, None).units:
            path = PurePosixPath(unit.container)
            assert not path.is_absolute()
            assert ".." not in path.parts

    def test_finding_again_gives_the_same(self, dataset: Dataset, raw: Path) -> None:
        found, again = dataset.find(raw, None), made_again(dataset).find(raw, None)
        assert again == found
        assert repr(again.units) == repr(found.units)

    def test_units_survive_pickling(self, dataset: Dataset, raw: Path) -> None:
        for unit in dataset.find(raw, None).units:
            assert isinstance(unit, ScanUnit)
            again = pickle.loads(pickle.dumps(unit))  # noqa: S301 - bytes of our own
            assert again == unit
            assert repr(again) == repr(unit)

    def test_a_split_that_there_is_not_is_refused(self, dataset: Dataset, raw: Path) -> None:
        if dataset.find(raw, None).splits is None:
            return  # dataprep will, once it has scanned
        for wanted in ((_UNKNOWN,), ()):
            with pytest.raises(UsageError) as caught:
                dataset.find(raw, wanted)
            _require_one_line(caught.value)

    def test_a_split_can_be_had_alone(self, dataset: Dataset, raw: Path) -> None:
        whole = scan_all(dataset, raw)
        for split in whole.splits():
            alone = scan_all(dataset, raw, (split,))
            assert alone.found.splits in (None, (split,))
            expected = sorted(row.key for name, row in whole.rows() if name == split)
            assert sorted(row.key for name, row in alone.rows() if name == split) == expected

    def test_nothing_is_found_where_nothing_is(self, dataset: Dataset, tmp_path: Path) -> None:
        empty = tmp_path / "empty"
        empty.mkdir()
        for place in (empty, tmp_path / "nowhere"):
            with pytest.raises(SourceError) as caught:
                dataset.find(place, None)
            _require_one_line(caught.value)


def _require_one_line(error: DataprepError) -> None:
    assert str(error).isprintable(), "a message is one printable line"
    assert str(error)
