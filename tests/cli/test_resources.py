"""How much of the machine a command takes: --io_limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Cli, Made, hashes


@pytest.mark.parametrize("workers", [1, 6])
def test_a_bound_changes_no_byte(cli: Cli, tiny: Made, tmp_path: Path, workers: int) -> None:
    words = tiny.command(tmp_path / "out", "--workers", workers, "--io_limit", "1GB")
    assert cli(*words).code == 0
    assert hashes(tmp_path / "out") == tiny.files
