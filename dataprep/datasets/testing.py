"""What every data set must do, as tests that the author of a data set runs too.

::

    from dataprep.datasets.testing import DatasetTests

    class TestPets(DatasetTests):
        @pytest.fixture
        def dataset(self):
            return Pets()

        @pytest.fixture
        def raw(self, tmp_path):
            ...  # make a small raw directory: every split, a few images each
            return tmp_path / "raw"

Give the fixtures parameters to run every test for several options or forms of the raw data.
"""

# ruff: noqa: S101, D102 - these are tests: asserts, and names that say what they are

from __future__ import annotations

import inspect
import os
import pickle
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from dataprep.archives.reading import close_archives, read_image
from dataprep.datasets.base import Dataset, Found, ScanUnit, refuse_reserved
from dataprep.errors import SourceError, UsageError
from dataprep.index import Row, Scanned

_KINDS = {"int": int, "text": str}
_MOST = 1 << 63  # formats store whole numbers in 64 bits, and the smallest means: missing
_MOST_CHARACTERS = 200  # a file name has 255 bytes at most; index files add endings
_SECOND = 1_000_000_000


class DatasetTests:
    """The suite; subclass it in a test module under a name that begins with ``Test``."""

    @pytest.fixture
    def dataset(self) -> Dataset:
        """The data set to test, with the options to test it with."""
        raise TypeError(f"{type(self).__name__} needs a fixture `dataset` that returns yours")

    @pytest.fixture
    def raw(self) -> Path:
        """A small raw directory with nothing damaged or missing; its files are moved and back."""
        raise TypeError(f"{type(self).__name__} needs a fixture `raw`: a small raw directory")

    def test_it_declares_itself(self, dataset: Dataset) -> None:
        assert re.fullmatch(r"[a-z][a-z0-9_-]*", dataset.name), "name: small letters and digits"
        assert inspect.cleandoc(dataset.summary).strip(), "summary: the command needs a help"
        assert dataset.group.isprintable(), "group: a word"
        assert set(dataset.formats) <= {"JPEG", "PNG"}, "formats: of JPEG and PNG"
        names = [attribute.name for attribute in dataset.attributes]
        assert len(set(names)) == len(names), "attributes: each name once"
        for attribute in dataset.attributes:
            assert re.fullmatch(r"\w+", attribute.name, re.ASCII), f"rename {attribute.name!r}"
            assert attribute.kind in _KINDS, f"{attribute.name}: kind is int or text"
        refuse_reserved(dataset.attributes, "attributes")
        config = dict(dataset.config())
        assert all(isinstance(text, str) for pair in config.items() for text in pair), (
            "config: names and values are text"
        )
        assert config == dict(_made_again(dataset).config()), "config: the same in every process"
        files = {dataset.options.get(option.name) for option in dataset.OPTIONS if option.file}
        assert files.isdisjoint(config.values()), "config: leave paths of files out"

    def test_its_options_are_documented_and_checked(self, dataset: Dataset) -> None:
        names = [option.name for option in dataset.OPTIONS]
        assert len(set(names)) == len(names), "OPTIONS: each name once"
        kind = type(dataset)
        with pytest.raises(UsageError):  # leave that to `Dataset.__init__`
            kind(**{**dataset.options, "no_such_option": "x"})
        for option in dataset.OPTIONS:
            assert re.fullmatch(r"[a-z][a-z0-9_]*", option.name), f"rename --{option.name}"
            assert option.help.strip(), f"--{option.name} needs a help"
            if option.choices:
                assert not option.file, f"--{option.name}: a file has no choices"
                assert option.default in (None, *option.choices), f"--{option.name}: its default"
                with pytest.raises(UsageError):
                    kind(**{**dataset.options, option.name: "no such choice"})

    def test_its_classes_are_listed_once(self, dataset: Dataset) -> None:
        classes = dataset.classes()
        if classes is None:
            found = ["b", "10", "a", "9"]
            ordered = list(dataset.order_classes(found))
            assert ordered == list(dataset.order_classes(reversed(found))), "sort the classes"
            assert sorted(name for name, _ in ordered) == sorted(found), "keep every class"
            return
        assert classes, "classes: return None if only scanning can tell"
        assert all(isinstance(text, str) and text for pair in classes for text in pair)
        assert len({name for name, _ in classes}) == len(classes), "classes: each once"
        assert list(classes) == list(_made_again(dataset).classes() or ()), "classes: one order"

    def test_what_is_found_can_be_scanned_elsewhere(self, dataset: Dataset, raw: Path) -> None:
        found, again = dataset.find(raw, None), _made_again(dataset).find(raw, None)
        assert again == found, "find: the same again for the same raw directory"
        assert repr(again.units) == repr(found.units), "units: a repr without addresses"
        assert found.description, "find: describe what was found, for the terminal"
        assert all(line.isprintable() and line for line in found.description)
        if found.splits is not None:
            assert found.splits, "find: raise SourceError if there is no split"
            assert all(re.fullmatch(r"[a-z0-9_-]+", split) for split in found.splits)
        assert found.units, "find: raise SourceError if there is nothing to scan"
        names = [unit.name for unit in found.units]
        # Some file systems take names that differ in case for the same.
        assert len({name.lower() for name in names}) == len(names), "units: each name once"
        for unit in found.units:
            assert re.fullmatch(r"[\w-][\w.-]*", unit.name, re.ASCII), f"no file name: {unit.name}"
            assert len(unit.name) <= _MOST_CHARACTERS, f"shorten the unit's name {unit.name}"
            _require_below(unit.container)
            copy = pickle.loads(pickle.dumps(unit))  # noqa: S301 - bytes of our own
            assert copy == unit, f"unit {unit.name} changes when it is pickled"
            assert repr(copy) == repr(unit), f"unit {unit.name} changes when it is pickled"

    def test_what_is_not_there_is_refused(
        self, dataset: Dataset, raw: Path, tmp_path: Path
    ) -> None:
        if dataset.find(raw, None).splits is not None:  # else dataprep does, after the scan
            for wanted in (("no-such-split",), ()):
                with _refused(UsageError):  # use `wanted_splits`
                    dataset.find(raw, wanted)
        (tmp_path / "empty").mkdir()
        for place in (tmp_path / "empty", tmp_path / "nowhere"):
            with _refused(SourceError):
                dataset.find(place, None)

    def test_a_split_can_be_had_alone(self, dataset: Dataset, raw: Path) -> None:
        whole = _scan_all(dataset, raw)
        for split in {split for split, _ in whole.images}:
            alone = _scan_all(dataset, raw, (split,))
            assert alone.found.splits in (None, (split,)), "find: return the splits asked for"
            keys = [
                [row.key for name, row in scan.images if name == split] for scan in (whole, alone)
            ]
            assert keys[0] == keys[1], f"find, scan: {split} alone has other images"

    def test_rows_say_what_they_must(self, dataset: Dataset, raw: Path) -> None:
        scan = _scan_all(dataset, raw)
        assert scan.images, "the raw directory should have images"
        there = {split for split, _ in scan.images}
        assert scan.found.splits is None or there == set(scan.found.splits), (
            f"find announces the splits {scan.found.splits}, scan has {sorted(there)}"
        )
        times = Counter((split, row.key) for split, row in scan.images)
        assert [key for key, count in times.items() if count > 1] == [], "keys of two images"
        split_of: dict[str, str] = {}
        for split, row in scan.images:
            assert row.key, "every image needs a key"
            assert not row.group or split_of.setdefault(row.group, split) == split, (
                f"group {row.group} is in two splits"
            )
            _check_row(dataset, row, scan.class_count)
        for unit, scanned in scan.units:
            for row in chain.from_iterable(scanned.rows.values()):
                assert row.labels == tuple(sorted(set(row.labels))), f"sort: {row.labels}"
                _check_row(dataset, row, scan.class_count)
            assert all(ignored.reason for ignored in scanned.ignored), f"{unit.name}: reasons"
            assert all(entry.name for entry in scanned.unmatched), f"{unit.name}: names"
            for what, count in scanned.counts.items():
                assert what.isprintable(), what
                assert count > 0, f"leave out counts of 0: {what}"

    def test_scanning_again_gives_the_same(self, dataset: Dataset, raw: Path) -> None:
        first, again = _scan_all(dataset, raw), _scan_all(_made_again(dataset), raw)
        assert again.images == first.images, "scan: the same again for the same raw directory"
        for (unit, earlier), (_, later) in zip(first.units, again.units, strict=True):
            assert later.ignored == earlier.ignored, f"{unit.name}: sort what is ignored"
            assert (later.counts, later.restarts) == (earlier.counts, earlier.restarts), unit.name

    def test_images_can_be_read(self, dataset: Dataset, raw: Path, tmp_path: Path) -> None:
        scan = _scan_all(dataset, raw)
        for unit, scanned in scan.units:
            if scanned.restarts:
                (tmp_path / unit.restarts_name).write_bytes(scanned.restarts)
        try:
            for _, row in scan.images:
                _require_below(row.container)
                assert len(read_image(raw, row, tmp_path)) == row.size, row.key
        finally:
            close_archives()

    def test_fingerprints_notice_every_change(
        self, dataset: Dataset, raw: Path, tmp_path: Path
    ) -> None:
        """Otherwise an index that was made of earlier files is taken for good."""
        copy = tmp_path / "copy"  # at another place, where nothing that was read is remembered
        shutil.copytree(raw, copy, symlinks=True)
        for unit in dataset.find(copy, None).units:
            close_archives()
            other = _made_again(dataset)
            with _opened_below(copy) as opened:
                scanned = other.scan(copy, unit)
                for _ in scanned.tables:
                    pass
            before = other.fingerprint(copy, unit)
            assert before == _made_again(dataset).fingerprint(copy, unit), "fingerprint: stable"
            container = copy / unit.container
            if scanned.members or any(scanned.rows.values()):  # a list may be known by its content
                opened.discard(container)
                status = container.stat()
                os.utime(container, ns=(status.st_atime_ns, status.st_mtime_ns + _SECOND))
                assert other.fingerprint(copy, unit) != before, (
                    f"fingerprint: {unit.container} was modified, which goes unnoticed"
                )
            for path in sorted(opened):
                before = other.fingerprint(copy, unit)
                path.write_bytes(path.read_bytes() + b"\n")
                assert other.fingerprint(copy, unit) != before, (
                    f"fingerprint: scan reads {path.relative_to(copy)}, whose change goes unnoticed"
                )

    def test_a_container_that_is_gone_is_an_error(self, dataset: Dataset, raw: Path) -> None:
        for unit in dataset.find(raw, None).units:
            container = raw / unit.container
            if unit.container in ("", ".") or not container.exists():
                continue
            away = container.with_name(f"{container.name}.away")
            container.rename(away)
            close_archives()
            try:
                for attempt in (dataset.fingerprint, dataset.scan):
                    with _refused(SourceError):  # use `stat_fingerprint` and `list_container`
                        attempt(raw, unit)
            finally:
                away.rename(container)


