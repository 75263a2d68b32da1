"""Beam's job service is a process of its own, as are its workers: the same bytes, also after kills.

Beam's own options are passed through untouched.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conftest import Cli, Made, Result, hashes, nightly
from tests.faults.conftest import commits, eventually
from tests.steering import Steer, check_same, install_sink, remains, sink_in

_BEAMS = ("apache_beam.runners.portability.local_job_service_main",)
WORKERS = 2  # each imports Beam once a step
SECONDS = 300.0
_SEVERAL = ("tests.pipelines.job_service", str(WORKERS))
_POOL = "apache_beam.runners.worker.worker_pool_main"
_WORKER = "apache_beam.runners.worker.sdk_worker_main"
SHARD = "train-00003-of-00006"


@dataclass
class Beam:
    """A job service, and a pool of workers, each a process of its own."""

    directory: Path
    port: int
    pool_port: int
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def serve(self, program: Sequence[str] = _SEVERAL) -> subprocess.Popen[bytes]:
        """Start a job service, and wait until it listens."""
        staging = ("--staging_dir", self.directory / "staging")
        return self._start(self.port, *program, "--job_port", self.port, *staging)

    def options(self, where: str) -> list[str]:
        """Beam's options for workers in the command, from a pool, or started by the service."""
        config = "--environment_config"
        if where == "EXTERNAL":
            self._start(self.pool_port, _POOL, "--service_port", self.pool_port)
            workers = [f"--environment_type={where}", f"{config}=localhost:{self.pool_port}"]
        elif where == "SUBPROCESS":
            urn = "beam:env:harness_subprocess_python:v1"
            workers = [f"--environment_type={urn}", f"{config}={sys.executable} -m {_WORKER}"]
        else:
            workers = [f"--environment_type={where}"]
        endpoint = f"--job_endpoint=localhost:{self.port}"
        return ["--runner", "PortableRunner", "--", endpoint, *workers]

    def close(self) -> None:
        """Leave no process behind."""
        for process in self._started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _start(self, port: int, *words: object) -> subprocess.Popen[bytes]:
        with (self.directory / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._started.append(process)
        eventually(lambda: process.poll() is not None or _listens(port))
        assert process.poll() is None, (self.directory / "log").read_text()
        return process


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("localhost", port), 1):
        return True
    return False


def _free_port() -> int:
    with socket.create_server(("localhost", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def beam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Beam]:
    """Nothing is started yet; what is, finds the sink, and this Python as ``python``."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    directory = tmp_path / "beam"
    directory.mkdir()
    running = Beam(directory, _free_port(), _free_port())
    with sink_in(install_sink(tmp_path / "site"), monkeypatch):
        try:
            yield running
        finally:
            running.close()


def test_beams_own_job_service_makes_the_same_bytes(
    cli: Cli, tiny: Made, beam: Beam, tmp_path: Path
) -> None:
    beam.serve(_BEAMS)
    out = tmp_path / "out"
    result = _ran(cli, tiny.command(out, *beam.options("LOOPBACK")))
    assert result.code == 0, result
    assert "Completed job" in (beam.directory / "log").read_text()  # it was really there
    assert hashes(out) == tiny.files
    assert remains(out) == []


@pytest.mark.parametrize("where", ["EXTERNAL", "SUBPROCESS"])
def test_several_workers_make_the_same_bytes(
    cli: Cli, tiny: Made, beam: Beam, tmp_path: Path, where: str
) -> None:
    beam.serve()
    out = tmp_path / "out"
    steer = Steer.of(out)
    result = _ran(cli, _command(beam, tiny, out, where))
    assert result.code == 0, result
    assert len(set().union(*steer.made().values())) == WORKERS
    check_same(tiny, out)


@pytest.mark.parametrize("victim", ["service", "launcher"])
@pytest.mark.parametrize("where", ["LOOPBACK", *nightly("EXTERNAL")])
def test_who_is_killed_leaves_what_is_finished_and_the_same_command_resumes(
    cli: Cli, tiny: Made, beam: Beam, tmp_path: Path, where: str, victim: str
) -> None:
    service = beam.serve()
    out = tmp_path / "out"
    steer, command = Steer.of(out), _command(beam, tiny, out, where)
    launcher = _held(cli, command, steer, out)
    finished = {path: path.stat().st_mtime_ns for path in commits(out)}
    (service if victim == "service" else launcher).kill()
    result = cli.done(launcher)
    if victim == "service":
        assert result.code == 1, result
        assert f"the job service at localhost:{beam.port} does not answer any more" in result.error
        assert "run the same command again to resume" in result.error
        service.wait()
        beam.serve()
    result = _ran(cli, command)
    assert result.code == 0, result
    check_same(tiny, out)
    assert all(path.stat().st_mtime_ns == when for path, when in finished.items())
    steer.go()
    if where == "EXTERNAL":
        time.sleep(3)  # a worker of the first run wakes, and must do no harm
        check_same(tiny, out)


def test_a_worker_that_died_without_a_word_is_suspected_and_the_same_command_resumes(
    cli: Cli, tiny: Made, beam: Beam, tmp_path: Path
) -> None:
    beam.serve()
    out = tmp_path / "out"
    steer, command = Steer.of(out), _command(beam, tiny, out, "EXTERNAL")
    launcher = _held(cli, command, steer, out)
    (worker,) = steer.obeyed(SHARD)
    os.kill(worker, signal.SIGKILL)
    assert launcher.stdout
    said = (line.startswith("nothing was made for 60 s; if a worker") for line in launcher.stdout)
    assert any(said)
    launcher.send_signal(signal.SIGINT)
    result = cli.done(launcher)
    assert result.code == 130, result
    assert "run the same command again to resume" in result.error
    result = _ran(cli, command)
    assert result.code == 0, result
    check_same(tiny, out)
    assert steer.made()[SHARD].isdisjoint({worker})


def test_a_pool_that_is_not_there_is_one_line(
    cli: Cli, tiny: Made, beam: Beam, tmp_path: Path
) -> None:
    beam.serve(_BEAMS)
    pool = f"--environment_config=localhost:{beam.pool_port}"
    words = [*beam.options("LOOPBACK")[:-1], "--environment_type=EXTERNAL", pool]
    result = _ran(cli, tiny.command(tmp_path / "out", *words))
    assert result.code == 1, result
    assert f":{beam.pool_port}" in result.error
    assert "Beam failed: failed to connect" in result.error


def _command(beam: Beam, made: Made, out: Path, where: str) -> list[str]:
    return made.command(out, "--sink", "steered", *beam.options(where))


def _ran(cli: Cli, command: list[str]) -> Result:
    return cli.done(cli.start(*command), SECONDS)


def _held(cli: Cli, command: list[str], steer: Steer, out: Path) -> subprocess.Popen[str]:
    """A run of which a worker waits in the middle of a shard, when others are finished."""
    steer.order(SHARD, "wait")
    launcher = cli.start(*command)
    eventually(
        lambda: launcher.poll() is not None or (steer.obeyed(SHARD) and commits(out)), SECONDS
    )
    assert launcher.poll() is None, cli.done(launcher)
    return launcher
