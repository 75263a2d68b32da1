"""A long scan is shared among processes: the same index, and one line if one of them fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataprep.datasets import Dataset, Found, Scanned, ScanUnit
from dataprep.errors import PipelineError
from dataprep.images import Recipe
from dataprep.jobs.prepare import prepare
from dataprep.jobs.request import MaxBad, Request
from dataprep_pipelines import scan
from dataprep_pipelines.run import BeamEngine
from dataprep_pipelines.runners import Engine
from tests.conftest import Made, hashes, leftovers
from tests.pipelines.test_invariance import Recorder


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_ALONE_SECONDS", -1.0)


def run(raw: Path, out: Path) -> list[str]:
    recorder = Recorder()
    shards = {"train": 6, "validation": 2}
    request = Request(
        dataset="imagenet",
        raw=raw,
        out=out,
        recipe=Recipe(),
        max_bad=MaxBad(),
        num_shards=shards,
    )
    prepare(request, BeamEngine(Engine(2)), recorder)
    return recorder.lines


def index(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (out / ".dataprep" / "index").iterdir()}


def test_processes_that_scan_do_not_show(tiny: Made, tmp_path: Path, impatient: None) -> None:
    run(tiny.raw.path, tmp_path)
    assert hashes(tmp_path) == tiny.files
    assert index(tmp_path).keys() == index(tiny.out).keys()
    assert leftovers(tmp_path) == []


class Deadly(Dataset):
    """Kills the process that scans its second unit."""

    name = "deadly"

    def find(self, raw: Path, splits: object) -> Found:
        units = tuple(ScanUnit(f"unit-{number}", "raw") for number in range(4))
        return Found((), units, ("train", "validation"))

    def scan(self, raw: Path, unit: ScanUnit) -> Scanned:
        import os
        import signal

        if unit.name == "unit-1":
            os.kill(os.getpid(), signal.SIGKILL)
        return Scanned({})

    def fingerprint(self, raw: Path, unit: ScanUnit) -> str:
        return ""


def test_a_process_that_dies_is_an_error_and_not_a_hang(
    tmp_path: Path, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dataprep.jobs.prepare.load_dataset", lambda name, options: Deadly())
    with pytest.raises(PipelineError, match="a worker process died"):
        run(tmp_path, tmp_path / "out")
