"""What a job leaves of itself in /dev/shm and $TMPDIR, and what it wants of them: nothing."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from pathlib import Path

import pytest

from dataprep_pipelines.worker import HelperProcesses
from tests.conftest import BEAM, DATAPREP, Cli, Made

# Runs a command where nothing more goes into /dev/shm.
_FULL = 'mount -t tmpfs -o size=4k none /dev/shm && head -c 4096 /dev/zero >/dev/shm/x && exec "$@"'
HELPED = ("--workers", "6", "--num_shards", "train=1,validation=1", *BEAM)  # by processes of images
_PRIVATE = ("unshare", "--mount", "--map-root-user", "sh", "-c")


@pytest.fixture
def helpers() -> Iterator[HelperProcesses]:
    pool = HelperProcesses(2)
    yield pool
    pool.shutdown()


def test_helpers_give_back_what_comes_of_it(helpers: HelperProcesses) -> None:
    ends = [helpers.submit(divmod, number, 3) for number in range(20)]
    assert [end.result() for end in ends] == [divmod(number, 3) for number in range(20)]
    with pytest.raises(ZeroDivisionError):
        helpers.submit(divmod, 1, 0).result()
    assert os.getpid() not in {helpers.submit(os.getpid).result() for _ in range(9)}


def test_a_helper_that_dies_is_told(helpers: HelperProcesses) -> None:
    with pytest.raises(BrokenExecutor, match="a process that helps has died"):
        helpers.submit(signal.raise_signal, signal.SIGKILL).result()


@pytest.mark.thorough
def test_a_full_dev_shm_is_no_reason_to_stop(cli: Cli, tiny: Made, tmp_path: Path) -> None:
    if subprocess.run([*_PRIVATE, "true"], check=False).returncode:
        pytest.skip("this machine allows no user namespaces")
    words = tiny.command(tmp_path / "out", *HELPED)
    command = [*_PRIVATE, _FULL, "sh", *DATAPREP, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert cli("verify", tmp_path / "out", "--level", "decode").code == 0


@pytest.mark.thorough  # as every kill
def test_a_job_that_is_killed_leaves_nothing_on_the_machine(tiny: Made, tmp_path: Path) -> None:
    if subprocess.run([*_PRIVATE, "true"], check=False).returncode:
        pytest.skip("this machine allows no user namespaces")
    (tmp_path / "tmp").mkdir()
    out, listed = tmp_path / "out", tmp_path / "listed"
    # All is killed as soon as there are processes that help; then its /dev/shm is listed.
    inner = f"""mount -t tmpfs none /dev/shm
    setsid "$@" & job=$!
    while kill -0 $job && ! pgrep -g $job -f dataprep_pipelines.worker; do sleep 0.05; done
    kill -KILL -$job; wait $job; echo $?; ls /dev/shm >{listed}"""
    words = tiny.command(out, *HELPED)
    done = subprocess.run(
        [*_PRIVATE, inner, "sh", *DATAPREP, *words],
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.splitlines()[-1:] == [b"137"]
    assert listed.read_text() == ""
    assert not [*(tmp_path / "tmp").glob("beam-*")]
