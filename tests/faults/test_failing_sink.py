"""A third-party sink, found through its entry point, that fails: its error arrives whole."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataprep.plugins import load_sink
from tests.conftest import Cli, Made, hashes, leftovers
from tests.faults.conftest import commits

# A package as a third party would install it: one class, one line of packaging.
_MODULE = """
import builtins
import os

from dataprep import errors
from dataprep.sinks.tfrecord import TFRecordSink


class FailingWriter:
    def __init__(self, writer, shard):
        self._writer, self._shard, self._written = writer, shard, 0

    def write(self, example):
        self._fail(str(self._written))
        self._written += 1
        self._writer.write(example)

    def close(self):
        self._fail("close")
        return self._writer.close()

    def _fail(self, moment):
        shard, when, kind, message = os.environ["FAILING_SINK"].split("|")
        if (self._shard, moment) == (shard, when):
            raise (getattr(errors, kind, None) or getattr(builtins, kind))(message)

    def abandon(self):
        self._writer.abandon()


class FailingSink(TFRecordSink):
    name = "failing"

    def open(self, paths, info):
        return FailingWriter(super().open(paths, info), paths[0].name.split(".")[1])
"""


@pytest.fixture
def failing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    site = tmp_path / "site"
    distribution = site / "failing_sink-1.dist-info"
    distribution.mkdir(parents=True)
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: failing-sink\nVersion: 1")
    points = "[dataprep.sinks]\nfailing = failing_sink:FailingSink\n"
    (distribution / "entry_points.txt").write_text(points)
    (site / "failing_sink.py").write_text(_MODULE)
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
    load_sink.cache_clear()
    yield monkeypatch
    load_sink.cache_clear()


SHARD = "train-00003-of-00006"


@pytest.mark.parametrize(
    ("fault", "message", "workers"),
    [
        ("2|RuntimeError|the sink's own words", "RuntimeError.*the sink's own words", 5),
        (
            "1|SinkError|an error of dataprep's",
            f"error: {SHARD} failed 3 times: an error of dataprep's; finished shards are kept",
            2,
        ),
        ("close|OSError|the last moment", "the last moment", 1),
    ],
)
def test_the_error_arrives_and_nothing_of_that_shard_is_published(
    cli: Cli,
    tiny: Made,
    tmp_path: Path,
    failing: pytest.MonkeyPatch,
    fault: str,
    message: str,
    workers: int,
) -> None:
    failing.setenv("FAILING_SINK", f"{SHARD}|{fault}")
    out = tmp_path / "out"
    command = tiny.command(out, "--sink", "failing", "--workers", workers)
    result = cli(*command)
    assert result.code == 1
    assert re.search(message, result.error), result.error
    assert not list(out.rglob(f"{SHARD}*"))
    assert [name for name in leftovers(out) if not name.endswith("failure.json")] == []
    assert not (out / "manifest.json").exists()
    kept = {path: path.stat().st_mtime_ns for path in commits(out)}
    # What may be this shard's alone lets the others finish; a defect of the sink stops all.
    assert len(kept) == 7 if "Runtime" not in fault else len(kept) < 8
    failing.setenv("FAILING_SINK", "none|0|OSError|never")
    result = cli(*command)
    assert result.code == 0, result
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert leftovers(out) == []
    shards = {name: digest for name, digest in tiny.files.items() if name != "manifest.json"}
    assert {name: digest for name, digest in hashes(out).items() if name in shards} == shards