@dataclass(frozen=True)
class _Scan:
    """What was found, what each unit holds, and every image as workers get it, with its split."""

    found: Found
    units: Sequence[tuple[ScanUnit, Scanned]]
    images: Sequence[tuple[str, Row]]
    class_count: int


def _scan_all(dataset: Dataset, raw: Path, splits: Sequence[str] | None = None) -> _Scan:
    """Find and scan everything, and join lists with images, as `dataprep.build` does."""
    import pyarrow as pa
    from pyarrow import parquet

    from dataprep.index.images import Images
    from dataprep.index.tables import index_tables, order_rows
    from dataprep_schemas.tables import schema_of

    found = dataset.find(raw, splits)
    units = [(unit, dataset.scan(raw, unit)) for unit in found.units]
    attributes = tuple((attribute.name, attribute.kind) for attribute in dataset.attributes)
    known = dataset.classes()
    tables: list[pa.Table] = [schema_of("index", attributes).empty_table()]
    names = {name for name, _ in known or ()}
    for _, scanned in units:
        classes = [name for name, _ in known] if known is not None else scanned.classes or ()
        names.update(classes)
        tables += index_tables(scanned, classes, attributes)
    index = pa.concat_tables(tables)
    names.update(index["labels"].combine_chunks().flatten().to_pylist())
    ordered = known if known is not None else dataset.order_classes(names)
    with TemporaryDirectory() as place:
        path = Path(place) / "index.parquet"
        parquet.write_table(index, path)
        statuses = Counter(index["status"].to_pylist())
        own = [name for name, _ in attributes]
        with Images([path], Path(place), statuses, own, None) as all_images:
            images = all_images.database.sql("select * from images order by split, key")
            table = images.to_arrow_table()
    number = {name: position for position, (name, _) in enumerate(ordered)}
    numbered = table.drop(["split", "group"])
    for column in ("labels", "box_labels"):
        values = [some and [number[name] for name in some] for some in table[column].to_pylist()]
        at = numbered.schema.get_field_index(column)
        numbered = numbered.set_column(at, column, pa.array(values, pa.list_(pa.int32())))
    rows = zip(
        table["split"].to_pylist(), table["group"].to_pylist(), order_rows(numbered), strict=True
    )
    joined = [(split, replace(row, group=group or "")) for split, group, row in rows]
    return _Scan(found, units, joined, len(ordered))


