"""``dataprep verify``: any change of any byte is found, and every bad file is named."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from dataprep.formats import subprocess_reader
from dataprep.sealed import verify
from tests.conftest import Cli, Made, Shelf, everyday
from tests.forging import forge, rehashed

LEVELS = ("size", "hash", "records", "decode")
SHARD = "train/train-00002-of-00006"
INDEX = "index/train/train-00002-of-00006"


@pytest.fixture(scope="module")
def set_to_damage(tiny: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One copy for all; whoever damages it repairs it."""
    return tiny.copy(tmp_path_factory.mktemp("verify") / "out")


@pytest.fixture
def out(tiny: Made, tmp_path: Path) -> Path:
    return tiny.copy(tmp_path / "out")


@pytest.mark.parametrize(("workers", "level"), [*((1, level) for level in LEVELS), (3, "decode")])
def test_a_whole_set_is_good_at_every_level(
    cli: Cli, photos: Made, level: str, workers: int
) -> None:
    result = cli("verify", photos.out, "--level", level, "--workers", workers)
    assert result.code == 0, result
    assert result.out.startswith(f"{photos.out}: 15 files")
    assert result.out.endswith(f"40 records: all good ({level})\n")
    assert not result.err or result.err.startswith("verify: 100% ")  # where it takes a second


@settings(max_examples=50, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_flipped_bit_is_found_and_its_file_named(
    cli: Cli, set_to_damage: Path, tiny: Made, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(tiny.files)))
    path = set_to_damage / name
    whole = path.read_bytes()
    position = data.draw(st.integers(0, len(whole) - 1))
    bit = data.draw(st.integers(0, 7))
    damaged = bytearray(whole)
    damaged[position] ^= 1 << bit
    path.write_bytes(damaged)
    try:
        result = cli("verify", set_to_damage)
    finally:
        path.write_bytes(whole)
    assert result.code == 1
    assert name in result.out + result.error
    assert len(result.error) < 1000


@pytest.mark.parametrize(("level", "name"), [("size", INDEX), ("hash", SHARD), ("decode", SHARD)])
@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (Path.unlink, "is missing"),
        (lambda path: os.truncate(path, 3), "has 3 bytes, the manifest says"),
        (lambda path: path.write_bytes(path.read_bytes() + b"x"), "bytes, the manifest says"),
    ],
)
def test_missing_and_resized_files_are_named(
    cli: Cli, out: Path, level: str, name: str, damage: Callable[[Path], object], what: str
) -> None:
    damage(out / name)
    result = cli("verify", out, "--level", level)
    assert result.code == 1
    assert result.out.startswith(f"bad: {name}: ")
    assert what in result.out
    assert "1 of 17 files" in result.error


def resealed(out: Path) -> Iterator[dict[str, object]]:
    """Change a set and make its manifest agree in sizes and hashes, as a defect would have."""
    manifest = json.loads((out / "manifest.json").read_bytes())
    yield manifest
    for split in manifest["splits"].values():
        for shard in split["shards"]:
            for file in shard["files"]:
                content = (out / file["path"]).read_bytes()
                file["bytes"] = len(content)
                file["sha256"] = hashlib.sha256(content).hexdigest()
        split["bytes"] = sum(file["bytes"] for it in split["shards"] for file in it["files"])
    content = (out / "records.parquet").read_bytes()
    manifest["records_table"]["bytes"] = len(content)
    manifest["records_table"]["sha256"] = hashlib.sha256(content).hexdigest()
    (out / "manifest.json").write_bytes(rehashed(manifest))


OTHER_ROWS: dict[str, dict[str, object]] = {
    "key": {"key": "another"},
    "xxh3": {"xxh3": 32 * "0"},
    "position": {"position": 1},
}


@pytest.mark.parametrize("name", OTHER_ROWS)
def test_a_table_that_says_something_else_is_found_at_level_records(
    cli: Cli, out: Path, name: str
) -> None:
    path = out / "records.parquet"
    table = parquet.read_table(path)
    for _ in resealed(out):
        rows = table.to_pylist()
        rows[8].update(OTHER_ROWS[name])  # the first of SHARD
        parquet.write_table(pa.Table.from_pylist(rows, table.schema), path)
    assert cli("verify", out).code == 0
    result = cli("verify", out, "--level", "records")
    assert result.code == 1
    assert result.out.startswith(f"bad: {SHARD}: record 0: ")
    assert f"its {name} is" in result.out
    assert len(result.out.splitlines()) == 1
    for _ in resealed(out):
        parquet.write_table(table.slice(0, 29), path)
    result = cli("verify", out, "--level", "records")
    assert "records.parquet has no row 29" in result.out
    assert cli("verify", out).code == 0


