"""Sets that earlier versions made are read, verified, converted and added to; see `__main__`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

import dataprep
from dataprep import plugins
from dataprep.images import codec_versions
from dataprep.jobs.running.job import layout_versions
from dataprep.sealed.set import SealedSet
from dataprep.system.state_files import release
from dataprep.version import __version__
from dataprep_schemas import manifest
from tests.conftest import Cli, hashes, rows_of
from tests.golden.__main__ import PLACE, make, write_folders

SETS = sorted(path.parent for path in PLACE.glob("*/*/manifest.json"))
NAMES = [path.relative_to(PLACE).as_posix() for path in SETS]
# One of one generation and one of two every day.
APPENDED = [
    pytest.param(name, marks=[] if every_day else pytest.mark.thorough)
    for name in NAMES
    if name.endswith(("/tfrecord", "/webdataset", "-appended", "/compacted"))
    for every_day in [name.endswith(("/tfrecord", "/webdataset-appended"))]
]


def copied(name: str, tmp_path: Path) -> Path:
    """A copy, since LMDB's own reader leaves a lock file beside its data."""
    return Path(shutil.copytree(PLACE / name, tmp_path / "golden"))


@pytest.fixture(params=NAMES)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return copied(request.param, tmp_path)


def test_it_opens(golden: Path) -> None:
    sealed, rows = SealedSet.read(golden), rows_of(golden, "stored", "repaired", "warned")
    for split, here in sealed.splits.items():
        expected = [it for it in rows if it["split"] == split and it["shard"] in here.numbers]
        with dataprep.open(golden, split) as records:
            examples = list(records)
            assert [it.key for it in examples] == [row["key"] for row in expected]
            assert [[*it.labels] for it in examples] == [row["labels"] for row in expected]
            assert [records[at] == example for at, example in enumerate(examples)]
            if sealed.info.multilabel:  # -1 where nobody is sure
                ones = [[*np.flatnonzero(row == 1)] for row in records.labels]
                assert ones == [row["labels"] for row in expected]
            for example, row in zip(examples, expected, strict=True):
                size = (row["height"], row["width"])
                assert example.array().shape == (*size, 3)[: 2 + (sealed.info.channels == 3)]
                for field in sealed.info.fields:
                    assert field.rules.same(example.fields.get(field.name), row[field.name])


# Every day `test_it_opens` reads and decodes all there is.
@pytest.mark.parametrize("level", ["hash", pytest.param("decode", marks=pytest.mark.thorough)])
def test_it_verifies(cli: Cli, golden: Path, level: str) -> None:
    result = cli("verify", golden, "--level", level)
    assert result.code == 0, result
    assert cli("inspect", golden).code == 0


@pytest.mark.thorough
def test_it_converts_and_stages(cli: Cli, golden: Path, tmp_path: Path) -> None:
    sealed = SealedSet.read(golden)
    if sealed.part is not None:
        for words in (("stage", golden), ("convert", golden, "--sink", "recordio")):
            assert "holds a part of its data set" in cli(*words, "--to", tmp_path / "to").error
        return
    result = cli("stage", golden, "--to", tmp_path / "staged")
    assert result.code == 0, result
    assert cli("verify", tmp_path / "staged", "--level", "records").code == 0
    sink = "hdf5-arrays" if sealed.sink.pixels else "recordio"
    result = cli("convert", golden, "--to", tmp_path / "converted", "--sink", sink)
    assert result.code == 0, result
    assert cli("diff", golden, tmp_path / "converted").code == 0


@pytest.mark.parametrize("name", APPENDED)
def test_it_grows(cli: Cli, name: str, tmp_path: Path) -> None:
    """By the same command as ever, from the images that there were and one more."""
    out, raw = copied(name, tmp_path), tmp_path / "raw"
    before = SealedSet.read(out)
    write_folders(raw, more=True)
    shutil.copy(raw / "val" / "cat" / "6.png", raw / "val" / "cat" / "new.png")
    words = ("--local_scratch_dir", out, "--sink", before.sink.name, "--append")
    result = cli("folder", "--raw_data_dir", raw, *words)
    assert result.code == 0, result
    plugins._sink.cache_clear()
    after = SealedSet.read(out)
    assert after.records == 11 > before.records
    assert len(after.manifest.generations) == max(1, len(before.manifest.generations)) + 1
    assert cli("verify", out, "--level", "decode").code == 0
    result = cli("compact", out)
    assert result.code == 0, result
    assert cli("verify", out, "--level", "decode").code == 0


def _said(value: object) -> Iterator[tuple[str, str]]:
    """Every field that says something, by the name of its type."""
    if isinstance(value, msgspec.Struct):
        for field in msgspec.structs.fields(value):
            found = getattr(value, field.name)
            if found not in (None, (), "", {}, field.default):
                yield type(value).__name__, field.name
                yield from _said(found)
    elif isinstance(value, dict | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _said(inner)


def test_every_field_of_a_manifest_says_something_in_one() -> None:
    """So that no later version can forget one without a failure here."""
    there = {field for path in SETS for field in _said(SealedSet.read(path).manifest)}
    kinds = [it for it in vars(manifest).values() if isinstance(it, type)]
    declared = {
        (kind.__name__, name)
        for kind in kinds
        if issubclass(kind, msgspec.Struct)
        for name in kind.__struct_fields__
    }
    bases = {"Identity", "Statuses"}  # of which there are none but as Manifest, Totals and Split
    assert {field for field in declared - there if field[0] not in bases} == set()


@pytest.mark.thorough
def test_they_are_made_to_the_same_bytes(tmp_path: Path) -> None:
    """By the libraries that made them; another version of dataprep is named in manifests only."""
    pytest.importorskip("array_record", reason="needs array-record, which writes a format")
    make(tmp_path)
    kept = max((path for path in PLACE.glob("[0-9]*")), key=lambda path: release(path.name))
    made = {path.name for path in tmp_path.iterdir()}
    assert made == {path.name for path in kept.iterdir()}
    compared = 0
    for name in sorted(made):
        sealed = SealedSet.read(kept / name)
        versions = sealed.manifest.versions
        if {**versions, "dataprep": __version__} == {
            **codec_versions(),
            **layout_versions(sealed.sink),
        }:
            same = versions["dataprep"] == __version__
            ours, theirs = hashes(tmp_path / name), hashes(kept / name)
            for file in () if same else ("manifest.json", "part.json"):
                assert (ours.pop(file, None) is None) == (theirs.pop(file, None) is None)
            assert ours == theirs
            compared += 1
    if not compared:
        pytest.skip("other versions of the libraries that encode are installed")
