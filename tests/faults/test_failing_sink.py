"""A third-party sink that has a defect, or fails at the last moment: its error arrives whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import Cli, Made, leftovers
from tests.faults.conftest import commits
from tests.steering import Steer, check_same, install_sink, sink_in

SHARD = "train-00003-of-00006"


@pytest.mark.parametrize(
    ("error", "record", "workers", "said"),
    [
        ("RuntimeError", 2, 5, "RuntimeError.*the sink's own words"),
        ("OSError", "close", 1, "the sink's own words"),
    ],
)
def test_the_error_arrives_and_nothing_of_that_shard_is_published(
    cli: Cli,
    tiny: Made,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: str,
    record: int | str,
    workers: int,
    said: str,
) -> None:
    out = tmp_path / "out"
    steer = Steer.of(out)
    steer.order(SHARD, error, record=record, times=3)
    command = tiny.command(out, "--sink", "steered", "--workers", workers)
    with sink_in(install_sink(tmp_path / "site"), monkeypatch):
        result = cli(*command)
        assert result.code == 1
        assert re.search(said, result.error), result.error
        assert not list(out.rglob(f"{SHARD}*"))
        assert leftovers(out) == []
        assert not (out / "manifest.json").exists()
        kept = {path: path.stat().st_mtime_ns for path in commits(out)}
        # What may be this shard's alone lets the others finish; a defect of the sink stops all.
        assert len(kept) == 7 if error == "OSError" else len(kept) < 8
        (steer.path / f"{SHARD}.json").unlink()
        result = cli(*command)
    assert result.code == 0, result
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    check_same(tiny, out)
