"""No cluster, no worker, or one that cannot work for this run: one line, and before any work."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import DATAPREP, Cli, Made
from tests.dask.conftest import Start
from tests.faults.conftest import commits, eventually
from tests.steering import Steer, add_distribution, check_same

DASK = ("--runner", "dask")
SINK = ("--sink", "steered")


def test_an_address_without_a_scheduler_is_one_line(
    cli: Cli, tiny: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = pytest.importorskip(
        "dataprep_pipelines.engines.dask.session", reason="the extra dask is not installed"
    )
    monkeypatch.setattr(session, "_CONNECT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
    result = cli(*tiny.command(tmp_path, *DASK, "--dask_client_address", address))
    assert result.code == 1
    assert f"no Dask scheduler answers at {address}" in result.error
    result = cli(*tiny.command(tmp_path, *DASK, "--dask_client_address", "no address at all"))
    assert result.code == 1
    assert "no Dask scheduler answers at no address at all" in result.error


def test_a_cluster_without_workers_is_one_line(
    cli: Cli, tiny: Made, own_cluster: Start, tmp_path: Path
) -> None:
    cluster = own_cluster(0)
    result = cli(*tiny.command(tmp_path / "out", *cluster.options(), "--dask_patience", "1"))
    assert result.code == 1
    assert "had no worker for 1 s; start some: dask worker tcp://127.0.0.1:" in result.error


@pytest.mark.usefixtures("_dask_is_installed")
def test_a_scheduler_file_that_never_comes_is_one_line(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    file = tmp_path / "never.json"
    words = (*DASK, "--dask_scheduler_file", file, "--dask_patience", "1")
    result = cli(*tiny.command(tmp_path / "out", *words))
    assert result.code == 1
    assert f"--dask_scheduler_file {file} did not appear within 1 s" in result.error


# A process that has no Dask, as after an installation without the extra.
_WITHOUT_DASK = """
import sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("dask", "distributed"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    invalidate_caches = staticmethod(lambda: None)

import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: (
    None if name in ("dask", "distributed") else real(name, package)
)
sys.meta_path.insert(0, Without())
from dataprep.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_without_dask_the_extra_is_named(tiny: Made, tmp_path: Path) -> None:
    words = tiny.command(tmp_path, *DASK, "--dask_client_address", "tcp://127.0.0.1:1")
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_DASK, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done
    assert done.stderr.splitlines()[-1] == (
        "dataprep: error: --runner dask needs the Python package dask, which is not installed; "
        "install the extra: dask"
    )
    words = tiny.command(tmp_path, "--workers", 1)  # and all else works without it
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_DASK, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done


@pytest.mark.usefixtures("_dask_is_installed")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--dask_client_address", "tcp://h:1"), "which Dask cluster, but --runner is direct"),
        (("--dask_scheduler_file", "f"), "which Dask cluster, but --runner is direct"),
        (("--dask_slurm", "nodes=1"), "which Dask cluster, but --runner is direct"),
        (DASK, "needs to know which cluster: give one of --dask_client_address"),
        (
            (*DASK, "--dask_client_address", "tcp://h:1", "--dask_scheduler_file", "f"),
            "give one of --dask_client_address",
        ),
        (
            (*DASK, "--dask_client_address", "tcp://h:1", "--", "--dask_client_address=tcp://h:2"),
            "before the `--`: the cluster is dataprep's business",
        ),
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(
    cli: Cli,
    tiny: Made,
    tmp_path: Path,
    words: tuple[str, ...],
    message: str,
) -> None:
    result = cli(*tiny.command(tmp_path, *words))
    assert result.code == 2
    assert message in result.error


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


def test_a_worker_that_does_not_see_the_output_is_refused_before_any_work(
    cli: Cli, tiny: Made, own_cluster: Start, blind: list[str], tmp_path: Path
) -> None:
    cluster = own_cluster(1)
    cluster.start_workers(1, before=blind)
    out = tmp_path / "out"
    result = cli(*tiny.command(out, *cluster.options()))
    assert result.code == 1
    host = socket.gethostname()
    assert f"a worker on {host} does not see --local_scratch_dir {out}" in result.error
    assert commits(out) == []


def test_a_worker_of_another_version_is_refused_with_both(
    cli: Cli, tiny: Made, own_cluster: Start, tmp_path: Path
) -> None:
    cluster = own_cluster(1)
    (tmp_path / "other").mkdir()
    add_distribution(tmp_path / "other", "pillow", "99")
    path = os.pathsep.join((str(tmp_path / "other"), cluster.environment["PYTHONPATH"]))
    cluster.start_workers(1, PYTHONPATH=path)
    result = cli(*tiny.command(tmp_path / "out", *cluster.options()))
    assert result.code == 1
    assert f"a worker on {socket.gethostname()} has pillow 99, this command has" in result.error
    assert commits(tmp_path / "out") == []


@pytest.mark.parametrize("stale", [False, True])
def test_a_worker_that_comes_later_and_cannot_work_leaves_it_to_the_others(
    tiny: Made,
    own_cluster: Start,
    steered: None,
    blind: list[str],
    tmp_path: Path,
    stale: bool,
) -> None:
    """It may see nothing, or a directory of its own that an earlier run has left there."""
    cluster = own_cluster(1)
    out = tmp_path / "out"
    if stale:
        blind[-2] = blind[-2].replace("&& exec", f'&& mkdir "{out}/.dataprep" && exec')
    steer = Steer.of(out)
    first = "train-00000-of-00006"
    steer.order(first, "wait")
    said = tmp_path / "said"
    command = [*DATAPREP, *tiny.command(out, *SINK, *cluster.options())]
    with said.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        eventually(lambda: steer.obeyed(first))
        (late,) = cluster.start_workers(1, before=blind)
        eventually(lambda: "is of no use, others go on: a worker on" in said.read_text())
        steer.go()
        assert process.wait(60) == 0, said.read_text()
    finally:
        process.kill()
        process.wait()
    assert f"does not see {out}" in said.read_text()
    check_same(tiny, out)
    assert late.poll() is None
    assert "trying" not in said.read_text()  # no round failed for it
