"""Who may have a scheduler or worker run something: who has the run's key, and nobody else."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.conftest import Cli, Made
from tests.dask.conftest import Cluster, Start
from tests.steering import check_same

pytest.importorskip("distributed", reason="the extra dask is not installed")

import dask
from distributed import Client
from distributed.security import Security
from distributed.utils import get_ip

from dataprep_pipelines.runners.dask_slurm import slurm_scheduler

# Of another user, if it may become one: comes to addresses by every way, and asks for a mark there.
STRANGER = """
import asyncio, os, sys
from pathlib import Path
from distributed import Client
from distributed.security import Security

async def come(address, security, mark):
    try:
        async with asyncio.timeout(20):
            async with Client(address, security=security, asynchronous=True, timeout=1) as client:
                await client.submit(Path(mark).touch)
                print("let in")
    except Exception as error:
        print("turned away", type(error).__name__)

async def main(marks, key, copy, *addresses):
    if os.geteuid() == 0:
        os.setgroups([]), os.setgid(65534), os.setuid(65534)
        print("reads the key" if os.access(key, os.R_OK) else "has no key")
    for number, address in enumerate(addresses):
        await come(address.replace("tls", "tcp"), None, f"{marks}/{number}-plain")
        await come(address, Security.temporary(), f"{marks}/{number}-own")
    with_key = dict.fromkeys(("tls_ca_file", "tls_client_cert", "tls_client_key"), copy)
    await come(addresses[0], Security(require_encryption=True, **with_key), f"{marks}/copy")

asyncio.run(main(*sys.argv[1:]))
"""


def stranger(*words: object) -> list[str]:
    """What it finds that is told the directory for marks, the key, a copy, and addresses."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", STRANGER, *map(str, words)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    return done.stdout.splitlines()


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory that other users reach; those of pytest they do not."""
    with TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@contextmanager
def worker_of(cluster: Any, directory: Path) -> Iterator[None]:
    """A worker, started by the line of the job script."""
    (line,) = (line for line in cluster.job_script().splitlines() if "dask_worker" in line)
    words = [word for word in shlex.split(line) if word != "--nanny"]
    with (directory / "worker.log").open("wb") as log:
        process = subprocess.Popen(
            [*words, "--no-nanny", "--local-directory", directory],
            env=os.environ | {"PYTHONWARNINGS": "ignore"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()


@pytest.mark.skipif(find_spec("dask_jobqueue") is None, reason="dask-jobqueue is not installed")
def test_a_client_of_another_user_is_turned_away(shared: Path, tmp_path: Path) -> None:
    private, marks, copy = shared / "o u t" / ".dataprep", shared / "marks", shared / "copy"
    private.mkdir(parents=True)
    marks.mkdir()
    marks.chmod(0o777)
    with slurm_scheduler("nodes=1,cores=1", private / "slurm", "test") as cluster:
        (key,) = private.glob(".*")
        shutil.copyfile(key, copy)
        assert (key.stat().st_mode & 0o777, copy.stat().st_mode & 0o004) == (0o600, 0o004)
        assert "PRIVATE KEY" not in cluster.job_script()
        with worker_of(cluster, tmp_path), Client(cluster, set_as_default=False) as ours:
            ours.wait_for_workers(1, timeout=60)
            (worker,) = ours.scheduler_info()["workers"]
            found = stranger(marks, key, copy, cluster.scheduler_address, worker)
            if os.geteuid() == 0:
                assert found.pop(0) == "has no key"
            assert [line[:11] for line in found] == ["turned away"] * 4 + ["let in"], found
            assert [path.name for path in marks.iterdir()] == ["copy"]  # so it knows how to come
    assert not [*private.glob(".*")]


@pytest.mark.skipif(find_spec("dask_jobqueue") is None, reason="dask-jobqueue is not installed")
def test_a_user_s_own_certificates_are_used(tmp_path: Path) -> None:
    made, pem = Security.temporary(), tmp_path / "own.pem"
    pem.write_text(made.tls_ca_file + made.tls_scheduler_key)
    names = ("ca-file", "scheduler.cert", "client.cert", "worker.cert")
    own = {f"distributed.comm.tls.{name}": str(pem) for name in names}
    with dask.config.set(own), slurm_scheduler("nodes=1,cores=1", tmp_path / "logs", "x") as found:
        assert found.scheduler_address.startswith("tls://")
        assert "--tls-" not in found.job_script()
        assert {path.name for path in tmp_path.iterdir()} == {"own.pem", "logs"}


def test_a_scheduler_that_anybody_reaches_without_tls_is_warned_of_once(
    cli: Cli, tiny: Made, own_cluster: Start, cluster: Cluster, tmp_path: Path
) -> None:
    here = get_ip()
    if here.startswith("127."):
        pytest.skip("this machine has no network but its own")
    for which, found in (("own", cluster), ("other", own_cluster(1, host=here))):
        out = tmp_path / which
        result = cli(*tiny.command(out, *found.options()))
        assert result.code == 0, result
        warned = f"warning: the Dask scheduler at tcp://{here}:"
        assert result.out.count(warned) == (which == "other"), result.out
        shutil.rmtree(out / ".dataprep")
        check_same(tiny, out)
