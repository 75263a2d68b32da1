"""docs/on-disk.md is enough to read a data set: a reader made from it reads the golden ones."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import xxhash
from pyarrow import parquet

from dataprep.formats.recordio import frame
from tests.conftest import hashes, nightly
from tests.docs.pages import DOCS, ROOT
from tests.golden.__main__ import PLACE
from tests.golden.test_golden import NAMES

SCRIPT = ROOT / "examples" / "reader_from_the_specification.py"
OFTEN = "1.0.0/tfrecord"
READ = ("tfrecord", "recordio", "webdataset", "parquet")
ALWAYS = (
    *("key", "split", "status", "shard", "position", "labels", "classes"),
    *("format", "height", "width", "channels", "bytes", "xxh3"),
)
OTHERS = ("rejected", "missing", "unlisted", "ignored", "excluded")


def run(out: Path) -> subprocess.CompletedProcess[str]:
    words: list[str | Path] = [sys.executable, "-I", SCRIPT, out]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def manifest_of(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "manifest.json").read_bytes())
    return found


def reader() -> ModuleType:
    module = ModuleType("reader")
    exec(SCRIPT.read_text("utf-8"), vars(module))
    return module


def test_it_is_small_and_knows_nothing_of_dataprep() -> None:
    text = SCRIPT.read_text("utf-8")
    assert len(text.splitlines()) <= 150
    imported = set(re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE))
    assert imported - sys.stdlib_module_names == {"pyarrow"}


@pytest.mark.parametrize("name", NAMES)
def test_it_reads_the_images(name: str) -> None:
    out, before = PLACE / name, hashes(PLACE / name)
    rows = list(reader().records(out))
    assert rows
    for row, image in rows:
        assert (image is not None) == (manifest_of(out)["sink"]["name"] in READ)
        if image is not None:
            assert xxhash.xxh3_128_hexdigest(image) == row["xxh3"]
    assert hashes(out) == before


@pytest.mark.thorough
@pytest.mark.parametrize("name", [OFTEN, *nightly(*(it for it in NAMES if it != OFTEN))])
def test_it_runs(name: str) -> None:
    done = run(PLACE / name)
    assert (done.returncode, done.stderr) == (0, "")
    found, read = map(int, re.findall(r"\d+", done.stdout))
    assert read == (found if manifest_of(PLACE / name)["sink"]["name"] in READ else 0)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["1.0.0/tfrecord", "1.0.0/hdf5-caffe"])
def test_it_notices_any_other_byte(name: str, tmp_path: Path) -> None:
    for path in sorted(it for it in (PLACE / name).rglob("*") if it.is_file()):
        out = Path(shutil.copytree(PLACE / name, tmp_path / "out", dirs_exist_ok=True))
        damaged = out / path.relative_to(PLACE / name)
        data = bytearray(damaged.read_bytes())
        data[len(data) // 2] ^= 1
        damaged.write_bytes(data)
        assert run(out).returncode != 0, damaged


@pytest.mark.parametrize("cuts", [0, 1, 3])
def test_it_puts_the_magic_of_recordio_back(cuts: int, tmp_path: Path) -> None:
    magic = struct.pack("<I", 0xCED7230A)
    image = b"abcd" + (magic + b"efgh") * cuts + b"xyz"
    head = struct.pack("<IfQQ", 0, 5, 0, 0)
    (tmp_path / "a.rec").write_bytes(b"".join(frame(head, image)))
    (tmp_path / "a.lst").write_text("0\t5.000000\tsome/key.jpg\n", "utf-8")
    paths = [tmp_path / "a.rec", tmp_path / "a.idx", tmp_path / "a.lst"]
    assert list(reader().read_recordio(paths, False)) == [("some/key.jpg", image, [5])]


@pytest.mark.parametrize("name", NAMES)
def test_the_table_is_as_the_page_says(name: str) -> None:
    out = PLACE / name
    rows = parquet.read_table(out / "records.parquet").to_pylist()
    records = [row for row in rows if row["position"] is not None]
    assert rows[: len(records)] == records
    places = [(row["split"], row["shard"], row["position"]) for row in records]
    assert places == sorted(places)
    for row in records:
        assert all(row[column] is not None for column in ALWAYS)
        assert row["container"] is None
        assert (row["reason"] is None) <= (row["status"] == "stored")
        assert row["labels"] == sorted(row["labels"])
        names = [identifier for identifier, _ in manifest_of(out)["classes"]]
        assert row["classes"] == [names[label] for label in row["labels"]]
    rest = [(OTHERS.index(row["status"]), row["split"], row["key"]) for row in rows[len(records) :]]
    assert rest == sorted(rest)
    known = [field["name"] for field in manifest_of(out)["examples"].get("fields", ())]
    assert {*known} <= {*[*rows[0]][19:]}


@pytest.mark.parametrize("name", NAMES)
def test_the_manifest_is_as_the_page_says(name: str) -> None:
    found = manifest_of(PLACE / name)
    classes = json.dumps(found["classes"], separators=(",", ":"), ensure_ascii=False)
    assert hashlib.sha256(classes.encode()).hexdigest() == found["classes_sha256"]
    text = (DOCS / "on-disk.md").read_text("utf-8").partition("## manifest.json")[2]
    told = re.findall(r"^\| `(\w+)` \|", text.partition("\n### ")[0], re.MULTILINE)
    assert [*found] == [field for field in told if field in found]
    optional = re.findall(
        r"^\| `(\w+)` \|.*; left out if", text.partition("\n### ")[0], re.MULTILINE
    )
    assert {*told} - found.keys() <= {*optional}
    assert (PLACE / name / "manifest.json").read_text("utf-8") == (
        json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    )
