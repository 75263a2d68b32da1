"""Another of Beam's runners, by its name: its own options are passed through untouched."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Cli, Made, hashes
from tests.faults.conftest import eventually
from tests.steering import remains

_SERVICE = "apache_beam.runners.portability.local_job_service_main"


@pytest.fixture
def job_service(tmp_path: Path) -> Iterator[str]:
    """Beam's job service in pure Python, as a process; its address."""
    port = tmp_path / "port"
    words = ("--job_port", "0", "--port_file", port, "--staging_dir", tmp_path / "staging")
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", _SERVICE, *map(str, words)], stdout=log, stderr=log
        )
    try:
        eventually(lambda: port.exists() and port.read_text())
        yield f"localhost:{port.read_text()}"
    finally:
        process.kill()
        process.wait()


def test_the_portable_runner_makes_the_same_bytes(
    cli: Cli, tiny: Made, job_service: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    options = (f"--job_endpoint={job_service}", "--environment_type=LOOPBACK")
    process = cli.start(*tiny.command(out, "--runner", "PortableRunner", "--", *options))
    result = cli.done(process)
    assert result.code == 0, result
    assert "Completed job" in (tmp_path / "log").read_text()  # it was really there
    assert hashes(out) == tiny.files
    assert remains(out) == []