@pytest.mark.parametrize("what", ["synsets", "names"])
@pytest.mark.parametrize(
    "name",
    everyday(["tfrecord"], ["hdf5", "webdataset", "hdf5-arrays", "hdf5-caffe"]),
)
def test_a_manifest_of_other_classes_is_found_where_the_format_stores_them(
    cli: Cli, shelf: Shelf, tmp_path: Path, name: str, what: str
) -> None:
    out = shelf(name).copy(tmp_path / "out")
    column = ["synsets", "names"].index(what)
    for manifest in resealed(out):
        classes: list[list[str]] = manifest["classes"]  # type: ignore[assignment]
        stored = classes[303][column]
        classes[3][column], classes[303][column] = stored, classes[3][column]
    assert cli("verify", out, "--level", "hash").code == 0
    result = cli("verify", out, "--level", "records")
    assert result.code == 1
    assert result.out.startswith("bad: train")
    assert stored in result.out


@pytest.fixture
def hanging(shelf: Shelf, tmp_path: Path) -> Path:
    """HDF5 whose hash is right, and whose library never comes back: an object of no length."""
    out = shelf("hdf5").copy(tmp_path / "hdf5")
    shard = out / "train.h5"
    name = b"tree frog"
    whole = shard.read_bytes()
    damaged = whole.replace(struct.pack("<Q", len(name)) + name, bytes(8) + name)
    assert whole != damaged
    for _ in resealed(out):
        shard.write_bytes(damaged)
    return out


@pytest.mark.thorough  # every day: tests/formats/test_subprocess_reader.py
def test_a_file_that_its_library_cannot_end_reading_is_named(
    cli: Cli, hanging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "_SECONDS", 5.0)
    monkeypatch.setattr(subprocess_reader, "_SECONDS", 5.0)
    result = cli("verify", hanging, "--level", "records")
    assert result.code == 1
    assert "train.h5: " in result.out + result.err
    assert "did not answer for 5 s" in result.out + result.err
    assert "validation.h5" not in result.out + result.err
    assert "did not answer for" in cli("inspect", hanging / "train.h5").error


def _first_shard(manifest: dict[str, Any]) -> dict[str, Any]:
    shard: dict[str, Any] = manifest["splits"]["train"]["shards"][0]
    return shard


FORGED: dict[str, Callable[[dict[str, Any]], object]] = {
    "no max_pixels": lambda it: it["image"].pop("max_pixels"),
    "no input": lambda it: it.update(input={}),
    "input of another split": lambda it: it.update(input={"test": it["input"]["train"]}),
    "NUL in a path": lambda it: _first_shard(it)["files"][0].update(path="a\0b"),
    "line break in a path": lambda it: _first_shard(it)["files"][0].update(path="a\nb"),
    "a list as the format's option": lambda it: it["sink"].update(config={"a": []}),
    "a list as the format's options": lambda it: it["sink"].update(config=[]),
    "10^30 records": lambda it: _first_shard(it).update(records=10**30),
    "10^30 bytes": lambda it: _first_shard(it)["files"][0].update(bytes=10**30),
    "records with a point": lambda it: _first_shard(it).update(records=4.0),
    "a split above": lambda it: it["splits"].update({"/etc": it["splits"]["train"]}),
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_a_manifest_that_no_run_writes_is_refused_though_its_hash_is_right(
    cli: Cli, out: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    forge(out / "manifest.json", change)
    error = cli("verify", out).error
    assert error.startswith(f"dataprep: error: {out / 'manifest.json'}")
    assert "unexpected" not in error


@pytest.mark.parametrize("text", [rb"half a \ud800 character", b"\xff"])
def test_a_manifest_with_a_text_that_is_none_is_refused(cli: Cli, out: Path, text: bytes) -> None:
    path = out / "manifest.json"
    whole = path.read_bytes()
    assert b"tench" in whole
    path.write_bytes(whole.replace(b"tench", text))
    error = cli("verify", out).error
    assert error.startswith(f"dataprep: error: {path}: ")
