"""A long scan is shared among processes: the same index, and one line if one of them fails."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from dataprep.datasets import Dataset, Found, Scanned, ScanUnit
from dataprep.jobs import prepare
from dataprep_pipelines import scan
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

    def scan(self, raw: Path, unit: ScanUnit) -> Scanned:
        if unit.name == "unit-1":
            os.kill(os.getpid(), signal.SIGKILL)
        return Scanned({})

    def fingerprint(self, raw: Path, unit: ScanUnit) -> str:
        return ""


def test_a_process_that_dies_is_an_error_and_not_a_hang(
    cli: Cli, tiny: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "load_dataset", lambda name, options: Deadly())
    assert "a worker process died" in cli(*tiny.command(tmp_path, "--workers", 2)).error
