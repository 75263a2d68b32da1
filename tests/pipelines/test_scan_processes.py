"""A long scan is shared among processes: the same index, and one line if one of them fails."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from dataprep.datasets import Dataset, Found, Scanned, ScanUnit
from dataprep.errors import PipelineError
from dataprep.jobs.preparing import found
from dataprep_pipelines import scan
from dataprep_pipelines.runners.local import InProcesses, work_queue
from dataprep_pipelines.tasks import Work
from dataprep_pipelines.worker import HelperProcesses
from tests.conftest import Cli, Made, hashes, leftovers


@pytest.fixture(autouse=True)
def _processes_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_ALONE_SECONDS", -1.0)
    monkeypatch.setattr(scan, "_WORTH_SECONDS", -1.0)


def index(out: Path) -> set[str]:
    return {path.name for path in (out / ".dataprep" / "index").iterdir()}


def test_processes_that_scan_do_not_show(cli: Cli, tiny: Made, tmp_path: Path) -> None:
    assert cli(*tiny.command(tmp_path, "--workers", 2)).code == 0
    assert hashes(tmp_path) == tiny.files
    assert index(tmp_path) == index(tiny.out)
    assert leftovers(tmp_path) == []


class Deadly(Dataset):
    """Kills the process that scans its second unit."""

    name = "deadly"

    def find(self, raw: Path, splits: object) -> Found:
        units = tuple(ScanUnit(f"unit-{number}", "raw") for number in range(4))
        return Found((), units, ("train", "validation"))

    def scan(self, raw: Path, found: Found, unit: ScanUnit) -> Scanned:
        if unit.name == "unit-1":
            os.kill(os.getpid(), signal.SIGKILL)
        return Scanned({})

    def fingerprint(self, raw: Path, unit: ScanUnit) -> str:
        return ""


class OneDies(Work):
    """The first to take something is killed; the other one takes a while."""

    def __init__(self, done: Path) -> None:
        self.done = done

    def process(self, elements: Iterable[str]) -> None:
        for element in elements:
            if element == "deadly":
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(5)
            self.done.touch()


def test_who_lives_does_not_do_all_there_is_before_it_is_told(tmp_path: Path) -> None:
    done = tmp_path / "done"
    pool = HelperProcesses(2)
    try:
        with work_queue(["slow", "deadly"]) as queue:
            with pytest.raises(PipelineError, match="a worker process died"):
                InProcesses(OneDies(done), pool).process(queue)
            assert not done.exists()
    finally:
        pool.shutdown()


def test_a_process_that_dies_is_an_error_and_not_a_hang(
    cli: Cli, tiny: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(found, "load_dataset", lambda name, options: Deadly())
    assert "a worker process died" in cli(*tiny.command(tmp_path, "--workers", 2)).error