def _made_again(dataset: Dataset) -> Dataset:
    """Another object with the same options, as another process has it."""
    return type(dataset)(**dataset.options)


def _check_row(dataset: Dataset, row: Row, class_count: int) -> None:
    for label in (*row.labels, *row.box_labels):
        assert type(label) is int, f"{row.key}: label {label!r} is no whole number"
        assert 0 <= label < class_count, f"{row.key}: label {label} is no index of a class"
    assert dataset.multilabel or len(row.labels) == 1, f"{row.key}: one label, or set multilabel"
    assert dataset.has_boxes or not row.boxes, f"{row.key} has boxes: has_boxes must be true"
    assert len(row.box_labels) in (0, len(row.boxes)), f"{row.key}: a label for each box, or none"
    for xmin, ymin, xmax, ymax in row.boxes:
        assert 0 <= xmin < xmax <= 1, f"{row.key}: boxes are fractions of the width"
        assert 0 <= ymin < ymax <= 1, f"{row.key}: boxes are fractions of the height"
    kinds = {attribute.name: _KINDS[attribute.kind] for attribute in dataset.attributes}
    for name, value in row.attributes.items():
        assert name in kinds, f"{row.key}: declare the attribute {name}"
        assert type(value) is kinds[name], f"{row.key}: {name} is {value!r}, of another kind"
        assert value != "", f"{row.key}: leave {name} out where it is missing"
        assert isinstance(value, str) or -_MOST < value < _MOST, f"{row.key}: {name} is too large"


def _require_below(container: str) -> None:
    path = PurePosixPath(container)
    assert not path.is_absolute(), f"{container}: name it relative to the raw directory"
    assert ".." not in path.parts, f"{container} is not below the raw directory"


@contextmanager
def _refused(kind: type[Exception]) -> Iterator[None]:
    with pytest.raises(kind) as caught:
        yield
    assert str(caught.value).isprintable(), "a message is one printable line"
    assert str(caught.value), "a message says what was found and expected"


@contextmanager
def _opened_below(directory: Path) -> Iterator[set[Path]]:
    """Which files in a directory Python code opens; known when the block is left."""
    opened: set[Path] = set()
    paths: list[Any] = []
    noting = True

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        # Also those of `os.open` and of `Path.open`. A hook cannot be taken away again.
        if noting and event == "open" and not isinstance(arguments[0], int):
            paths.append(arguments[0])

    sys.addaudithook(note)
    try:
        yield opened
    finally:
        noting = False
    found = (Path(os.path.abspath(os.fsdecode(path))) for path in paths)  # noqa: PTH100 - links stay
    opened.update(path for path in found if directory in path.parents and path.is_file())
