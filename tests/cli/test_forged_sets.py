"""Sets whose hashes agree, made by somebody who wishes harm: one line each, or an answer."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import dataprep
from dataprep.errors import DataprepError
from dataprep.system.state_files import file_sha256
from tests.conftest import Cli, Made
from tests.forging import rehashed

Manifest = dict[str, Any]


def split(manifest: Manifest) -> dict[str, Any]:
    """What the manifest says of the training images."""
    found: dict[str, Any] = manifest["splits"]["train"]
    return found


def shard(manifest: Manifest) -> dict[str, Any]:
    """What it says of the third shard of them."""
    found: dict[str, Any] = split(manifest)["shards"][2]
    return found


def column(name: str, value: object) -> Callable[[Path, Manifest], None]:
    """One value in every row of a column of ``records.parquet``."""

    def forge(out: Path, _manifest: Manifest) -> None:
        table = parquet.read_table(out / "records.parquet")
        field = table.schema.field(name)
        values = pa.array([value] * len(table), field.type)
        table = table.set_column(table.column_names.index(name), field, values)
        parquet.write_table(table, out / "records.parquet")

    return forge


def many(manifest: Manifest) -> None:
    shard(manifest)["records"] = 1 << 53
    for counted in (split(manifest), manifest.get("totals", {})):
        counted["records"] = 1 << 53


def fifo(out: Path, _manifest: Manifest) -> None:
    order = out / ".dataprep" / "order"
    for path in order.iterdir():
        path.unlink()
        os.mkfifo(path)


def looped(out: Path, _manifest: Manifest) -> None:
    path = out / "train" / "train-00002-of-00006"
    path.unlink()
    path.symlink_to(path.name)


def directory(out: Path, _manifest: Manifest) -> None:
    path = out / "train" / "train-00002-of-00006"
    path.unlink()
    path.mkdir()


FORGES: dict[str, Callable[[Path, Manifest], object]] = {
    "labels beyond the classes": column("labels", [1 << 20]),
    "labels below zero": column("labels", [-1]),
    "no labels": column("labels", []),
    "labels of nothing": column("labels", [None]),
    "null labels": column("labels", None),
    "null keys": column("key", None),
    "null splits": column("split", None),
    "null positions": column("position", None),
    "null statuses": column("status", None),
    "another status": column("status", "new"),
    "one key": column("key", "a"),
    "one position": column("position", 0),
    "positions below zero": column("position", -1),
    "a huge width": column("width", (1 << 31) - 1),
    "2^53 records": lambda _, manifest: many(manifest),
    "no records": lambda _, manifest: shard(manifest).update(records=0),
    "a name too long": lambda _, manifest: shard(manifest)["files"][0].update(path="a" * 300),
    "a file of a file": lambda _, manifest: shard(manifest)["files"][0].update(
        path="records.parquet/a"
    ),
    "a shard twice": lambda _, manifest: split(manifest)["shards"].__setitem__(2, shard(manifest)),
    "no shards": lambda _, manifest: split(manifest).update(shards=[]),
    "no files": lambda _, manifest: shard(manifest).update(files=[]),
    "another sink": lambda _, manifest: manifest["sink"].update(name="hdf5"),
    "no such sink": lambda _, manifest: manifest["sink"].update(name="x; rm -rf /"),
    "options of another sink": lambda _, manifest: manifest["sink"].update(config={"a": [1]}),
    "no classes": lambda _, manifest: manifest.update(classes=0),
    "many classes": lambda _, manifest: manifest.update(classes=1 << 53),
    "a pipe in the order": fifo,
    "a link to itself": looped,
    "a directory for a shard": directory,
}


def read_labels(out: Path) -> None:
    with dataprep.open(out, split="train") as records:
        labels = records.labels
        assert labels.min() >= 0
        assert labels.max() < len(records.classes)


def read_all(out: Path) -> None:
    with dataprep.open(out, split="train") as records:
        for number in range(min(len(records), 100)):
            _ = records[number].key


def read_key(out: Path) -> None:
    with dataprep.open(out, split="train") as records:
        records.by_key("n01491361/n01491361_7.JPEG")


def command(*words: str) -> Callable[[Path], None]:
    """A command must give an answer or one line."""

    def run(out: Path) -> None:
        result = Cli()(*(word.replace("OUT", str(out)) for word in words))
        if result.code:
            assert "unexpected" not in result.err
            assert "Traceback" not in result.err

    return run


CALLS: dict[str, Callable[[Path], None]] = {
    "labels": read_labels,
    "iteration": read_all,
    "by_key": read_key,
    "verify": command("verify", "OUT", "--level", "records"),
    "lint": command("lint", "OUT"),
    "report": command("report", "OUT"),
    "inspect": command("inspect", "OUT"),
    "status": command("status", "OUT"),
    "card": command("card", "OUT"),
    "convert": command("convert", "OUT", "--sink", "recordio", "--to", "OUT-converted"),
    "compact": command("compact", "OUT"),
    "stage": command("stage", "OUT", "--to", "OUT-staged"),
}


EVERY_DAY = ("labels", "iteration")  # what reads the most; `lint`, which asks, of a few
ASKED = ("labels beyond the classes", "null keys", "null labels", "one position", "2^53 records")


@pytest.mark.parametrize(
    ("forge", "calls"),
    [
        *((forge, (*EVERY_DAY, *(["lint"] if forge in ASKED else []))) for forge in FORGES),
        *(pytest.param(forge, sorted(CALLS), marks=pytest.mark.thorough) for forge in FORGES),
    ],
)
def test_a_forged_set_is_one_line(
    tiny: Made, tmp_path: Path, forge: str, calls: Sequence[str]
) -> None:
    out = tiny.copy(tmp_path / "out")
    manifest = json.loads((out / "manifest.json").read_bytes())
    FORGES[forge](out, manifest)
    table = out / "records.parquet"
    size, sha256 = table.stat().st_size, file_sha256(table)
    manifest["records_table"].update(bytes=size, sha256=sha256)
    (out / "manifest.json").write_bytes(rehashed(manifest))
    for call in calls:
        with suppress(DataprepError, *([KeyError] if call == "by_key" else [])):
            CALLS[call](out)
