"""No cluster, no worker, or one that cannot work for this run: one line, and before any work."""

from __future__ import annotations

import os
import shutil
import socket
import socketserver
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.conftest import Cli, Made
from tests.dask.conftest import SINK, Start
from tests.faults.conftest import commits
from tests.steering import Steer, add_distribution, check_same

DASK = ("--runner", "dask")


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits for an answer as long as a test should."""
    monkeypatch.setattr("dataprep_pipelines.runners.dask._CONNECT_SECONDS", 0.5)


@pytest.mark.parametrize("says", [b"", b"SSH-2.0-OpenSSH_9.2p1\r\n", b"HTTP/1.1 400 Bad\r\n\r\n"])
def test_something_else_at_the_address_is_one_line(
    cli: Cli, tiny: Made, tmp_path: Path, hasty: None, says: bytes
) -> None:
    class Answer(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(says)
            self.request.recv(1 << 20)
            leaves.wait()

    leaves = threading.Event()
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever).start()
        address = f"tcp://127.0.0.1:{server.server_address[1]}"
        result = cli(*tiny.command(tmp_path, *DASK, "--dask_client_address", address))
        leaves.set()
        server.shutdown()
    assert result.code == 1
    assert f"no Dask scheduler answers at {address} (" in result.error
    assert "usually 8786, 8787 is its dashboard's" in result.error


@pytest.mark.parametrize("text", [None, '{"address": "tcp:', "[]"])
def test_a_scheduler_file_that_is_none_is_one_line(
    cli: Cli, tiny: Made, tmp_path: Path, text: str | None
) -> None:
    file = tmp_path / "scheduler.json"
    if text is not None:
        file.write_text(text)
    words = (*DASK, "--dask_scheduler_file", file, "--dask_timeout", "1")
    result = cli(*tiny.command(tmp_path / "out", *words))
    assert result.code == 1
    assert f"--dask_scheduler_file {file} has no scheduler's address after 1 s" in result.error


def test_without_dask_the_extra_is_named(
    cli: Cli, tiny: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "dask", None)  # as after an installation without the extra
    result = cli(*tiny.command(tmp_path, *DASK, "--dask_client_address", "tcp://127.0.0.1:1"))
    assert result.code == 2
    assert "needs the Python package dask, which is not installed; install the" in result.error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--dask_client_address", "tcp://h:1"), "is for Dask's workers, but --runner is direct"),
        (("--dask_slurm", "nodes=1"), "is for Dask's workers, but --runner is direct"),
        (DASK, "needs to know which cluster: give one of --dask_client_address"),
        (
            (*DASK, "--dask_client_address", "tcp://h:1", "--dask_scheduler_file", "f"),
            "needs to know which cluster: give one of --dask_client_address",
        ),
        (("--dask_timeout", "9"), "is for Dask's workers, but --runner is direct"),
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(
    cli: Cli, tiny: Made, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    result = cli(*tiny.command(tmp_path, *words))
    assert result.code == 2
    assert message in result.error


@pytest.mark.parametrize(
    "address",
    [
        *("no address at all", "tcp://h:many", "http://h:8787/status", "tls://h:8786"),
        "tcp://127.0.0.1:1",  # nobody listens there
    ],
)
def test_what_dask_cannot_connect_to_is_one_line(
    cli: Cli, tiny: Made, tmp_path: Path, address: str, hasty: None
) -> None:
    result = cli(*tiny.command(tmp_path / "out", *DASK, "--dask_client_address", address))
    assert result.code == 1
    assert f"no Dask scheduler answers at {address} (" in result.error


@pytest.fixture
def blind(tmp_path: Path) -> list[str]:
    """Words before a command that take ``tmp_path / "out"`` from its sight; needs root."""
    unshare, mount = shutil.which("unshare"), shutil.which("mount")
    if os.geteuid() != 0 or unshare is None or mount is None:
        pytest.skip("only root may hide a directory from a process")
    (tmp_path / "out").mkdir()
    hide = f'mount -t tmpfs tmpfs "{tmp_path}/out" && exec "$@"'
    words = [unshare, "--mount", "--propagation", "private", "sh", "-c", hide, "sh"]
    if subprocess.run([*words, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    return words


def test_workers_that_do_not_see_the_output_are_refused_before_any_work(
    cli: Cli, tiny: Made, own_cluster: Start, blind: list[str], tmp_path: Path
) -> None:
    cluster = own_cluster(0)
    cluster.start_workers(2, before=blind)
    out = tmp_path / "out"
    result = cli(*tiny.command(out, *cluster.options()))
    assert result.code == 1
    host = socket.gethostname()
    assert "no Dask worker can work for this run; tcp://127.0.0.1:" in result.error
    assert f"a worker on {host} does not see --out {out}" in result.error
    assert commits(out) == []


def test_a_worker_of_another_version_is_named_with_both_and_others_go_on(
    cli: Cli, tiny: Made, own_cluster: Start, steered: None, tmp_path: Path
) -> None:
    cluster = own_cluster(1)
    (tmp_path / "other").mkdir()
    add_distribution(tmp_path / "other", "pillow", "99")
    (other,) = cluster.start_workers(1, site=str(tmp_path / "other"))
    out = tmp_path / "out"
    steer = Steer.of(out)
    result = cli(*tiny.command(out, *SINK, *cluster.options()))
    assert result.code == 0, result
    assert "is of no use, others go on: a worker on" in result.out
    assert f"a worker on {socket.gethostname()} has pillow 99, this command has" in result.out
    assert "Dask: 2 workers, 2 threads, at" in result.out
    assert not any(other.pid in makers for makers in steer.made().values())
    check_same(tiny, out)
