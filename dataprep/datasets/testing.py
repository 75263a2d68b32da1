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

import os
import pickle
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from dataprep.archives.listing import is_image_name
from dataprep.datasets.base import Dataset, Found, ScanUnit, refuse_reserved
from dataprep.datasets.reading import close_archives, read_image
from dataprep.errors import SourceError, UsageError
from dataprep.formats.subprocess_reader import in_child
from dataprep.options import options_of, stated
from dataprep.rows import Row, Scanned
from dataprep_schemas.fields import BOX_LABELS, BOXES, MASK, NAME, named

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
        """A small raw directory with nothing damaged or missing; its files are changed."""
        raise TypeError(f"{type(self).__name__} needs a fixture `raw`: a small raw directory")

    def test_it_declares_itself(self, dataset: Dataset) -> None:
        assert re.fullmatch(r"[a-z][a-z0-9_-]*", dataset.name), "name: small letters and digits"
        assert dataset.summary.strip(), "summary: the command needs a help"
        assert set(dataset.formats) <= {"JPEG", "PNG"}, "formats: of JPEG and PNG"
        names = [option.name for option in options_of(dataset.Options)]
        assert len({*names}) == len(names), "Options: each name once"
        for option in options_of(dataset.Options):
            assert re.fullmatch(r"[a-z][a-z0-9_]*", option.name), f"rename --{option.name}"
            assert option.help.strip(), f"--{option.name} needs a help"
            assert not option.required, f"--{option.name} needs a default, perhaps None"
            if option.words:
                assert option.default in (None, *option.words), f"--{option.name}: its default"
        config = dict(dataset.config())
        assert config == dict(_made_again(dataset).config()), "config: the same in every process"
        files = {str(it) for it in vars(dataset.options).values() if isinstance(it, Path)}
        assert files.isdisjoint(config.values()), "config: leave paths of files out"

    def test_its_classes_are_listed_once(self, dataset: Dataset, raw: Path) -> None:
        found = dataset.find(raw, None)
        if found.classes is None:  # only scanning can tell
            names = ["b", "10", "a", "9"]
            ordered = list(dataset.name_classes(found, names).classes)
            again = dataset.name_classes(found, names[::-1]).classes
            assert ordered == list(again), "name_classes: sort them"
            assert sorted(name for name, _ in ordered) == sorted(names), "keep every class"
        else:
            names = [name for name, _ in found.classes]
            assert len({*names}) == len(names) > 0, "classes: each once"

    def test_what_is_found_can_be_scanned_elsewhere(self, dataset: Dataset, raw: Path) -> None:
        found, again = dataset.find(raw, None), _made_again(dataset).find(raw, None)
        assert again == found, "find: the same again for the same raw directory"
        assert pickle.loads(pickle.dumps(found)) == found, "find: what can be pickled"  # noqa: S301 - bytes of our own
        assert found.description, "find: describe what was found, for the terminal"
        for field in found.fields:
            assert NAME.fullmatch(field.name), f"rename {field.name!r}"
        refuse_reserved(found.fields, "fields")
        for split in found.splits or ():
            assert re.fullmatch(r"[a-z0-9_-]+", split), f"rename the split {split!r}"
        # Some file systems take names that differ in case for the same.
        names = [unit.name.lower() for unit in found.units]
        assert len(set(names)) == len(names), "units: each name once"
        for unit in found.units:
            assert re.fullmatch(r"[\w-][\w.-]*", unit.name, re.ASCII), f"no file name: {unit.name}"
            assert len(unit.name) <= _MOST_CHARACTERS, f"shorten the unit's name {unit.name}"
            _require_below(unit.container)
            copy = pickle.loads(pickle.dumps(unit))  # noqa: S301 - bytes of our own
            assert repr(copy) == repr(unit), f"unit {unit.name} changes when it is pickled"

    def test_what_is_not_there_is_refused(
        self, dataset: Dataset, raw: Path, tmp_path: Path
    ) -> None:
        if dataset.find(raw, None).splits is not None:  # else dataprep does, after the scan
            for wanted in (("no-such-split",), ()):
                with pytest.raises(UsageError):  # use `wanted_splits`
                    dataset.find(raw, wanted)
        (tmp_path / "empty").mkdir()
        for place in (tmp_path / "empty", tmp_path / "nowhere"):
            with pytest.raises(SourceError) as caught:
                dataset.find(place, None)
            assert str(caught.value).isprintable(), "a message is one printable line"

    def test_a_split_can_be_had_alone(self, dataset: Dataset, raw: Path) -> None:
        whole = _scan_all(dataset, raw)
        for split in {row["split"] for row in whole.images}:
            alone = _scan_all(dataset, raw, (split,))
            assert alone.found.splits in (None, (split,)), "find: return the splits asked for"
            there = [row for row in whole.images if row["split"] == split]
            assert [row for row in alone.images if row["split"] == split] == there, (
                f"{split} alone has other images"
            )

    def test_rows_say_what_they_must(self, dataset: Dataset, raw: Path) -> None:
        scan = _scan_all(dataset, raw)
        assert scan.images, "the raw directory should have images"
        there = {row["split"] for row in scan.images}
        assert scan.found.splits is None or there == set(scan.found.splits), (
            f"find announces the splits {scan.found.splits}, scan has {sorted(there)}"
        )
        times = Counter((row["split"], row["key"]) for row in scan.images)
        assert [key for key, count in times.items() if count > 1] == [], "keys of two images"
        split_of: dict[str, str] = {}
        for row in scan.images:
            assert row["key"], "every image needs a key"
            group, split = row["group"], row["split"]
            assert not group or split_of.setdefault(group, split) == split, (
                f"group {group} is in two splits"
            )
            _check_row(scan.found, row)
        again = _scan_all(_made_again(dataset), raw)
        assert again.images == scan.images, "scan: the same again for the same raw directory"

    def test_it_is_the_same_in_another_place_and_process(
        self, dataset: Dataset, raw: Path, tmp_path: Path
    ) -> None:
        elsewhere = Path(shutil.copytree(raw, tmp_path / "elsewhere"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONHASHSEED", "random")  # sets have another order there
            ((classes, images),) = in_child(raw, _seen_there, _made_again(dataset), elsewhere)
        assert classes == dataset.find(raw, None).classes, "classes: the same in every process"
        for here, there in zip(_scan_all(dataset, raw).images, images, strict=True):
            assert here == there, "scan: the same in another process, and wherever raw is"

    def test_images_can_be_read(self, dataset: Dataset, raw: Path, tmp_path: Path) -> None:
        scan = _scan_all(dataset, raw)
        for unit, scanned in scan.units:
            if scanned.restarts:
                (tmp_path / unit.restarts_name).write_bytes(scanned.restarts)
        try:
            for row in scan.rows:
                _require_below(row.container)
                assert len(read_image(raw, row, tmp_path)) == row.size, row.key
        finally:
            close_archives()

    def test_fingerprints_notice_every_change(self, dataset: Dataset, raw: Path) -> None:
        """Otherwise an index that was made of earlier files is taken for good."""
        searched = dataset.find(raw, None)
        see, units = partial(_seen, dataset, raw, searched), searched.units
        before = [see(unit) for unit in units]
        assert before == [see(unit) for unit in units], "fingerprint: stable"
        for unit, (fingerprint, scanned) in zip(units, before, strict=True):
            container = raw / unit.container
            if isinstance(scanned, Scanned) and (scanned.members or any(scanned.rows.values())):
                mtime = container.stat().st_mtime_ns
                os.utime(container, ns=(mtime, mtime + _SECOND))
                assert see(unit)[0] != fingerprint, (
                    f"fingerprint: {unit.container} was modified, which goes unnoticed"
                )
                os.utime(container, ns=(mtime, mtime))
        files = [path for path in raw.rglob("*") if path.is_file() and not is_image_name(path.name)]
        for path in files:
            content, mtime = path.read_bytes(), path.stat().st_mtime_ns
            path.write_bytes(content[: len(content) // 2])
            for unit, (fingerprint, scanned) in zip(units, before, strict=True):
                found = see(unit)
                assert found[1] == scanned or found[0] != fingerprint, (
                    f"fingerprint: scan reads {path.relative_to(raw)}, whose change goes unnoticed"
                )
            path.write_bytes(content)
            os.utime(path, ns=(mtime, mtime))

    def test_a_container_that_is_gone_is_an_error(self, dataset: Dataset, raw: Path) -> None:
        found = dataset.find(raw, None)
        for unit in found.units:
            container = raw / unit.container
            if unit.container in ("", ".") or not container.exists():
                continue
            away = container.rename(container.with_name(f"{container.name}.away"))
            close_archives()
            with pytest.raises(SourceError):  # use `stat_fingerprint`
                dataset.fingerprint(raw, unit)
            with pytest.raises(SourceError):  # use `list_container`
                dataset.scan(raw, found, unit)
            away.rename(container)


@dataclass(frozen=True)
class _Scan:
    """What was found, what each unit holds, and every image: with its labels, and where it is."""

    found: Found
    units: Sequence[tuple[ScanUnit, Scanned]]
    images: Sequence[dict[str, Any]]
    rows: Sequence[Row]


def _scan_all(dataset: Dataset, raw: Path, splits: Sequence[str] | None = None) -> _Scan:
    """Find and scan everything, and join lists with images, as a job does."""
    import pyarrow as pa
    from pyarrow import parquet

    from dataprep.tables.arrow import fitted, index_tables, order_rows
    from dataprep.tables.images import Images
    from dataprep_schemas.tables import schema_of

    found = dataset.find(raw, splits)
    units = [(unit, dataset.scan(raw, found, unit)) for unit in found.units]
    fields = found.fields
    known = [name for name, _ in found.classes or ()]
    tables: list[pa.Table] = [schema_of("index", fields).empty_table()]
    for _, scanned in units:
        tables += index_tables(scanned, known or scanned.classes or (), fields)
    index = pa.concat_tables(tables)
    with TemporaryDirectory() as place:
        path = Path(place) / "index.parquet"
        parquet.write_table(index, path)
        statuses = Counter(index["status"].to_pylist())
        with Images([path], Path(place), statuses, fields, None, cut=found.cut) as all_images:
            query = "select * from images order by split, key"
            table = all_images.database.sql(query).to_arrow_table()
    none = pa.array([[]] * len(table), pa.list_(pa.int32()))
    unlabelled = table.drop(["labels", *named(fields, BOX_LABELS.kind)])
    rows = order_rows(fitted(unlabelled.append_column("labels", none), schema_of("order", fields)))
    return _Scan(found, units, table.to_pylist(), list(rows))


def _seen_there(dataset: Dataset, raw: Path) -> Iterator[tuple[Any, Sequence[dict[str, Any]]]]:
    scan = _scan_all(dataset, raw)
    yield scan.found.classes, scan.images


def _made_again(dataset: Dataset) -> Dataset:
    """Another object with the same options, as another process has it."""
    return type(dataset)(**stated(dataset.options))


def _seen(
    dataset: Dataset, raw: Path, searched: Found, unit: ScanUnit
) -> tuple[str, Scanned | str]:
    """A unit's fingerprint, and what a scan finds or why it fails."""
    close_archives()
    dataset = _made_again(dataset)
    try:
        scanned = dataset.scan(raw, searched, unit)
        found: Scanned | str = replace(scanned, tables=list(scanned.tables))
    except Exception as error:  # noqa: BLE001 - a damaged list may fail in any way
        found = repr(error)
    return dataset.fingerprint(raw, unit), found


def _check_row(found: Found, row: dict[str, Any]) -> None:
    key, labels = row["key"], row["labels"] or []
    assert found.multilabel or len(labels) == 1, f"{key}: one label, or set multilabel"
    assert len(set(labels)) == len(labels), f"{key}: each label once"
    for field in found.fields:
        value, rules = row[field.name], field.rules
        if value is None or field.kind in (BOX_LABELS.kind, MASK.kind):  # which are texts here
            continue
        wrong = rules.expected(rules.of_cell(value))
        assert not wrong, f"{key}: its {field.name} is {value!r}, expected {wrong}"
    for field in found.fields:
        if row[field.name] is not None and (of := field.rules.each):
            told = f"{key}: {field.name} must be of each of the {of}, or left out"
            assert len(row[field.name]) == len(row[of] or ()), told
    for name in named(found.fields, BOXES.kind):
        for xmin, ymin, xmax, ymax in row[name] or ():
            assert 0 <= xmin < xmax <= 1, f"{key}: {name} are fractions of the width"
            assert 0 <= ymin < ymax <= 1, f"{key}: {name} are fractions of the height"


def _require_below(container: str) -> None:
    path = PurePosixPath(container)
    assert not path.is_absolute(), f"{container}: name it relative to the raw directory"
    assert ".." not in path.parts, f"{container} is not below the raw directory"
