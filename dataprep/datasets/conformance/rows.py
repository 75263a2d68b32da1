"""Conformance: what `Dataset.scan` lists, and whether the images are where it says."""

# ruff: noqa: S101, D102 - these are tests: asserts, and names that say what they are

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path, PurePosixPath

from dataprep.archives.reading import close_archives, read_image
from dataprep.datasets.base import Dataset
from dataprep.datasets.conformance.scanning import made_again, scan_all

_KINDS = {"int": int, "text": str}
_MOST = 1 << 63  # formats store whole numbers in 64 bits, and the smallest means: missing


class RowTests:
    """Rows: keys, splits, labels, attributes, boxes, groups, bytes; and what is no row."""

    def test_scanning_again_gives_the_same(self, dataset: Dataset, raw: Path) -> None:
        first, again = scan_all(dataset, raw), scan_all(made_again(dataset), raw)
        assert list(again.rows()) == list(first.rows())
        for (_, earlier), (_, later) in zip(first.units, again.units, strict=True):
            assert later.ignored == earlier.ignored
            assert later.counts == earlier.counts
            assert later.restarts == earlier.restarts

    def test_keys_come_once(self, dataset: Dataset, raw: Path) -> None:
        scan = scan_all(dataset, raw)
        times = Counter((split, row.key) for split, row in scan.rows())
        assert [key for key, count in times.items() if count > 1] == [], "keys of two images"
        assert all(row.key for _, row in scan.rows())

    def test_every_split_announced_is_there_and_no_other(self, dataset: Dataset, raw: Path) -> None:
        scan = scan_all(dataset, raw)
        there = {split for split, _ in scan.rows()}
        assert there, "the raw directory should have images"
        if scan.found.splits is not None:
            assert there == set(scan.found.splits)

    def test_labels_are_indices_of_classes(self, dataset: Dataset, raw: Path) -> None:
        scan = scan_all(dataset, raw)
        for _, row in scan.rows():
            assert all(0 <= label < scan.class_count for label in row.labels), row.key
            assert dataset.multilabel or len(row.labels) == 1, row.key
        for row in (row for _, one in scan.units for rows in one.rows.values() for row in rows):
            assert all(type(label) is int for label in row.labels), row.key
            assert row.labels == tuple(sorted(set(row.labels))), "ascending, each once"

    def test_attributes_are_declared_and_of_their_kind(self, dataset: Dataset, raw: Path) -> None:
        kinds = {attribute.name: _KINDS[attribute.kind] for attribute in dataset.attributes}
        scan = scan_all(dataset, raw)
        scanned = [row for _, one in scan.units for rows in one.rows.values() for row in rows]
        for row in [*scanned, *(row for _, row in scan.rows())]:
            for name, value in row.attributes.items():
                assert name in kinds, f"{row.key} has an attribute that is not declared"
                assert type(value) is kinds[name], f"{row.key}: {name} is {value!r}"
                assert value != "", f"{row.key}: leave {name} out where it is missing"
                assert isinstance(value, str) or -_MOST < value < _MOST

    def test_boxes_lie_in_their_image(self, dataset: Dataset, raw: Path) -> None:
        scan = scan_all(dataset, raw)
        for _, row in scan.rows():
            assert dataset.has_boxes or not row.boxes, "has_boxes says that there are none"
            for xmin, ymin, xmax, ymax in row.boxes:
                assert 0 <= xmin < xmax <= 1, f"{row.key}: fractions of the width"
                assert 0 <= ymin < ymax <= 1, f"{row.key}: fractions of the height"
            assert len(row.box_labels) in (0, len(row.boxes)), row.key
            assert all(0 <= label < scan.class_count for label in row.box_labels), row.key

    def test_no_group_is_in_two_splits(self, dataset: Dataset, raw: Path) -> None:
        split_of: dict[str, str] = {}
        for split, row in scan_all(dataset, raw).rows():
            if row.group:
                assert split_of.setdefault(row.group, split) == split, f"{row.group} is in two"

    def test_images_can_be_read(self, dataset: Dataset, raw: Path, tmp_path: Path) -> None:
        index = tmp_path / "index"
        index.mkdir()
        close_archives()
        try:
            scan = scan_all(dataset, raw)
            for unit, scanned in scan.units:
                if scanned.restarts:
                    (index / unit.restarts_name).write_bytes(scanned.restarts)
            for _, row in scan.rows():
                place = PurePosixPath(row.container)
                assert not place.is_absolute()
                assert ".." not in place.parts
                data = read_image(raw, row, index)
                assert len(data) == row.size, row.key
        finally:
            close_archives()

    def test_what_is_no_row_is_told(self, dataset: Dataset, raw: Path) -> None:
        scan = scan_all(dataset, raw)
        for _, scanned in scan.units:
            for ignored in scanned.ignored:
                json.dumps(asdict(ignored))
                assert ignored.reason
            for unmatched in scanned.unmatched:
                json.dumps(asdict(unmatched))
                assert unmatched.name
                assert unmatched.kind in ("missing", "unlisted")
            for what, count in scanned.counts.items():
                assert what.isprintable()
                assert type(count) is int, what
                assert count > 0, what
